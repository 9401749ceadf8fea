"""Permission: the task's own precondition for a retry by hand."""

from inspect import isawaitable
from typing import Any

from mulligan.errors import MulliganError, NotAllowed
from mulligan.failure.redact import bounded
from mulligan.failure.verdict import Failure
from mulligan.records.job import Job
from mulligan.task.checks import CanRetry
from mulligan.task.registry import Registry


def require_permission(tasks: Registry, job: Job[Any]) -> None:
    """Ask `can_retry` of the job's task. Raises NotAllowed, or what it raises to refuse."""
    can_retry = tasks[job.kind].can_retry if job.kind in tasks else None
    if can_retry is not None:
        _ask(can_retry, job)


def _ask(can_retry: CanRetry, job: Job[Any]) -> None:
    try:
        answer = can_retry(job)
    except MulliganError:
        raise
    except Exception as error:
        # Somebody's code: a mistake in it is a refusal that says so, for whoever pressed the button.
        raise NotAllowed(f"can_retry of task {job.kind!r} failed: {bounded(Failure.of(error).message)}") from error
    if isawaitable(answer):
        raise NotAllowed(f"can_retry of task {job.kind!r} gave {answer!r:.100}, which is no answer: it cannot be async")
    if answer is False:
        raise NotAllowed(f"can_retry of task {job.kind!r} does not allow it now")
