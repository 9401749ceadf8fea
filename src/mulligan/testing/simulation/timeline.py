"""The one time all parties of a world live by, and the event loops they live in.

Every process has a loop of its own, so that a process can be stopped or killed between any two of its
steps, with nothing of it running on. Whose turn is next is left to chance, from a seed.
"""

import asyncio
import heapq
import itertools
import random
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context
from math import ceil
from typing import Any

SECOND = 1_000_000


class Timeline:
    """Whole microseconds since the world began. `call_at` is for what happens to the world, not in a process."""

    def __init__(self, chance: random.Random) -> None:
        self.now = 0
        self._chance = chance
        self._loops: list[ProcessLoop] = []
        self._happenings: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = itertools.count()
        self.is_over = False

    def call_at(self, when: int, happening: Callable[[], None]) -> None:
        heapq.heappush(self._happenings, (max(when, self.now), next(self._counter), happening))

    def call_in(self, seconds: float, happening: Callable[[], None]) -> None:
        self.call_at(self.now + ceil(seconds * SECOND), happening)

    def new_loop(self, fail: Callable[[str, BaseException | None], None]) -> "ProcessLoop":
        loop = ProcessLoop(self, fail)  # type: ignore[abstract]  # no files, no signals, no programs
        self.adopt(loop)
        return loop

    def adopt(self, loop: "ProcessLoop") -> None:
        self._loops.append(loop)

    def forget(self, loop: "ProcessLoop") -> None:
        self._loops.remove(loop)

    def run(self, until: int) -> None:
        while not self.is_over:
            ready = [loop for loop in self._loops if loop.ready and not loop.is_stopped]
            if ready:
                (ready[0] if len(ready) == 1 else self._chance.choice(ready)).turn()
            elif (following := self._following()) <= until:
                self._move_to(following)
            else:
                self.now = until
                return

    def _following(self) -> int:
        """When something happens next."""
        moment = self._happenings[0][0] if self._happenings else NEVER
        for loop in self._loops:
            if loop.timers and not loop.is_stopped and (timer := loop.next_timer) < moment:
                moment = timer
        return moment

    def _move_to(self, moment: int) -> None:
        now = self.now = max(self.now, moment)
        while self._happenings and self._happenings[0][0] <= now:
            heapq.heappop(self._happenings)[2]()
        for loop in self._loops:
            if loop.timers and loop.timers[0][0] <= now:
                loop.ring()


NEVER = 1 << 62


class ProcessLoop(asyncio.AbstractEventLoop):
    """Callbacks and timers, and no files: all that the engine needs of a loop."""

    def __init__(self, timeline: Timeline, fail: Callable[[str, BaseException | None], None]) -> None:
        self.timeline = timeline
        self.ready: deque[asyncio.Handle] = deque()
        self.is_stopped = False
        """Nothing runs; timers become due all the same, as the clock goes on while a process is stopped."""
        self.timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._counter = itertools.count()
        self._fail = fail

    def turn(self) -> None:
        """Run what is ready now."""
        events._set_running_loop(self)
        try:
            ready = self.ready
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self.is_stopped:
                    return
        finally:
            events._set_running_loop(None)

    @property
    def next_timer(self) -> int:
        timers = self.timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        return timers[0][0] if timers else NEVER

    def ring(self) -> None:
        """Make ready what is due."""
        now, timers = self.timeline.now, self.timers
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                self.ready.append(timer)

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.timeline.now / SECOND

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self.ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        # A microsecond more than asked: at that time the clock must not fall short of it by a rounding.
        heapq.heappush(self.timers, (int(when * SECOND) + 1, next(self._counter), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._fail(str(context.get("message")), context.get("exception"))
