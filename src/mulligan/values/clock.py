"""Time, randomness and ids as values that can be passed in.

Nothing else in the engine asks the machine for the time, a random number or an id: a simulation that
owns these three owns everything that happens.
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
    """What an engine may know about time. Instants that decide anything come from the store."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def now(self) -> datetime:
        """The machine's idea of the time, for ids and for people."""
        ...


class SystemClock:
    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        return datetime.now(UTC)


_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_id(value: object) -> bool:
    """Whether it has the form of the ids that are made here."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


class Ids:
    """UUIDv7 ids: unique anywhere, in the order of their making within one process."""

    def __init__(self, clock: Clock, randomness: random.Random) -> None:
        self._clock = clock
        self._randomness = randomness
        self._last = 0

    def __call__(self) -> str:
        millisecond = int(self._clock.now().timestamp() * 1000)
        # 60 bits below the millisecond: a counter in effect, so that ids made at once stay in order.
        stamp = (
            (millisecond << 12 | self._randomness.getrandbits(12)) if millisecond > self._last >> 12 else self._last + 1
        )
        self._last = stamp
        head, tail = stamp >> 12, stamp & 0xFFF
        return str(UUID(int=head << 80 | 0x7 << 76 | tail << 64 | 0b10 << 62 | self._randomness.getrandbits(62)))


def id_from(cause: str, millisecond: int = 0) -> str:
    """A UUIDv7 made of a digest: the same cause gives the same id, in every process and at any time.

    `millisecond` since 1970 is its place among other ids; without a time of its own it sorts below them all.
    """
    digest = int.from_bytes(sha256(cause.encode()).digest()[:10])
    head, tail = digest >> 68, digest & (1 << 62) - 1
    return str(UUID(int=(millisecond & (1 << 48) - 1) << 80 | 0x7 << 76 | head << 64 | 0b10 << 62 | tail))


def system_randomness() -> random.Random:
    # Seeded by the operating system; for jitter and ids, not for secrets.
    return random.Random()  # noqa: S311


def microseconds(moment: datetime) -> int:
    """A moment as whole microseconds since 1970: exact, sortable, the same in every store."""
    delta = moment - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
