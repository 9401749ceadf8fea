"""Time, randomness and ids, passed in as values.

Nothing else in the engine asks the machine for the time, a random number or an id. A simulation that controls these
three controls everything.
"""

import random
import re
import time
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol
from uuid import UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_id(value: object) -> bool:
    """Whether it has the form of an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


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
        return _uuid7(stamp >> 12, stamp & 0xFFF, self._randomness.getrandbits(62))


def id_from(cause: str, millisecond: int = 0) -> str:
    """A UUIDv7 from a digest: the same cause gives the same id in every process and at any time.

    `millisecond` since 1970 sorts it among other ids; by default it sorts below all of them.
    """
    digest = int.from_bytes(sha256(cause.encode()).digest()[:10])
    return _uuid7(millisecond & (1 << 48) - 1, digest >> 68, digest & (1 << 62) - 1)


def _uuid7(millisecond: int, head: int, tail: int) -> str:
    """48 bits of time, then 12 and 62 bits of anything."""
    return str(UUID(int=millisecond << 80 | 0x7 << 76 | head << 64 | 0b10 << 62 | tail))


def system_randomness() -> random.Random:
    # Seeded by the operating system. For jitter and ids, not for secrets.
    return random.Random()  # noqa: S311


def microseconds(moment: datetime) -> int:
    """A moment as integer microseconds since 1970: exact, sortable, and the same in every store."""
    delta = moment - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
