"""Permission: the task's own precondition for a manual retry."""

from inspect import isawaitable
from typing import Any

from mulligan.errors import MulliganError, NotAllowed
from mulligan.failure.redact import bounded
from mulligan.failure.verdict import Failure
from mulligan.records.job import Job
from mulligan.task.checks import CanRetry
from mulligan.task.registry import Registry


def require_permission(tasks: Registry, job: Job[Any]) -> None:
    """Call `can_retry` of the job's task. Raises NotAllowed, or the error with which `can_retry` refuses."""
    can_retry = tasks[job.kind].can_retry if job.kind in tasks else None
    if can_retry is not None:
        _ask(can_retry, job)


def _ask(can_retry: CanRetry, job: Job[Any]) -> None:
    try:
        answer = can_retry(job)
    except MulliganError:
        raise
    except Exception as error:
        # An error in the user's code is a refusal, with a message for the person who asked.
        raise NotAllowed(f"can_retry of task {job.kind!r} failed: {bounded(Failure.of(error).message)}") from error
    if isawaitable(answer):
        raise NotAllowed(
            f"can_retry of task {job.kind!r} returned {answer!r:.100}, which is not an answer: it cannot be async"
        )
    if answer is False:
        raise NotAllowed(f"can_retry of task {job.kind!r} does not allow it now")
