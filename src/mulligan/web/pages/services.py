"""Services: what is down, and what waits for it? A list, and one service with its chart, its history and its switch."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta

from mulligan.console.services import ServiceHandle
from mulligan.records.event import Event
from mulligan.records.key import Scope
from mulligan.records.statistics import ProjectionStatus, Statistics
from mulligan.service.records import ServiceStatus
from mulligan.values.check import LONGEST_STRING
from mulligan.web.pages import service_chart, service_words
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.sentence import Pieces
from mulligan.web.pages.service_chart import Band, Course
from mulligan.web.pages.service_words import Condition, condition, waiting
from mulligan.web.pages.words import duration

pages = Pages("Services")

SIZE = 100
MOST_EVENTS = 300
MOST_CHAPTERS = 20
# A prefix such as `site:` that this many services share is offered as a filter.
LEAST_FAMILY = 5
MOST_FAMILIES = 6
# Statistics that are further behind the log are said to be.
LATE = timedelta(seconds=30)

_String = Annotated[str, Meta(max_length=LONGEST_STRING)]


class Range(NamedTuple):
    """A time that the chart can show, and the span of the statistics that it is drawn from."""

    name: str
    length: timedelta
    span: str
    step: timedelta


RANGES = {
    each.name: each
    for each in (
        Range("3h", timedelta(hours=3), "minute", timedelta(minutes=1)),
        Range("24h", timedelta(days=1), "hour", timedelta(hours=1)),
        Range("7d", timedelta(days=7), "hour", timedelta(hours=1)),
    )
}


class ServicesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`q` is a part of the name. `cursor` is the last service seen."""

    q: _String | None = None
    cursor: _String | None = None


class Row(NamedTuple):
    service: ServiceStatus
    condition: Condition
    path: str
    about: Pieces
    waiting: str


@pages.page("/services", scope=Scope.JOBS_READ, is_admin=True)
def services(call: PageCall, query: ServicesQuery) -> View:
    found: list[ServiceStatus] = call.console.services()
    text = (query.q or "").strip()
    matching = [each for each in found if text.lower() in each.name.lower()]
    rest = [each for each in sorted(matching, key=_key) if _key(each) > _read_cursor(query.cursor)]
    shown, is_more = rest[:SIZE], len(rest) > SIZE
    return View(
        "services.html",
        says=service_words.open_services(found),
        rows=[_row(each) for each in shown],
        total=len(found),
        matching=len(matching),
        left=len(rest) - len(shown),
        q=text,
        families=_families(found),
        following=_address(q=text, cursor=_cursor(shown[-1])) if is_more else None,
        path_of=_address,
    )


def _key(service: ServiceStatus) -> tuple[int, str]:
    return condition(service).rank, service.name


def _cursor(service: ServiceStatus) -> str:
    rank, name = _key(service)
    return f"{rank}/{name}"


def _read_cursor(cursor: str | None) -> tuple[int, str]:
    rank, _, name = (cursor or "").partition("/")
    return (int(rank), name) if rank.isascii() and rank.isdecimal() and len(rank) < 3 else (-1, "")


def _address(**given: str) -> str:
    values = {name: value for name, value in given.items() if value}
    return f"/services?{urlencode(values)}" if values else "/services"


def _families(found: Sequence[ServiceStatus]) -> list[tuple[str, int]]:
    """Prefixes that many names share, such as `site:`, with the number of services."""
    prefixes = Counter(prefix + ":" for each in found for prefix, colon, _ in [each.name.partition(":")] if colon)
    return [(prefix, count) for prefix, count in prefixes.most_common(MOST_FAMILIES) if count >= LEAST_FAMILY]


def _row(service: ServiceStatus) -> Row:
    return Row(
        service,
        condition(service),
        service_path(service.name),
        service_words.describe_row(service),
        service_words.many(waiting(service)),
    )


def service_path(name: str, *parts: str) -> str:
    return "/".join(["/services", quote(name, safe="/"), *parts])


class ServiceQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    range: Literal["3h", "24h", "7d"] = "3h"


@pages.page("/services/{name:path}", scope=Scope.JOBS_READ, is_admin=True)
def service(call: PageCall, name: str, query: ServiceQuery) -> View:
    handle: ServiceHandle = call.console.service(name)
    status = handle.status
    events: list[Event] = call.console.history(service=name, limit=MOST_EVENTS)
    shown = RANGES[query.range]
    statistics = _read_statistics(call, name, shown)
    course = _course(status, statistics, events, shown, call.now)
    chapters = service_words.tell(events)
    return View(
        "service.html",
        service=status,
        condition=condition(status),
        says=service_words.open_service(status),
        course=course,
        wide=service_chart.draw(course, service_chart.WIDE),
        narrow=service_chart.draw(course, service_chart.NARROW),
        data=service_chart.to_data(course),
        is_pattern=name.endswith("*") and not status.is_known and not waiting(status),
        prefix=name.removesuffix("*"),
        has_chart=bool(course.highest or course.bands or course.probes),
        shown=shown,
        ranges=list(RANGES),
        delay=_delay(statistics.status),
        chapters=chapters[:MOST_CHAPTERS],
        chapters_left=len(chapters[MOST_CHAPTERS:]),
        path=service_path(name),
        would=service_words.describe_force(status),
        waiting=service_words.many(waiting(status)),
        per_second=service_words.per_second,
        many=service_words.many,
        can_operate=call.allows(Scope.OPERATE) and not name.endswith("*"),
    )


def _read_statistics(call: PageCall, name: str, shown: Range) -> Statistics:
    found: Statistics = call.console.statistics(span=shown.span, since=call.now - shown.length, service=name)
    return found


def _course(
    status: ServiceStatus, statistics: Statistics, events: Sequence[Event], shown: Range, now: datetime
) -> Course:
    since = now - shown.length
    found = service_chart.to_course(
        statistics.rows, events, since=since, until=now, step=shown.step, counted_until=now - statistics.status.lag
    )
    is_down = status.state != "closed"
    if is_down and not any(band.sort == "open" and band.end is None for band in found.bands):
        # It opened before the events that are known.
        found = found._replace(bands=(*found.bands, Band("open", max(status.since or since, since), None)))
    return found


def _delay(status: ProjectionStatus) -> str:
    """How far the statistics are behind, if they are."""
    if status.is_rebuilding:
        return "The statistics are being derived again from the log: numbers are too low until then."
    return f"The statistics are {duration(status.lag)} behind the log." if status.lag > LATE else ""


@pages.action("/services/{name:path}/open", scope=Scope.OPERATE, is_admin=True)
def open_service(call: PageCall, name: str, form: WithReason) -> Done:
    _handle(call, name).open(actor=call.caller.actor, reason=form.reason, request_id=call.request_id)
    return Done(
        service_path(name), f"{name} is kept open.", "Its jobs wait until it is set to automatic or kept closed."
    )


@pages.action("/services/{name:path}/close", scope=Scope.OPERATE, is_admin=True)
def close_service(call: PageCall, name: str, form: WithReason) -> Done:
    _handle(call, name).close(actor=call.caller.actor, reason=form.reason, request_id=call.request_id)
    return Done(service_path(name), f"{name} is kept closed.", "Its jobs run, even if calls fail.")


@pages.action("/services/{name:path}/auto", scope=Scope.OPERATE, is_admin=True)
def automate_service(call: PageCall, name: str, form: WithReason) -> Done:
    found = _handle(call, name).auto(actor=call.caller.actor, reason=form.reason, request_id=call.request_id)
    probed = "A probe comes first." if found.state == "half_open" else ""
    return Done(service_path(name), f"{name} is automatic again: its calls decide.", probed)


def _handle(call: PageCall, name: str) -> ServiceHandle:
    handle: ServiceHandle = call.console.service(name)
    return handle


class PauseForm(WithReason, kw_only=True):
    """Without a duration, until it is resumed."""

    duration: Annotated[str, Meta(max_length=100)] | None = None


@pages.action("/services/{name:path}/pause", scope=Scope.OPERATE, is_admin=True)
def pause_service(call: PageCall, name: str, form: PauseForm) -> Done:
    call.console.pause(form.duration, service=name, reason=form.reason, request_id=call.request_id)
    until = f"for {form.duration}" if form.duration else "until it is resumed"
    return Done(service_path(name), f"{name} is paused {until}.")


@pages.action("/services/{name:path}/resume", scope=Scope.OPERATE, is_admin=True)
def resume_service(call: PageCall, name: str) -> Done:
    ended = call.console.resume(service=name, request_id=call.request_id)
    return Done(service_path(name), f"{name} is resumed." if ended else f"{name} was not paused.")
