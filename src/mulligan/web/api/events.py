"""The event log: pages by cursor, and the stream."""

import asyncio
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request

from mulligan.console.arguments import LAST_POSITION
from mulligan.errors import BatchNotFound, JobNotFound, StoreError, UnknownService
from mulligan.lifecycle import EVENT_TYPES
from mulligan.records.event import Event, EventPage
from mulligan.records.key import Scope
from mulligan.records.progress import Progress
from mulligan.web.api.terms import PageSize, String, admin_only, given
from mulligan.web.problems import Problem
from mulligan.web.route import Call, Many, Messages, One, Response, Routes
from mulligan.web.stream.message import Reset
from mulligan.web.stream.response import EventStream
from mulligan.web.stream.stream import Stream
from mulligan.web.stream.wanted import PROGRESS, Wanted

routes = Routes("Events")

Position = Annotated[int, Meta(ge=0, le=LAST_POSITION)]
# No log has a position below zero.
UNKNOWN = -1


class Selection(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`types` are separated by commas, or given several times. `owner` is for administrators."""

    job: String | None = None
    batch: String | None = None
    kind: String | None = None
    owner: String | None = None
    types: list[String] = []


class EventsQuery(Selection, kw_only=True):
    after: Position = 0
    """Only later events."""
    limit: PageSize = 500


class StreamQuery(Selection, kw_only=True):
    after: Position | None = None
    """Only later events. The header Last-Event-ID comes first."""


@routes.get("/events", scope=Scope.JOBS_READ, answer=One(EventPage), query=EventsQuery, errors=[JobNotFound])
def events(call: Call, query: EventsQuery) -> Any:
    """The next events of the log, oldest first. Continue with `after` set to `position` of the answer."""
    return call.console.stream(
        after=query.after, limit=query.limit, types=_types(query) or None, **_filter(call, query)
    )


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One of `service`, with an administrator's key only, and `batch`."""

    service: String | None = None
    batch: String | None = None
    limit: PageSize = 100


@routes.get(
    "/history",
    scope=Scope.JOBS_READ,
    answer=Many("events", Event),
    query=HistoryQuery,
    errors=[BatchNotFound, UnknownService],
)
def history(call: Call, query: HistoryQuery) -> Any:
    """The newest events about one service or one batch itself, newest first. Their jobs are in `/events`."""
    terms = admin_only(call, service=query.service) | given(batch=query.batch)
    return call.console.history(limit=query.limit, **terms)


class PositionQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    back: Position = 0


class LogPosition(msgspec.Struct, kw_only=True):
    """A place in the log."""

    position: int


@routes.get("/events/position", scope=Scope.JOBS_READ, answer=One(LogPosition), query=PositionQuery)
def last_position(call: Call, query: PositionQuery) -> Any:
    """The position of the last event, or that of the event so many events back."""
    return LogPosition(position=call.console.last_position(back=query.back))


@routes.get(
    "/events/stream",
    scope=Scope.JOBS_READ,
    query=StreamQuery,
    errors=[JobNotFound, BatchNotFound],
    problems=[(429, "TOO_MANY_STREAMS")],
    answer=Messages((Event, Progress, Reset)),
)
async def event_stream(call: Call, query: StreamQuery) -> Response:
    """Follow the log as server-sent events: `event` is the type, `data` the document, `id` the position.

    A client that was cut off continues after `Last-Event-ID`, or after the position `after`. Without them the stream
    begins now. `reset` means that events were missed: they were deleted, or the position is not of this log.
    `job.progress` has no position and is not repeated.
    """
    wanted, filters = _types(query), _filter(call, query)
    if query.job is not None:
        await asyncio.to_thread(call.console.job, query.job)
    if query.batch is not None:
        await asyncio.to_thread(call.console.find_batch, query.batch)
    stored = [each for each in wanted if each != PROGRESS] if wanted else None

    def read(**page: Any) -> Any:
        return call.console.stream(**page, **filters, types=stored)

    owner = filters.get("owner") if call.caller.is_admin else call.caller.owner
    hub = call.request.app.state.hub
    selected = Wanted(
        owner=owner,
        job=query.job,
        batch=query.batch,
        kind=query.kind,
        types=frozenset(wanted) if wanted else None,
    )
    stream = Stream(hub, selected, read, after=_after(call.request, query), is_for_owner=not call.caller.is_admin)
    stream.is_allowed = partial(_is_allowed, call)
    # Administrators share no owner.
    counted_as = f"key {call.caller.key}" if call.caller.is_admin else f"owner {call.caller.owner}"
    return EventStream(hub, stream, counted_as)


async def _is_allowed(call: Call) -> bool:
    """Whether the key is still accepted, and allows the same."""
    try:
        return bool(await call.request.app.state.access.identify(call.request) == call.caller)
    except Problem as problem:
        return problem.status not in (401, 403)
    except StoreError:
        return True


def _types(query: Selection) -> list[str]:
    types = [each for given in query.types for each in given.split(",") if each]
    possible = (*EVENT_TYPES, PROGRESS) if isinstance(query, StreamQuery) else EVENT_TYPES
    if unknown := [each for each in types if each not in possible]:
        raise Problem(400, "VALIDATION_ERROR", f"there is no event type {unknown[0]!r:.80}", path="?.types")
    return types


def _filter(call: Call, query: Selection) -> dict[str, Any]:
    """The console adds the owner of its caller."""
    found: dict[str, Any] = {"job": query.job, "batch": query.batch, "kind": query.kind}
    if call.caller.is_admin:
        return found | {"owner": query.owner}
    if query.owner not in (None, call.caller.owner):
        raise Problem(403, "FORBIDDEN", "a key sees the events of its own owner only", path="?.owner")
    return found


def _after(request: Request, query: StreamQuery) -> int | None:
    """A client that connects again sends the header, and the address it had at first."""
    given = request.headers.get("last-event-id")
    if not given:
        return query.after
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 20 else UNKNOWN
