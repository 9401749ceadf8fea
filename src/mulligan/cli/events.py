"""`mulligan events`: print the event log, and follow it."""

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import partial
from typing import Any

import click

from mulligan.app import App
from mulligan.cli.opening import open_either
from mulligan.cli.options import KIND, OWNER, CliCommand, SharedOptions, complete_ids, pass_shared
from mulligan.cli.output import echo, print_json_line, show_table, watch
from mulligan.cli.parameters import text
from mulligan.cli.summaries import about_event, short
from mulligan.explain.words import stamp
from mulligan.lifecycle import EVENT_TYPES
from mulligan.records.document import document_of
from mulligan.records.event import Event, EventPage
from mulligan.values.text import safe

HEADINGS = ("Position", "At", "Event", "Job", "Kind", "Attempt", "About")
PAGE = 500
LISTED, FOLLOWED = 50, 10
# How much further back each search for the newest matching events goes.
STEP = 10

Read = Callable[..., EventPage]


@click.command("events", cls=CliCommand)
@click.option("--follow", is_flag=True, help="Print new events as they come, until Ctrl-C.")
@click.option(
    "--job",
    metavar="ID",
    type=text,
    help="Only events of this job, from its beginning; six characters of its id are enough.",
)
@click.option("--batch", type=text, help="Only events of this batch and its members; six characters are enough.")
@KIND
@OWNER
@click.option("--type", "types", metavar="TYPE", multiple=True, type=click.Choice(EVENT_TYPES), help="Can be repeated.")
@click.option(
    "--after", type=click.IntRange(0, 10**15), metavar="N", help="Events after this position.  [default: the newest]"
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    help=f"At most this many at first.  [default: {LISTED}; {FOLLOWED} with --follow]",
)
@pass_shared
def events(shared: SharedOptions, /, *, follow: bool, after: int | None, limit: int | None, **wanted: Any) -> None:
    """Show the event log, oldest first. With --follow, --json prints one object a line."""
    with open_either(shared, watches=follow) as app:
        read = partial(app.stream, **complete_ids(app, wanted, "job", "batch") | {"types": wanted["types"] or None})
        if wanted["job"]:
            after = after or 0
        if follow:
            _follow(app, shared, read, after, limit or FOLLOWED)
        elif after is None:
            _list(shared, _newest(app, read, limit or LISTED))
        else:
            _list(shared, _next(read, after, limit or LISTED))


def _next(read: Read, after: int, limit: int) -> EventPage:
    """Read on until there are enough events, or none are left."""
    page = read(after=after, limit=limit)
    found, is_pruned = page.events, page.is_pruned
    while len(found) < limit and not page.is_end:
        page = read(after=page.position, limit=limit - len(found))
        found += page.events
    return EventPage(found, page.position, page.is_end, is_pruned)


def _newest(app: App, read: Read, limit: int) -> EventPage:
    """Go back in larger and larger steps until there are enough events, then leave out the oldest. Those that were
    written together stay together."""
    end, back = app.last_position(), limit
    while True:
        after = app.last_position(back=back)
        found: tuple[Event, ...] = ()
        position = after
        while position < end:
            page = read(after=position, limit=PAGE)
            found, position = found + page.events, page.position
        if len(found) >= limit or after == 0:
            break
        back *= STEP
    first = found[-limit].position if len(found) > limit else 0
    return EventPage(tuple(event for event in found if event.position >= first), position, is_end=True)


def _list(shared: SharedOptions, page: EventPage) -> None:
    if page.is_pruned:
        _warn_pruned()
    document = {"events": [document_of(event) for event in page.events], "after": page.position}
    none = "No events. Enqueue a job, or see some with: mulligan demo"
    show_table(
        shared,
        document | {"is_pruned": page.is_pruned},
        HEADINGS,
        [_cells(event) for event in page.events],
        empty=none if page.position == 0 else "No events match.",
    )


def _warn_pruned() -> None:
    click.echo("Some events after this position were deleted with their jobs, and are missing here.", err=True)


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


def _follow(app: App, shared: SharedOptions, read: Read, after: int | None, limit: int) -> None:
    position = app.last_position(back=limit) if after is None else after
    # Without --after, what was deleted among the newest was not asked for.
    must_be_whole = after is not None
    with suppress(KeyboardInterrupt), closing(watch(app)) as changes:
        for _ in changes:
            is_end = False
            while not is_end:
                page = read(after=position, limit=PAGE)
                if page.is_pruned and must_be_whole:
                    _warn_pruned()
                _print_new(shared, page.events)
                position, is_end = page.position, page.is_end
            must_be_whole = True


def _print_new(shared: SharedOptions, found: Iterable[Event]) -> None:
    for event in found:
        if shared.as_json:
            print_json_line(document_of(event))
        else:
            echo("  ".join(safe(cell) for cell in _cells(event)).rstrip())
