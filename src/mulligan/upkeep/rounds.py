"""A duty as one worker does it: not while it is paused, and noted where everybody sees it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from mulligan.clock import Clock
from mulligan.duty import Round
from mulligan.store.protocols import Upkeep

# A row for each duty and worker, and not more often than that: nobody waits for another's record.
NOTE_SECONDS = 10.0
# All duties that come due about now go by one reading.
FRESH_SECONDS = 0.9


class Work(Protocol):
    """What a duty does. `step` says how many jobs it moved."""

    name: str
    interval: float
    limit: int

    def step(self) -> int: ...


class Switches:
    """The pauses of duties as one worker knows them: one begun or ended by hand is in force within a second."""

    def __init__(self, store: Upkeep, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._off: frozenset[str] = frozenset()
        self._stale_at: float | None = None

    def is_paused(self, duty: str) -> bool:
        now = self._clock.monotonic()
        if self._stale_at is None or now >= self._stale_at:
            self._off = frozenset(pause.name for pause in self._store.pauses() if pause.what == "duty")
            self._stale_at = now + FRESH_SECONDS
        return duty in self._off


class Rounds:
    def __init__(self, work: Work, *, store: Upkeep, switches: Switches, clock: Clock, worker: str) -> None:
        self._work = work
        self._store = store
        self._switches = switches
        self._clock = clock
        self._worker = worker
        self.name = work.name
        self.interval = work.interval
        self._noted_at: float | None = None
        self._did = 0

    def step(self) -> int:
        if self._switches.is_paused(self.name):
            return 0
        began = self._clock.monotonic()
        did = self._work.step()
        now = self._clock.monotonic()
        self._did += did
        if self._noted_at is None or now - self._noted_at >= NOTE_SECONDS:
            self._note(now - began)
            self._noted_at, self._did = now, 0
        return did

    def _note(self, seconds: float) -> None:
        self._store.note(
            Round(
                duty=self.name,
                worker=self._worker,
                seconds=seconds,
                did=self._did,
                interval=timedelta(seconds=self.interval),
                limit=self._work.limit,
            )
        )


def whole_passes(one: Callable[[int], int], *, limit: int, passes: int) -> int:
    """Pass after pass while each is full, within a bound; how many were moved."""
    total = 0
    for _ in range(passes):
        moved = one(limit)
        total += moved
        if moved < limit:
            break
    return total
