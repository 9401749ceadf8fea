"""`mulligan demo`: workers, failures and retries, in a browser or in one terminal."""

import click

from mulligan.cli.demo.drill.plan import LONGEST, SHORTEST, USUAL_SECONDS
from mulligan.cli.options import CliCommand, SharedOptions


@click.command("demo", cls=CliCommand)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help=f"End after this time.  [default: until Ctrl-C; {USUAL_SECONDS:.0f} for the drill]",
)
@click.option("--plain", is_flag=True, help="In the terminal, with faults by a plan. Implied by --seconds and --json.")
@click.option("--drill", is_flag=True, help="An outage of a service under load, with and without breaker and pace.")
@click.pass_context
def demo(context: click.Context, *, seconds: float | None, plain: bool, drill: bool) -> None:
    """Watch jobs run, fail, wait, succeed and die. Uses a new database, unless --database names one.

    It prints a link to the dashboard, where you break and heal the gateway that the jobs call. With --plain, it runs in
    the terminal alone. With --json, only the summary is printed at the end.
    """
    shared = context.ensure_object(SharedOptions)
    if drill:
        context.exit(_drill(shared, seconds))
    if not (plain or seconds is not None or shared.as_json):
        context.exit(_open_dashboard(shared.database))
    from mulligan.cli.demo.session import run_demo

    context.exit(run_demo(seconds=seconds, database=shared.database, as_json=shared.as_json))


def _open_dashboard(database: str | None) -> int:
    """In a browser, or in the terminal if the extra is not installed."""
    try:
        from mulligan.cli.demo.dashboard import run_dashboard
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "mulligan":
            raise
        from mulligan.cli.demo.session import run_demo

        text = f"The dashboard needs {error.name}: pip install 'mulligan[web]'. This is the demo in the terminal."
        click.echo(text, err=True)
        return run_demo(seconds=None, database=database, as_json=False)
    return run_dashboard(database=database)


def _drill(shared: SharedOptions, seconds: float | None) -> int:
    if shared.database or shared.app:
        raise click.UsageError("the drill has its own app and databases; omit --app and --database")
    if seconds is not None and not SHORTEST <= seconds <= LONGEST:
        raise click.BadParameter(f"a drill takes {SHORTEST:.0f} to {LONGEST:.0f} seconds", param_hint="'--seconds'")
    from mulligan.cli.demo.drill.session import run_drill

    return run_drill(seconds=seconds, as_json=shared.as_json)
