"""Time, randomness and ids, passed in as values.

Nothing else in the engine asks the machine for the time, a random number or an id. A simulation that controls these
three controls everything.
"""

import random
import time
from datetime import UTC, datetime
from typing import Protocol

from mulligan.values.ids import uuid7


class Clock(Protocol):
    """The machine's clock. Times that decide anything come from the store instead."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment. It never goes back."""
        ...

    def now(self) -> datetime:
        """The machine's time, for ids and for display."""
        ...


class SystemClock:
    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        return datetime.now(UTC)


class Ids:
    """Makes UUIDv7 ids: globally unique, and ordered by creation within one process."""

    def __init__(self, clock: Clock, randomness: random.Random) -> None:
        self._clock = clock
        self._randomness = randomness
        self._last = 0

    def __call__(self) -> str:
        millisecond = int(self._clock.now().timestamp() * 1000)
        # The 12 bits below the millisecond act as a counter, so that ids made in one millisecond stay in order.
        stamp = (
            (millisecond << 12 | self._randomness.getrandbits(12)) if millisecond > self._last >> 12 else self._last + 1
        )
        self._last = stamp
        return uuid7(stamp >> 12, stamp & 0xFFF, self._randomness.getrandbits(62))


def system_randomness() -> random.Random:
    # Seeded by the operating system. For jitter and ids, not for secrets.
    return random.Random()  # noqa: S311
