"""For operators: workers, duties, stuck jobs, the retry scheduler, projections, and what is wrong."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mulligan.console.duties import DutyStatus
from mulligan.errors import UnknownDuty, UnknownProjection
from mulligan.explain.context import is_alive
from mulligan.records.document import document_of
from mulligan.records.duty import DUTIES, DutyRun, duty_named
from mulligan.records.event import Cursor
from mulligan.records.finding import Finding, Level
from mulligan.records.job import Job
from mulligan.records.key import Scope
from mulligan.records.pause import Pause
from mulligan.store.messages import WorkerRecord
from mulligan.web.api.terms import Duration, Limited, PageSize, Reason, ReasonGiven, String, given
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Operations")

# The schedulers that are paused if none is named.
SCHEDULERS = ("STUCK_JOBS", "FAILED_JOBS", "DELAYED_JOBS")


class WorkersStatus(msgspec.Struct, kw_only=True):
    """The workers that the store knows, and the duties that they do."""

    workers: list[WorkerRecord]
    duties: list[DutyStatus]


@routes.get("/admin/workers/status", scope=Scope.JOBS_READ, is_admin=True, answer=One(WorkersStatus))
def workers_status(call: Call) -> Any:
    """Every worker: whether it is alive, how many jobs it holds, what it runs. Every duty, with its pause."""
    now = call.console.now
    workers = [document_of(worker, is_alive=is_alive(worker, now)) for worker in call.console.workers()]
    return {"workers": workers, "duties": [document_of(duty) for duty in call.console.duties()]}


class StuckQuery(Limited, kw_only=True):
    owner: String | UnsetType = UNSET


@routes.get("/admin/jobs/stuck", scope=Scope.JOBS_READ, is_admin=True, answer=Many("jobs", Job))
def stuck(call: Call, query: StuckQuery) -> Any:
    """Jobs that run longer than the stuck limit and their own timeout, longest first."""
    return call.console.stuck(limit=query.limit, **given(owner=query.owner))


class StuckJobs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: PageSize = 200
    owner: String | UnsetType = UNSET


@routes.post("/admin/jobs/stuck", scope=Scope.JOBS_READ, is_admin=True, answer=Many("jobs", Job))
def stuck_jobs(call: Call, body: StuckJobs) -> Any:
    """The same as GET /admin/jobs/stuck, for clients that send a body. Nothing is changed."""
    return call.console.stuck(limit=body.limit, **given(owner=body.owner))


class ProcessStuck(StuckJobs, kw_only=True):
    reason: ReasonGiven | None = None


@routes.post("/admin/jobs/process-stuck", scope=Scope.OPERATE, is_admin=True, answer=Many("jobs", Job))
def process_stuck(call: Call, body: ProcessStuck) -> Any:
    """Take stuck jobs from their workers. Each is settled as a TIMEOUT failure, by its policy."""
    return call.console.process_stuck(
        limit=body.limit, reason=body.reason, request_id=call.request_id, **given(owner=body.owner)
    )


@routes.get("/admin/duties", scope=Scope.JOBS_READ, is_admin=True, answer=Many("duties", DutyStatus))
def duties(call: Call) -> Any:
    """Every duty, with its interval, its last run, its next run and its pause."""
    return call.console.duties()


@routes.post("/admin/duties/{name}/run", scope=Scope.OPERATE, is_admin=True, answer=One(DutyRun), errors=[UnknownDuty])
def run_duty(call: Call, name: str, body: Reason) -> Any:
    """Run a duty once in the server, even if it is paused."""
    return call.console.run_duty(name, reason=body.reason, request_id=call.request_id)


Scheduler = Annotated[
    str,
    Meta(max_length=100, description=f"One of {', '.join(duty.alias for duty in DUTIES)}.", examples=[SCHEDULERS[0]]),
]


class Schedulers(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    types: Annotated[list[Scheduler], Meta(min_length=1, max_length=len(DUTIES))] = msgspec.field(
        default_factory=lambda: list(SCHEDULERS)
    )
    reason: ReasonGiven | None = None


class SchedulersPaused(Schedulers, kw_only=True):
    duration: Duration | None = None
    """After this time they are resumed automatically. Null: they are paused until they are resumed."""


class SchedulersResumed(msgspec.Struct, kw_only=True):
    """The pauses that were ended."""

    ended: list[Pause]


@routes.post(
    "/admin/retry-scheduler/pause",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=Many("pauses", Pause),
    errors=[UnknownDuty],
)
def pause_schedulers(call: Call, body: SchedulersPaused) -> Any:
    """Pause retries, delayed jobs or the handling of stuck jobs, for a time or until they are resumed."""
    return [
        call.console.pause(body.duration, duty=duty, reason=body.reason, request_id=_part(call, duty))
        for duty in _duties(body.types)
    ]


@routes.post(
    "/admin/retry-scheduler/resume",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(SchedulersResumed),
    errors=[UnknownDuty],
)
def resume_schedulers(call: Call, body: Schedulers) -> Any:
    """End the pauses of these schedulers."""
    ended = [
        call.console.resume(duty=duty, reason=body.reason, request_id=_part(call, duty)) for duty in _duties(body.types)
    ]
    return SchedulersResumed(ended=[pause for pause in ended if pause is not None])


def _duties(types: list[str]) -> list[str]:
    """Their names. All are known before the first is changed."""
    return list(dict.fromkeys(duty_named(name).name for name in types))


def _part(call: Call, duty: str) -> str | None:
    """The request id of one of several changes."""
    return None if call.request_id is None else f"{call.request_id}/{duty}"


class ProjectionList(msgspec.Struct, kw_only=True):
    """`last_position` is the end of the log."""

    projections: list[Cursor]
    last_position: int


@routes.get("/projections", scope=Scope.JOBS_READ, is_admin=True, answer=One(ProjectionList))
def projections(call: Call) -> Any:
    """The projections of the event log, the one that is furthest behind first."""
    return ProjectionList(projections=call.console.projections(), last_position=call.console.last_position())


class Dropped(msgspec.Struct, kw_only=True):
    dropped: str


@routes.delete(
    "/projections/{name:path}", scope=Scope.OPERATE, is_admin=True, answer=One(Dropped), errors=[UnknownProjection]
)
def drop_projection(call: Call, name: str) -> Any:
    """Drop a projection that is not used any more. No events are kept for it any longer."""
    call.console.drop_projection(name, request_id=call.request_id)
    return Dropped(dropped=name)


class Examination(msgspec.Struct, kw_only=True):
    """What the doctor found, and how much of it is a problem or a warning."""

    findings: list[Finding]
    problems: int
    warnings: int


@routes.get("/doctor", scope=Scope.JOBS_READ, is_admin=True, answer=One(Examination))
def doctor(call: Call) -> Any:
    """What is wrong with store, workers and jobs, with the remedy. Nothing is changed."""
    found = call.console.doctor()
    levels = [finding.level for finding in found]
    return Examination(findings=found, problems=levels.count(Level.PROBLEM), warnings=levels.count(Level.WARNING))
