"""Run one attempt: decode the arguments, call the task, say how it ended. Whatever happens, it ends."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from mulligan.attempt import CURRENT
from mulligan.errors import MulliganError, StoreError
from mulligan.failure.catalogue import ErrorClass
from mulligan.failure.classify import misfit
from mulligan.failure.evidence import MESSAGE_LIMIT
from mulligan.failure.redact import sanitize
from mulligan.failure.verdict import Failure
from mulligan.task.payload import Misfit, PayloadError
from mulligan.task.task import Task
from mulligan.values.duration import describe
from mulligan.worker import forks
from mulligan.worker.drivers import Driver
from mulligan.worker.ending import Ended, Failed, Interruption, Judged, Success, Why
from mulligan.worker.hooks import Hook, call_within
from mulligan.worker.running import Running


async def run(running: Running, task: Task[..., Any, Any], driver: Driver, around: Sequence[Hook] = ()) -> Ended:
    CURRENT.set(running.attempt)
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
            value = await driver.call(lambda: task.function(*args, **kwargs), running.interruptible_by)
    except BaseException as error:
        forks.end_copy(before, error)
        if running.attempt.is_cut_off and isinstance(error, StoreError):
            return stopped(running) or Interruption(Why.CUT_OFF)
        return stopped(running) or Failed(Failure.of(error))
    finally:
        running.attempt.is_over = True
    forks.end_copy(before)
    try:
        return Success(task.payload.encode_result(value))
    except PayloadError as error:
        return Failed(_final("RESULT_INVALID", error))


def stopped(running: Running) -> Ended | None:
    """How an attempt that was interrupted from outside ended; None if it was not."""
    match running.why:
        case None:
            return None
        case Why.TIMEOUT:
            return Failed(Failure.of(TimeoutError(f"no result after {describe(running.timeout)}")))
        case why:
            return Interruption(why)


def _final(code: str, error: MulliganError) -> Failure:
    return Failure(type=code, message=sanitize(str(error), MESSAGE_LIMIT), code=code, error_class=ErrorClass.FINAL)
