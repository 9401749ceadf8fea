"""Jobs: find and explain them."""

import asyncio
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mulligan.console.arguments import LARGEST_PAGE, LAST_POSITION
from mulligan.errors import JobNotFound
from mulligan.explain import Explanation
from mulligan.records.counts import COLUMNS, Counts
from mulligan.records.document import Time, document_of
from mulligan.records.event import Event
from mulligan.records.job import Job, Page
from mulligan.records.key import Scope
from mulligan.records.progress import Progress
from mulligan.web.access.caller import Caller
from mulligan.web.api.terms import PageSize, Reveal, String
from mulligan.web.filters import filter_type, to_filter
from mulligan.web.route import Call, Many, One, Response, Routes
from mulligan.web.visible import visible

routes = Routes("Jobs")

JobsQuery = filter_type("JobsQuery", limit=(PageSize, 50), cursor=(String | None, None), reveal=(Reveal, False))
CountsQuery = filter_type("CountsQuery", by=(Literal[tuple(COLUMNS)], "state"))


@routes.get("/jobs", scope=Scope.JOBS_READ, answer=One(Page), query=JobsQuery)
async def jobs(call: Call, query: Any) -> Any:
    """One page of jobs, newest first. `cursor` of the answer leads to the next page; it is null on the last.

    A page has fewer jobs than `limit` if their arguments and results are more than 1 MiB together.
    """
    page, blocked, size = await asyncio.to_thread(_read_page, call, query)
    return await call.compute_apart(size, partial(_write_page, page, blocked, call.viewer))


def _read_page(call: Call, query: Any) -> tuple[Page[Any], dict[str, str], int]:
    """A page, what blocks its jobs, and how large it is."""
    page = call.console.jobs(to_filter(query), limit=query.limit, cursor=query.cursor)
    size = sum(len(msgspec.json.encode([job.arguments, job.result])) for job in page.jobs)
    return page, call.console.blocked_by(page.jobs), size


def _write_page(page: Page[Any], blocked: dict[str, str], viewer: Caller) -> Response:
    # One job after the other: each that is masked is a copy.
    written = [
        msgspec.Raw(msgspec.json.encode(document_of(visible(job, viewer), blocked_by=blocked.get(job.id))))
        for job in page.jobs
    ]
    body = msgspec.json.encode({"jobs": written, "cursor": page.cursor, "damaged": page.damaged})
    return Response(body, media_type="application/json")


@routes.get("/jobs/counts", scope=Scope.JOBS_READ, answer=One(Counts), query=CountsQuery)
def counts(call: Call, query: Any) -> Any:
    """Count jobs by state, kind, queue, code, last code, group, owner or batch.

    At most 10,000 jobs of each state are read."""
    return call.console.counts(to_filter(query), by=query.by)


class ProgressQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    job: String | None = None
    batch: String | None = None
    since: Time | None = None
    limit: PageSize = 500


@routes.get("/jobs/progress", scope=Scope.JOBS_READ, answer=Many("progress", Progress))
def progress(call: Call, query: ProgressQuery) -> Any:
    """The progress of running jobs that changed after `since`, the oldest change first."""
    return call.console.progress(job=query.job, batch=query.batch, since=query.since, limit=query.limit)


class LastFailures(msgspec.Struct, kw_only=True):
    """The event of the last failure of each job, by the id of the job. Jobs that never failed are missing."""

    failures: dict[str, Event]


class IdsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    ids: Annotated[list[String], Meta(max_length=LARGEST_PAGE)]


@routes.get("/jobs/last-failures", scope=Scope.JOBS_READ, answer=One(LastFailures))
def last_failures(call: Call, query: IdsQuery) -> Any:
    """The last failure of each of these jobs: for a page of jobs at once."""
    found = call.console.last_failures(query.ids)
    return LastFailures(failures={job_id: visible(event, call.viewer) for job_id, event in found.items()})


class Revealed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    reveal: Reveal = False


@routes.get("/jobs/{job_id}", scope=Scope.JOBS_READ, answer=One(Job), errors=[JobNotFound])
def job(call: Call, job_id: str, query: Revealed) -> Any:  # noqa: ARG001 - the endpoint reads it
    """One job as it is now."""
    found = visible(call.console.job(job_id), call.viewer)
    return document_of(found, blocked_by=call.console.blocked_by([found]).get(found.id))


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    after: Annotated[int, Meta(ge=0, le=LAST_POSITION)] = 0
    """A position: only later events."""
    limit: PageSize = 500


@routes.get("/jobs/{job_id}/events", scope=Scope.JOBS_READ, answer=Many("events", Event), errors=[JobNotFound])
def job_events(call: Call, job_id: str, query: EventsQuery) -> Any:
    """The history of a job, oldest first. Continue with `after` as the position of the last event."""
    found = call.console.job(job_id)
    return call.console.events(found.id, after=query.after, limit=query.limit)


@routes.get("/jobs/{job_id}/explain", scope=Scope.JOBS_READ, answer=One(Explanation), errors=[JobNotFound])
def explain(call: Call, job_id: str) -> Any:
    """What happened to a job, what comes next, and what can be done. An owner is told no worker and no person."""
    return call.console.explain(job_id)


class Position(msgspec.Struct, kw_only=True):
    """The place of a job in the order in which workers claim. With `at_least` it may be later."""

    id: str
    position: int | None
    """The next job is 1. Null if the job is not queued."""
    at_least: bool


@routes.get("/jobs/{job_id}/position", scope=Scope.JOBS_READ, answer=One(Position), errors=[JobNotFound])
def position(call: Call, job_id: str) -> Any:
    """When a queued job is claimed: 1 is next. Jobs of all queues count, up to 1,000."""
    found = call.console.queue_position(job_id)
    return Position(id=job_id, position=found, at_least=found is not None and found >= LARGEST_PAGE)
