"""A duty as one worker does it: not while it is paused, and noted where everybody sees it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from mulligan.clock import Clock
from mulligan.duty import Round
from mulligan.store.protocols import Upkeep

# A row for each duty and worker, and not more often than that: nobody waits for another's record.
NOTE_SECONDS = 10.0


class Work(Protocol):
    """What a duty does. `step` says how many jobs it moved."""

    name: str
    interval: float
    limit: int

    def step(self) -> int: ...


class Rounds:
    def __init__(self, work: Work, *, store: Upkeep, clock: Clock, worker: str) -> None:
        self._work = work
        self._store = store
        self._clock = clock
        self._worker = worker
        self.name = work.name
        self.interval = work.interval
        self._noted_at: float | None = None
        self._did = 0

    def step(self) -> int:
        if is_paused(self._store, self.name):
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


def is_paused(store: Upkeep, duty: str) -> bool:
    return any((pause.what, pause.name) == ("duty", duty) for pause in store.pauses())


def whole_passes(one: Callable[[int], int], *, limit: int, passes: int) -> int:
    """Pass after pass while each is full, within a bound; how many were moved."""
    total = 0
    for _ in range(passes):
        moved = one(limit)
        total += moved
        if moved < limit:
            break
    return total
