"""`mulligan events`: the log of all that happened, once or as it grows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from mulligan.cli.opening import opened_existing, opened_for_watching
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import has_reader, say, say_json, say_json_line, say_table
from mulligan.cli.parameters import text
from mulligan.cli.summaries import about_event, short
from mulligan.console.documents import event_document
from mulligan.explain.words import stamp
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.app import App
    from mulligan.records.event import Event

PAGE = 500
LISTED, FOLLOWED = 50, 10
# Changes are hints only: look again after so many seconds.
LOOK_AGAIN = 1.0


@click.command("events", cls=CliCommand)
@click.option("--follow", is_flag=True, help="Go on with new events as they come, until Ctrl-C.")
@click.option(
    "--job",
    "job_id",
    metavar="ID",
    type=text,
    help="Of this job only, from its beginning; six characters of the id's end are enough.",
)
@click.option(
    "--after", type=click.IntRange(0, 10**15), metavar="N", help="From after this position on.  [default: the newest]"
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    help=f"At most so many at first.  [default: {LISTED}, following {FOLLOWED}]",
)
@pass_given
def events(given: Given, *, follow: bool, job_id: str | None, after: int | None, limit: int | None) -> None:
    """Show what happened, the oldest first. With --follow, --json gives one object a line."""
    if follow:
        with opened_for_watching(given) as app:
            job_id = job_id and app.find_id("job", job_id)
            _follow(app, given, job_id, _start(app, job_id, after, limit or FOLLOWED))
    else:
        with opened_existing(given) as app:
            job_id = job_id and app.find_id("job", job_id)
            limit = limit or LISTED
            asked = job_id is not None or after is not None
            _list(given, _read(app, job_id, _start(app, job_id, after, limit), limit) if asked else _newest(app, limit))


def _start(app: "App", job_id: str | None, after: int | None, limit: int) -> int:
    """The position to read on from: given, the job's beginning, or where the newest begin."""
    if job_id is not None:
        app.job(job_id)
    if after is not None:
        return after
    return 0 if job_id is not None else app.last_position(back=limit)


def _read(app: "App", job_id: str | None, after: int, limit: int) -> "list[Event]":
    return app.events(job_id, after=after, limit=limit)


def _newest(app: "App", limit: int) -> "list[Event]":
    """To the end of the log: a page may stop before it, where a transaction does not fit."""
    end, after = app.last_position(), app.last_position(back=limit)
    found: list[Event] = []
    while after < end and (page := _read(app, None, after, limit)):
        found += page
        after = page[-1].position
    return found


def _list(given: Given, found: "list[Event]") -> None:
    if given.as_json:
        last = found[-1].position if found else None
        say_json({"events": [event_document(event) for event in found], "after": last})
    elif found:
        headings = ("Position", "At", "Event", "Job", "Kind", "Attempt", "About")
        say_table(headings, [_cells(event) for event in found])
    else:
        say("No events here. The log grows with every job: enqueue one, or see it at work with: mulligan demo")


def _cells(event: "Event") -> tuple[str, ...]:
    return (
        str(event.position),
        stamp(event.at),
        event.type,
        short(event.job),
        event.kind,
        str(event.attempt or ""),
        about_event(event),
    )


def _follow(app: "App", given: Given, job_id: str | None, after: int) -> None:
    changes = app.store.changes()
    try:
        while has_reader():
            while found := _read(app, job_id, after, PAGE):
                _say_new(given, found)
                after = found[-1].position
            changes.wait(LOOK_AGAIN)
    except KeyboardInterrupt:
        return
    finally:
        changes.close()


def _say_new(given: Given, found: "Iterable[Event]") -> None:
    for event in found:
        if given.as_json:
            say_json_line(event_document(event))
        else:
            say("  ".join(safe(cell) for cell in _cells(event)).rstrip())
