"""Notices a task that blocks the event loop, or the whole process, and says which one and where."""

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

PATIENCE = 2.0
MOST_NAMES = 3


class LoopWatch:
    """`look` is the whole of it, called again and again from a thread that is not the loop's.

    It leaves a note for the loop; a note that is not taken means that the loop does not turn. That
    costs the loop one callback a look, and tasks nothing.
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
        self._left_at = clock.monotonic()
        self._is_taken = True
        self._warn_after = PATIENCE

    def look(self, late: float) -> None:
        """`late` is by how much this look itself came too late: then no thread at all could run."""
        now = self._clock.monotonic()
        if late > self._lease:
            self._warn_of_process(late)
        elif not self._is_taken and now - self._left_at >= self._warn_after:
            self._warn_of_loop(now - self._left_at)
            # Again, but ever less often.
            self._warn_after *= 2
        if self._is_taken:
            self._leave_note(now)

    def _leave_note(self, now: float) -> None:
        self._left_at, self._is_taken, self._warn_after = now, False, PATIENCE
        try:
            self._loop.call_soon_threadsafe(self._take)
        except RuntimeError:
            self._is_taken = True  # the loop is closed

    def _take(self) -> None:
        self._is_taken = True

    def _warn_of_loop(self, seconds: float) -> None:
        logger.warning(
            "the event loop is blocked for %s by %s%s; its lease is kept, but nothing else here moves: make the "
            "task a plain function, or call what blocks through asyncio.to_thread",
            describe(timedelta(seconds=round(seconds, 1))),
            self._blocker(),
            _place(sys._current_frames().get(self._thread)),
        )

    def _warn_of_process(self, seconds: float) -> None:
        logger.warning(
            "this process stood still for %s, longer than its leases: other workers may run its jobs. Either it was "
            "stopped from outside, or C code held Python's global lock; running: %s. A task that does that needs "
            "isolate=True, or a shorter piece of work at a time",
            describe(timedelta(seconds=round(seconds, 1))),
            self._suspects(),
        )

    def _blocker(self) -> str:
        current = asyncio.current_task(self._loop)
        if current is None:
            return "a callback of no task"
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


def _place(frame: FrameType | None) -> str:
    """Where the thread is: the line that blocks."""
    return "" if frame is None else f", in {frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"
