"""A virtual clock, and an event loop that uses it: timers advance the clock, nothing sleeps."""

import asyncio
import selectors
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from mulligan.worker.drivers import InlineDriver

T = TypeVar("T")

START = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
# Real sockets of the tested code have this long to answer before virtual time advances.
PATIENCE_SECONDS = 0.05


class VirtualClock:
    def __init__(self, start: datetime = START) -> None:
        self._start = self._now = start
        self._seconds = 0.0

    def monotonic(self) -> float:
        return self._seconds

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> None:
        # It is read far more often than it moves.
        self._now += max(by, timedelta(0))
        self._seconds = (self._now - self._start).total_seconds()


class VirtualSelector(selectors.BaseSelector):
    """Advances the clock to the next timer instead of waiting for it."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return self._real.select(None)
        # The loop itself registers one file, to be woken up.
        has_sockets = len(self._real.get_map()) > 1
        ready = self._real.select(min(timeout, PATIENCE_SECONDS) if has_sockets else 0)
        if not ready and timeout > 0:
            # One microsecond more, because rounding must not leave the clock before the timer.
            self._clock.advance(timedelta(seconds=timeout, microseconds=1))
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(VirtualSelector(clock))
        self._virtual_clock = clock

    def time(self) -> float:
        return self._virtual_clock.monotonic()

    @property
    def is_quiet(self) -> bool:
        """Whether a turn of the loop would run nothing: no callback is ready, no timer is due, no socket is watched."""
        if self._ready or len(self._selector.get_map()) > 1:  # type: ignore[attr-defined]
            return False
        timers = self._scheduled  # type: ignore[attr-defined]
        return not timers or timers[0].when() >= self.time() + self._clock_resolution  # type: ignore[attr-defined]


class VirtualDriver(InlineDriver):
    """Leaves out the turns of a `VirtualLoop` that would run nothing."""

    async def blocking(self, function: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return function() if loop.is_quiet else await super().blocking(function)
