"""Move one job: retry, run, cancel or snooze it; delete its result; release its dedupe key."""

from typing import Any

from mulligan.errors import Conflict, IllegalMove, InsufficientCredits, JobNotFound, NoResult, NotAllowed, StillRunning
from mulligan.records.job import Job
from mulligan.records.key import Scope
from mulligan.web.api.terms import Duration, Reason
from mulligan.web.route import Call, One, Routes

routes = Routes("Jobs")

_RUNS = [JobNotFound, IllegalMove, StillRunning, NotAllowed, InsufficientCredits, Conflict]


class Snoozed(Reason, kw_only=True):
    delay: Duration
    """How long from now."""


@routes.post("/jobs/{job_id}/retry", scope=Scope.JOBS_RETRY, answer=One(Job), errors=_RUNS)
def retry(call: Call, job_id: str, body: Reason) -> Any:
    """Start a failed, cancelled, waiting or stuck job again, with its counters reset."""
    return call.console.retry(job_id, reason=body.reason, request_id=call.request_id)


@routes.post("/jobs/{job_id}/run-now", scope=Scope.JOBS_RETRY, answer=One(Job), errors=_RUNS)
def run_now(call: Call, job_id: str, body: Reason) -> Any:
    """Run a waiting job now, or a failed or cancelled job once more. Its counters are kept."""
    return call.console.run_now(job_id, reason=body.reason, request_id=call.request_id)


@routes.post("/jobs/{job_id}/cancel", scope=Scope.JOBS_CANCEL, answer=One(Job), errors=[JobNotFound, IllegalMove])
def cancel(call: Call, job_id: str, body: Reason) -> Any:
    """Cancel a job. A running job is asked to stop, and is cancelled when its attempt ends."""
    return call.console.cancel(job_id, reason=body.reason, request_id=call.request_id)


@routes.post(
    "/jobs/{job_id}/snooze", scope=Scope.JOBS_CANCEL, answer=One(Job), errors=[JobNotFound, IllegalMove, StillRunning]
)
def snooze(call: Call, job_id: str, body: Snoozed) -> Any:
    """Postpone a waiting or queued job by a duration from now."""
    return call.console.snooze(job_id, body.delay, reason=body.reason, request_id=call.request_id)


@routes.post("/jobs/{job_id}/expire-result", scope=Scope.JOBS_CANCEL, answer=One(Job), errors=[JobNotFound, NoResult])
def expire_result(call: Call, job_id: str, body: Reason) -> Any:
    """Delete the result of a succeeded job. The job itself stays."""
    return call.console.expire_result(job_id, reason=body.reason, request_id=call.request_id)


@routes.post("/jobs/{job_id}/release-key", scope=Scope.JOBS_CANCEL, answer=One(Job), errors=[JobNotFound, IllegalMove])
def release_key(call: Call, job_id: str, body: Reason) -> Any:
    """Take the dedupe key from a job that is over, so that another job can have it."""
    return call.console.release_key(job_id, reason=body.reason, request_id=call.request_id)
