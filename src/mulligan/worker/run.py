"""Run one attempt: decode the arguments, call the task, and return how it ended."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from mulligan.attempt import CURRENT
from mulligan.errors import MulliganError, StoreError
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.evidence import MESSAGE_LIMIT
from mulligan.failure.redact import sanitize
from mulligan.failure.verdict import Failure, misfit, worker_lost
from mulligan.store.store import Store
from mulligan.task.payload import Misfit, PayloadError
from mulligan.task.task import Task
from mulligan.values.duration import describe
from mulligan.worker import forks
from mulligan.worker.drivers import Driver
from mulligan.worker.ending import Ended, Failed, Interruption, Judged, StopReason, Success
from mulligan.worker.hooks import Hook, call_within
from mulligan.worker.running import Running


async def run(running: Running, task: Task[..., Any, Any], driver: Driver, around: Sequence[Hook] = ()) -> Ended:
    CURRENT.set(running.attempt)
    if running.make_current is not None:
        running.make_current()
    running.attempt.may_block = not task.is_async
    try:
        args, kwargs = task.payload.decode(running.lease.arguments)
    except Misfit as error:
        return Judged(misfit(str(error), kind=running.lease.kind))
    except MulliganError as error:
        return Failed(_final("INVALID_INPUT", error))
    running.has_begun = True
    before = forks.generation
    try:
        if around:
            value = await call_within(around, running, task, driver, partial(task.function, *args, **kwargs))
        elif task.is_async:
            value = await task.function(*args, **kwargs)
        else:
            value = await driver.call(lambda: task.function(*args, **kwargs), running.set_interrupt)
    except BaseException as error:
        if forks.generation != before:
            forks.exit_fork(error)
        if running.attempt.is_cut_off and isinstance(error, StoreError):
            return end_if_interrupted(running) or Interruption(StopReason.CUT_OFF)
        return end_if_interrupted(running) or Failed(Failure.of(error))
    finally:
        running.attempt.is_over = True
    if forks.generation != before:
        forks.exit_fork()
    try:
        return Success(task.payload.encode_result(value))
    except PayloadError as error:
        return Failed(_final("RESULT_INVALID", error))


def end_if_interrupted(running: Running) -> Ended | None:
    """The end of an attempt that was interrupted from outside; None if it was not."""
    match running.why:
        case None:
            return None
        case StopReason.TIMEOUT:
            return Failed(Failure.of(TimeoutError(f"no result after {describe(running.timeout)}")))
        case why:
            return Interruption(why)


# At most once


def runs_at_most_once(running: Running, task: Task[..., Any, Any]) -> bool:
    """By this version of the task, or by the version that enqueued the job."""
    return task.at_most_once or running.lease.at_most_once


async def begin_once(running: Running, store: Store, driver: Driver) -> Ended | None:
    """Make the claim durable and record that the code begins; the end if the attempt must not begin.

    Then neither a crash of the database nor an adoption after lost replies runs the code again, and the reclaimer knows
    whether the code was reached.
    """
    if (ended := end_if_interrupted(running)) is not None:
        return ended
    fence = running.lease.fence
    if not await driver.blocking(lambda: store.begin(fence)):
        # The fence refused it, unless this attempt began before and its end could not be stored.
        detail = "it had begun before, or its lease is lost"
        return Judged(worker_lost(kind=running.lease.kind, detail=detail))
    return end_if_interrupted(running)


def end_once(running: Running, ended: Ended) -> Ended:
    """The end of an attempt that may run only once. Interrupted after its code began, it is lost and must not run
    again. Interrupted before, also by its timeout, it is released."""
    if not running.has_begun:
        return Interruption(StopReason.CUT_OFF) if running.why is StopReason.TIMEOUT else ended
    if not isinstance(ended, Interruption) or ended.why in (StopReason.CANCELLED, StopReason.LOST):
        return ended
    return Judged(worker_lost(kind=running.lease.kind, detail=f"the worker stopped it before its end: {ended.why}"))


def _final(code: str, error: MulliganError) -> Failure:
    return Failure(type=code, message=sanitize(str(error), MESSAGE_LIMIT), code=code, error_class=ErrorClass.FINAL)
