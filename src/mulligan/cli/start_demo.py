"""`mulligan demo`: see it all at work in one terminal."""

import click

from mulligan.cli.demo.drill.plan import LONGEST, SHORTEST, USUAL_SECONDS
from mulligan.cli.options import CliCommand, Given


@click.command("demo", cls=CliCommand)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help=f"End after so long.  [default: Ctrl-C ends it; {USUAL_SECONDS:.0f} for the drill]",
)
@click.option("--drill", is_flag=True, help="An outage of a service under load, with breaker and pace, and without.")
@click.pass_context
def demo(context: click.Context, *, seconds: float | None, drill: bool) -> None:
    """Watch jobs flow, fail, wait, succeed and die. On a database of its own, unless --database names one.

    With --json only the summary is printed, at the end.
    """
    given = context.ensure_object(Given)
    if drill:
        context.exit(_drill(given, seconds))
    from mulligan.cli.demo import run_demo

    context.exit(run_demo(seconds=seconds, database=given.database, as_json=given.as_json))


def _drill(given: Given, seconds: float | None) -> int:
    if given.database or given.app:
        raise click.UsageError("the drill brings its own app and databases; leave out --app and --database")
    if seconds is not None and not SHORTEST <= seconds <= LONGEST:
        raise click.BadParameter(f"a drill takes {SHORTEST:.0f} to {LONGEST:.0f} seconds", param_hint="'--seconds'")
    from mulligan.cli.demo.drill import run_drill

    return run_drill(seconds=seconds, as_json=given.as_json)
