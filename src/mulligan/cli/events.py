"""`mulligan events`: print the event log, and follow it."""

from collections.abc import Iterable
from contextlib import closing, suppress

import click

from mulligan.app import App
from mulligan.cli.opening import open_existing, open_for_watching
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json_line, show_table, watch
from mulligan.cli.parameters import text
from mulligan.cli.summaries import about_event, short
from mulligan.explain.words import stamp
from mulligan.records.document import document_of
from mulligan.records.event import Event
from mulligan.values.text import safe

HEADINGS = ("Position", "At", "Event", "Job", "Kind", "Attempt", "About")
PAGE = 500
LISTED, FOLLOWED = 50, 10


@click.command("events", cls=CliCommand)
@click.option("--follow", is_flag=True, help="Print new events as they come, until Ctrl-C.")
@click.option(
    "--job",
    "job_id",
    metavar="ID",
    type=text,
    help="Only events of this job, from its beginning; six characters of its id are enough.",
)
@click.option(
    "--after", type=click.IntRange(0, 10**15), metavar="N", help="Events after this position.  [default: the newest]"
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    help=f"At most this many at first.  [default: {LISTED}; {FOLLOWED} with --follow]",
)
@pass_shared
def events(shared: SharedOptions, *, follow: bool, job_id: str | None, after: int | None, limit: int | None) -> None:
    """Show the event log, oldest first. With --follow, --json prints one object a line."""
    with open_for_watching(shared) if follow else open_existing(shared) as app:
        job_id = job_id and app.find_id("job", job_id)
        if follow:
            _follow(app, shared, job_id, _start(app, job_id, after, limit or FOLLOWED))
        else:
            _list(shared, _find(app, job_id, after, limit or LISTED))


def _find(app: App, job_id: str | None, after: int | None, limit: int) -> list[Event]:
    if job_id is None and after is None:
        return _newest(app, limit)
    return app.events(job_id, after=_start(app, job_id, after, limit), limit=limit)


def _start(app: App, job_id: str | None, after: int | None, limit: int) -> int:
    """The position to read from: the given one, the beginning of the job, or that of the newest events."""
    if job_id is not None:
        app.job(job_id)
    if after is not None:
        return after
    return 0 if job_id is not None else app.last_position(back=limit)


def _newest(app: App, limit: int) -> list[Event]:
    """Read to the end of the log. A page ends earlier if the next transaction does not fit."""
    end, after = app.last_position(), app.last_position(back=limit)
    found: list[Event] = []
    while after < end and (page := app.events(after=after, limit=limit)):
        found += page
        after = page[-1].position
    return found


def _list(shared: SharedOptions, found: list[Event]) -> None:
    last = found[-1].position if found else None
    document = {"events": [document_of(event) for event in found], "after": last}
    none = "No events. Enqueue a job, or see some with: mulligan demo"
    show_table(shared, document, HEADINGS, [_cells(event) for event in found], empty=none)


def _cells(event: Event) -> tuple[str, ...]:
    return (
        str(event.position),
        stamp(event.at),
        event.type,
        short(event.job),
        event.kind,
        str(event.attempt or ""),
        about_event(event),
    )


def _follow(app: App, shared: SharedOptions, job_id: str | None, after: int) -> None:
    with suppress(KeyboardInterrupt), closing(watch(app)) as changes:
        for _ in changes:
            while found := app.events(job_id, after=after, limit=PAGE):
                _print_new(shared, found)
                after = found[-1].position


def _print_new(shared: SharedOptions, found: Iterable[Event]) -> None:
    for event in found:
        if shared.as_json:
            print_json_line(document_of(event))
        else:
            echo("  ".join(safe(cell) for cell in _cells(event)).rstrip())
