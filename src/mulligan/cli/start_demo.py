"""`mulligan demo`: see it all at work in one terminal."""

import click

from mulligan.cli.given import Command, Given


@click.command("demo", cls=Command)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="End after so long.  [default: Ctrl-C ends it]"
)
@click.pass_context
def demo(context: click.Context, *, seconds: float | None) -> None:
    """Watch jobs flow, fail, wait, succeed and die. On a database of its own, unless --database names one.

    With --json only the summary is printed, at the end.
    """
    from mulligan.cli.demo import run_demo

    given = context.ensure_object(Given)
    context.exit(run_demo(seconds=seconds, database=given.database, as_json=given.as_json))
