"""`mulligan history`: what happened to one service or one batch itself."""

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import CliCommand, SharedOptions, limit_option, pass_shared
from mulligan.cli.output import show_table
from mulligan.cli.parameters import text
from mulligan.cli.summaries import about_event
from mulligan.explain.words import stamp
from mulligan.records.document import document_of


@click.command("history", cls=CliCommand)
@click.option("--service", metavar="NAME", type=text, help="How its state changed, and who changed it.")
@click.option("--batch", metavar="ID", type=text, help="Its generations; six characters of its id are enough.")
@limit_option(50)
@pass_shared
def history(shared: SharedOptions, *, service: str | None, batch: str | None, limit: int) -> None:
    """Show what happened to one service or one batch itself, newest first."""
    with open_either(shared) as app:
        whole = batch and app.find_id("batch", batch)
        found = app.history(service=service, batch=whole, limit=limit)
    rows = [(stamp(event.at), event.type, about_event(event)) for event in found]
    document = {"events": [document_of(event) for event in found]}
    show_table(
        shared, document, ("At", "Event", "About"), rows, empty="Nothing happened to it, as far as the log says."
    )
