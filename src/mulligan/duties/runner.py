"""A duty as one worker does it: not while it is paused, and noted where everybody sees it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from mulligan.records.duty import DutyOverview, Round
from mulligan.store.protocols import Upkeep
from mulligan.values.clock import Clock

# A row for each duty and worker, and not more often than that: nobody waits for another's record.
NOTE_SECONDS = 10.0
# The first rounds of all duties are noted together.
FIRST_SECONDS = 0.5
# All duties that come due about now go by one reading.
FRESH_SECONDS = 0.9


class Work(Protocol):
    """What a duty does. `step` says how many jobs it moved."""

    name: str
    interval: float
    limit: int

    def step(self) -> int: ...


class Outlook:
    """What the duties of one worker have before them: a pause begun or ended by hand is in force within a second, and a
    duty that has nothing to do need not ask by itself."""

    def __init__(self, store: Upkeep, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._stale_at: float | None = None

    def renew(self) -> None:
        """Look again the next time, whatever the clock says."""
        self._stale_at = None

    def now(self) -> DutyOverview:
        now = self._clock.monotonic()
        if self._stale_at is None or now >= self._stale_at:
            self._chores = self._store.chores()
            self._stale_at = now + FRESH_SECONDS
        return self._chores


class Rounds:
    """The rounds of one duty."""

    def __init__(self, work: Work, *, outlook: Outlook, logbook: "Logbook", clock: Clock) -> None:
        self._work = work
        self._outlook = outlook
        self._logbook = logbook
        self._clock = clock
        self.name = work.name
        self.interval = work.interval
        self._did = 0
        self._done_at = self._seconds = 0.0

    def step(self) -> int:
        chores = self._outlook.now()
        if self.name in chores.paused:
            return 0
        began = self._clock.monotonic()
        did = 0 if self.name in chores.idle else self._work.step()
        self._done_at = self._clock.monotonic()
        self._seconds = self._done_at - began
        self._did += did
        self._logbook.add(self, self._done_at)
        return did

    def record(self, worker: str, now: float) -> Round:
        """The last one, with all that was done since the record before."""
        return Round(
            duty=self.name,
            worker=worker,
            seconds=self._seconds,
            did=self._did,
            interval=timedelta(seconds=self.interval),
            limit=self._work.limit,
            ago=timedelta(seconds=now - self._done_at),
        )

    def recorded(self, done: Round) -> None:
        # Another round may have ended meanwhile.
        self._did -= done.did


class Logbook:
    """Where the rounds of one worker are noted, those of all duties together."""

    def __init__(self, store: Upkeep, *, worker: str, every: float = NOTE_SECONDS) -> None:
        self._store = store
        self._every = every
        self._worker = worker
        self._unwritten: dict[Rounds, None] = {}
        self._known: set[Rounds] = set()
        self._write_at: float | None = None

    def add(self, rounds: Rounds, now: float) -> None:
        self._unwritten[rounds] = None
        if rounds not in self._known:
            self._known.add(rounds)
            first = now + FIRST_SECONDS
            self._write_at = first if self._write_at is None else min(self._write_at, first)
        elif self._write_at is not None and now >= self._write_at:
            self.write(now)

    def write(self, now: float) -> None:
        # First of all: the other duties have threads of their own, and one of them writes.
        self._write_at = now + self._every
        records = {rounds: rounds.record(self._worker, now) for rounds in list(self._unwritten)}
        self._store.note(list(records.values()))
        for rounds, done in records.items():
            rounds.recorded(done)
            self._unwritten.pop(rounds, None)


class Ticker:
    """Duties that are done together when told, and by a worker once a second where time passes by itself."""

    name = "tick"
    interval = 1.0

    def __init__(self, rounds: Sequence[Rounds], *, outlook: Outlook, logbook: Logbook, clock: Clock) -> None:
        self._rounds = rounds
        self.outlook = outlook
        self.logbook = logbook
        self._clock = clock
        self._told_at: float | None = None

    def tell(self) -> int:
        """Do them now; how many jobs and batches were moved."""
        self._told_at = self._clock.monotonic()
        self.outlook.renew()
        return sum(rounds.step() for rounds in self._rounds)

    def step(self) -> int:
        """As a duty: not again for a moment at which they were told to."""
        return 0 if self._told_at == self._clock.monotonic() else self.tell()

    def write(self) -> None:
        self.logbook.write(self._clock.monotonic())


def whole_passes(one: Callable[[int], int], *, limit: int, passes: int) -> int:
    """Pass after pass while each is full, within a bound; how many were moved."""
    total = 0
    for _ in range(passes):
        moved = one(limit)
        total += moved
        if moved < limit:
            break
    return total
