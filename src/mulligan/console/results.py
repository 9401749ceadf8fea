"""Results: wait until a job is over."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mulligan.console.arguments import BY_THE_CALL, JOB, check
from mulligan.errors import JobCancelled, JobFailed, ResultExpired
from mulligan.lifecycle import State
from mulligan.records.job import Job
from mulligan.store.messages import Changes
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.values.clock import Clock
from mulligan.values.duration import Duration, describe, parse

LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Results:
    store: Callable[[], Store]
    changes: Callable[[], Changes]
    clock: Callable[[], Clock]
    tasks: Registry

    @check(job=JOB, timeout=BY_THE_CALL)
    def wait(self, job: Job[Any] | str, timeout: Duration | None = None) -> Any:
        job_id = job if isinstance(job, str) else job.id
        clock = self.clock()
        end = None if timeout is None else clock.monotonic() + parse(timeout).total_seconds()
        changes = self.changes()
        try:
            while not (found := self.store().job(job_id)).state.is_final:
                left = LONGEST_WAIT if end is None else end - clock.monotonic()
                if left <= 0:
                    raise TimeoutError(f"job {job_id!r} is still {found.state} after {describe(parse(timeout or 0))}")
                changes.wait(left)
        finally:
            changes.close()
        result = result_of(found)
        return self.tasks[found.kind].payload.decode_result(result) if found.kind in self.tasks else result


def result_of(job: Job[Any]) -> Any:
    """The result of a job that is over, as JSON has it. Raises JobFailed, JobCancelled or ResultExpired."""
    match job.state:
        case State.FAILED:
            raise JobFailed(
                job.id,
                job.error_code or "",
                job.error_message or "",
                error_class=job.error_class,
                detail=job.error_detail,
                group=job.group,
            )
        case State.CANCELLED:
            raise JobCancelled(job.id)
    if job.result_expired_at is not None:
        raise ResultExpired(job.id, job.result_expired_at)
    return job.result
