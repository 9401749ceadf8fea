"""Warns about a task that blocks the event loop or the whole process, with its name and the line that blocks."""

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import FrameType

from mulligan.values.clock import Clock
from mulligan.values.duration import describe
from mulligan.worker.running import Running

logger = logging.getLogger("mulligan.worker")

WARN_SECONDS = 2.0
MOST_NAMES = 3


class LoopWatch:
    """Another thread than the loop's calls `look` again and again.

    Each look schedules a callback on the loop. If the callback has not run by a later look, the loop is blocked. This
    costs the loop one callback for each look, and tasks nothing.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        thread: int,
        clock: Clock,
        lease: timedelta,
        running: Callable[[], Sequence[Running]],
    ) -> None:
        self._loop = loop
        self._thread = thread
        self._clock = clock
        self._lease = lease.total_seconds()
        self._running = running
        self._sent_at = clock.monotonic()
        self._has_run = True
        self._warn_after = WARN_SECONDS

    def look(self, late: float) -> None:
        """`late` is the delay of this look in seconds. If it is long, no thread at all could run."""
        now = self._clock.monotonic()
        if late > self._lease:
            self._warn_of_process(late)
        elif not self._has_run and now - self._sent_at >= self._warn_after:
            self._warn_of_loop(now - self._sent_at)
            # Warn again, but ever less often.
            self._warn_after *= 2
        if self._has_run:
            self._schedule(now)

    def _schedule(self, now: float) -> None:
        self._sent_at, self._has_run, self._warn_after = now, False, WARN_SECONDS
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            self._has_run = True  # the loop is closed

    def _run(self) -> None:
        self._has_run = True

    def _warn_of_loop(self, seconds: float) -> None:
        logger.warning(
            "the event loop is blocked for %s by %s%s; leases are extended, but no other job in this worker moves: "
            "make the task a plain function, or make the blocking call through asyncio.to_thread",
            describe(timedelta(seconds=round(seconds, 1))),
            self._blocker(),
            _line(sys._current_frames().get(self._thread)),
        )

    def _warn_of_process(self, seconds: float) -> None:
        logger.warning(
            "this process stood still for %s, longer than its leases: other workers may run its jobs. Either it was "
            "stopped from outside, or C code held Python's global lock; running: %s. A task that holds the lock needs "
            "isolate=True or shorter steps",
            describe(timedelta(seconds=round(seconds, 1))),
            self._suspects(),
        )

    def _blocker(self) -> str:
        current = asyncio.current_task(self._loop)
        if current is None:
            return "a callback outside any task"
        found = next((running for running in self._running() if running.task is current), None)
        return _name(found) if found else f"the coroutine {_coroutine(current)!r}"

    def _suspects(self) -> str:
        running = self._running()
        names = [_name(item) for item in running[:MOST_NAMES]]
        more = [f"{len(running) - MOST_NAMES} more"] if len(running) > MOST_NAMES else []
        return ", ".join([*names, *more]) or "nothing"


def _name(running: Running) -> str:
    return f"task {running.lease.kind!r} (job {running.lease.fence.id})"


def _coroutine(task: "asyncio.Task[object]") -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


def _line(frame: FrameType | None) -> str:
    """The line that blocks."""
    return "" if frame is None else f", in {frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"
