"""`mulligan projections`: list the projections of the event log, and drop one."""

from datetime import datetime

import click

from mulligan.cli.opening import open_existing
from mulligan.cli.options import Group, SharedOptions, one_argument, pass_shared, without_subcommand
from mulligan.cli.output import show, show_table
from mulligan.explain.words import relative
from mulligan.records.document import document_of
from mulligan.records.event import Cursor
from mulligan.values.clock import SystemClock

HEADINGS = ("Projection", "Position", "Moved", "About")
NONE = "No projections. app.project(…) begins one."


@click.group("projections", cls=Group, invoke_without_command=True)
@without_subcommand
def projections(shared: SharedOptions) -> None:
    """List the projections, the one that is furthest behind first."""
    with open_existing(shared) as app:
        found, last = app.projections(), app.last_position()
    now = SystemClock().now()
    document = {"projections": [document_of(cursor) for cursor in found], "last_position": last}
    show_table(shared, document, HEADINGS, [_row(cursor, last, now) for cursor in found], empty=NONE)


def _row(cursor: Cursor, last: int, now: datetime) -> tuple[str, ...]:
    about = "at the end of the log"
    if cursor.position < last:
        about = f"behind the end, {last}; no event after its position is deleted"
    return cursor.name, str(cursor.position), relative(cursor.updated_at, now), about


@projections.command("drop")
@one_argument("name", "NAME")
@pass_shared
def drop(shared: SharedOptions, /, *, name: str) -> None:
    """Drop a projection that is not used any more.

    Its position is deleted, and no events are kept for it any longer. Used again, it begins with the oldest event.
    """
    with open_existing(shared) as app:
        app.drop_projection(name)
    show(shared, {"dropped": name}, f"{name} was dropped: no events are kept for it any longer.")
