"""The one time of all participants of a world, and their event loops.

Every process has a loop of its own, so that a process can be stopped or killed between any two of its
steps, with nothing of it running on. Whose turn is next is drawn, from a seed.
"""

import asyncio
import itertools
import random
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Any

SECOND = 1_000_000


class Timeline:
    """Whole microseconds since the world began. `call_at` is for what happens to the world, not in a process."""

    def __init__(self, randomness: random.Random) -> None:
        self.now = 0
        self._randomness = randomness
        self._loops: list[ProcessLoop] = []
        self._agenda: list[tuple[int, int, ProcessLoop | None, Any]] = []
        """What is to come: a happening of the world, or a step of a process."""
        self._counter = itertools.count()
        self.is_over = False

    def call_at(self, when: int, happening: Callable[[], None]) -> None:
        heappush(self._agenda, (max(when, self.now), next(self._counter), None, happening))

    def call_in(self, seconds: float, happening: Callable[[], None]) -> None:
        heappush(self._agenda, (self.now + ceil(seconds * SECOND), next(self._counter), None, happening))

    def note(self, when: int, loop: "ProcessLoop", step: "Step") -> None:
        heappush(self._agenda, (when, next(self._counter), loop, step))

    def new_loop(self, fail: Callable[[str, BaseException | None], None]) -> "ProcessLoop":
        loop = ProcessLoop(self, fail)  # type: ignore[abstract]  # no files, no signals, no programs
        self._loops.append(loop)
        return loop

    def forget(self, loop: "ProcessLoop") -> None:
        self._loops.remove(loop)

    def inherit(self, loop: "ProcessLoop") -> None:
        """Take over a loop that another has forgotten, with all that it waits for."""
        before, loop.timeline = loop.timeline, self
        self._loops.append(loop)
        self._agenda = [each for each in before._agenda if each[2] is loop]
        before._agenda = [each for each in before._agenda if each[2] is not loop]
        heapify(self._agenda)
        heapify(before._agenda)

    @property
    def has_more(self) -> bool:
        """Something is to come, sooner or later."""
        return bool(self._agenda)

    def run(self, until: int) -> None:
        before = current = events._get_running_loop()
        try:
            while not self.is_over:
                loop = self._next()
                if loop is not None:
                    # Only when it is another's turn: asyncio asks the system for the process each time.
                    if loop is not current:
                        events._set_running_loop(loop)
                        current = loop
                    loop.turn()
                elif not self._move_on(until):
                    self.now = until
                    return
        finally:
            events._set_running_loop(before)

    def _next(self) -> "ProcessLoop | None":
        """Whose turn it is, if any callback is ready."""
        found = None
        for loop in self._loops:
            if loop.ready and not loop.is_stopped:
                if found is not None:
                    return self._randomness.choice([loop for loop in self._loops if loop.ready and not loop.is_stopped])
                found = loop
        return found

    def _move_on(self, until: int) -> bool:
        """To the next moment at which something happens, if that is not too late."""
        agenda = self._agenda
        while agenda and agenda[0][2] is not None and agenda[0][3]._cancelled:
            heappop(agenda)
        if not agenda or agenda[0][0] > until:
            return False
        now = self.now = max(self.now, agenda[0][0])
        while agenda and agenda[0][0] <= now:
            _, _, loop, what = heappop(agenda)
            if loop is not None:
                if not what._cancelled:
                    loop.ready.append(what)
            else:
                what()
                # Another may have inherited part of it meanwhile.
                agenda = self._agenda
        return True


class Step(asyncio.TimerHandle):
    """A callback to be run. asyncio's own handles ask at every turn whether debugging is on."""

    __slots__ = ("args", "callback", "context")

    def __init__(self, callback: Callable[..., Any], args: Any, context: Context | None) -> None:
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        """Passed over when its time comes."""
        self._cancelled = True


class ProcessLoop(asyncio.AbstractEventLoop):
    """Callbacks and timers, and no files: all that the engine needs of a loop."""

    def __init__(self, timeline: Timeline, fail: Callable[[str, BaseException | None], None]) -> None:
        self.timeline = timeline
        self.ready: deque[Step] = deque()
        self.is_stopped = False
        """Nothing runs; timers become due all the same, as the clock goes on while a process is stopped."""
        self._fail = fail

    def turn(self) -> None:
        """Run what is ready now."""
        ready = self.ready
        for _ in range(len(ready)):
            step = ready.popleft()
            if not step._cancelled:
                try:
                    step.context.run(step.callback, *step.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self._fail(f"exception in {step.callback!r}", error)
            if self.is_stopped:
                return

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.timeline.now / SECOND

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        step = Step(callback, args, context)
        self.ready.append(step)
        return step

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        step = Step(callback, args, context)
        timeline = self.timeline
        timeline.note(timeline.now + int(delay * SECOND) + 1, self, step)
        return step

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        step = Step(callback, args, context)
        # A microsecond more than asked: at that time the clock must not fall short of it by a rounding.
        self.timeline.note(int(when * SECOND) + 1, self, step)
        return step

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    # Asked for every future and every task: the plain function that answers False is the fastest.
    get_debug = staticmethod(bool)

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._fail(str(context.get("message")), context.get("exception"))
