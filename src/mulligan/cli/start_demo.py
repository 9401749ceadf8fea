"""`mulligan demo`: see it all at work in one terminal."""

import click

from mulligan.cli.given import Command


@click.command("demo", cls=Command)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="End after so long.  [default: Ctrl-C ends it]"
)
@click.pass_context
def demo(context: click.Context, *, seconds: float | None) -> None:
    """Watch jobs flow, fail, wait, succeed and die, on a database of their own."""
    from mulligan.cli.demo import run_demo

    context.exit(run_demo(seconds=seconds))
