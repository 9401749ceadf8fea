"""`mulligan audit`: who changed what through the HTTP API."""

from datetime import datetime

import click

from mulligan.cli.opening import open_existing
from mulligan.cli.options import CliCommand, SharedOptions, limit_option, pass_shared
from mulligan.cli.output import show_table
from mulligan.cli.parameters import text
from mulligan.explain.words import at
from mulligan.records.audit import AuditEntry
from mulligan.records.document import document_of


@click.command("audit", cls=CliCommand)
@click.option("--owner", type=text, help="Only changes by keys of this owner.")
@limit_option(50)
@click.option("--cursor", type=text, help="The id of the last entry of the previous page.")
@pass_shared
def audit(shared: SharedOptions, *, owner: str | None, limit: int, cursor: str | None) -> None:
    """List changes made through the HTTP API, and changes of keys, newest first."""
    with open_existing(shared) as app:
        found, now = app.audit(owner=owner, limit=limit, cursor=cursor), app.store.now()
    headings = ("Time", "Actor", "From", "Action", "Status", "Target")
    document = {"audit": [document_of(entry) for entry in found]}
    show_table(shared, document, headings, [_row(entry, now) for entry in found], empty="No changes.")


def _row(entry: AuditEntry, now: datetime) -> tuple[str, ...]:
    status = "" if entry.status is None else str(entry.status)
    return at(entry.at, now), entry.actor, entry.ip or "", entry.action, status, entry.target or ""
