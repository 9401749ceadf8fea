"""Clocks that differ: each process has its own offset, and the store's clock can step."""

from datetime import datetime, timedelta

from mulligan.testing.virtual import START
from mulligan.values.moment import EPOCH
from simulator.timeline import SECOND, Timeline

_MIDNIGHT = (START.replace(hour=0, minute=0, second=0, microsecond=0) - EPOCH) // timedelta(microseconds=1)


class StoreClock:
    """Decides every instant. It goes with the timeline, except when it steps. A day ends after `midnight` seconds."""

    def __init__(self, timeline: Timeline, *, midnight: float) -> None:
        self._timeline = timeline
        self._offset = _MIDNIGHT - int(midnight * SECOND)
        self._behind = 0.0
        self._told = (0, EPOCH)

    def now(self) -> datetime:
        now = self.microseconds
        if self._told[0] != now:
            self._told = (now, EPOCH + timedelta(microseconds=now))
        return self._told[1]

    @property
    def microseconds(self) -> int:
        return self._timeline.now + self._offset

    def step(self, seconds: float) -> None:
        self._offset += int(seconds * SECOND)
        self._behind = max(0.0, self._behind - seconds)

    def put_right(self) -> None:
        """Make up for having been set back."""
        self.step(self._behind)


class SkewedClock:
    """A process's own: monotonic goes with the timeline, also while the process is stopped."""

    def __init__(self, timeline: Timeline, skew: timedelta) -> None:
        self._timeline = timeline
        self._start = START + skew

    def monotonic(self) -> float:
        return self._timeline.now / SECOND

    def now(self) -> datetime:
        return self._start + timedelta(microseconds=self._timeline.now)
