"""Protects a worker's event loop: a task that tries to stop it fails, and the others continue."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from mulligan.attempt import attempt
from mulligan.errors import WorkerCancelled
from mulligan.failure import evidence
from mulligan.worker.forks import hide_loop_from_forks

logger = logging.getLogger("mulligan.worker")

T = TypeVar("T")

_STOPPED = "a task must not stop the event loop, because other jobs run on it; return or raise instead"


@contextmanager
def guard_loop(loop: asyncio.AbstractEventLoop, otherwise: Callable[[], None]) -> Iterator[None]:
    """Inside, `loop.stop()` raises in a task that calls it. For any other caller it calls `otherwise`."""
    before = loop.stop

    def stop() -> None:
        fields = attempt().fields
        if not fields:
            otherwise()
        elif _is_in_a_callback(loop):
            logger.error("%s (task %r, in a callback)", _STOPPED, fields["kind"], extra=fields)
        else:
            raise RuntimeError(_STOPPED)

    loop.stop = stop  # type: ignore[method-assign]
    try:
        with hide_loop_from_forks(loop):
            yield
    finally:
        if loop.stop is stop:
            loop.stop = before  # type: ignore[method-assign]


def _is_in_a_callback(loop: asyncio.AbstractEventLoop) -> bool:
    return asyncio._get_running_loop() is loop and asyncio.current_task(loop) is None


def run_to_end(runner: asyncio.Runner, work: Coroutine[Any, Any, T], *, goes_on: bool) -> T:
    """Run the coroutine to its end, although asyncio leaves the loop when any task raises SystemExit or
    KeyboardInterrupt.

    The exception is raised again where the task is awaited, and fails that attempt. `goes_on` is for a process with
    signal handlers, where only a task can have raised it. Elsewhere the exception cancels the coroutine.
    """
    task = runner.get_loop().create_task(work)
    while True:
        try:
            runner.run(_wait_for(task))
            return task.result()
        except asyncio.CancelledError as error:
            # Such a process is stopped by a signal, so a task must have cancelled it.
            if goes_on:
                raise WorkerCancelled from error
            raise
        except (SystemExit, KeyboardInterrupt) as error:
            if task.done():
                raise
            if not goes_on:
                task.cancel()
                runner.run(_wait_for(task))
                raise
            logger.error(
                "code of a task raised %s on the event loop: it fails where it is awaited, and the worker continues",
                evidence.type_name(type(error)),
            )


async def _wait_for(task: "asyncio.Task[Any]") -> None:
    """Wait for the task. `await task` would raise its exception at each waiter."""
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        with suppress(asyncio.CancelledError):
            task.result()
        raise
