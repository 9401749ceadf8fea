"""Runs the duties of one worker: skips those that are paused, and records their runs where every worker sees them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from mulligan.records.duty import DutyOverview, DutyRun
from mulligan.store.store import Store
from mulligan.values.clock import Clock

# There is a row for each duty and worker, so no worker waits for another to write it.
RECORD_SECONDS = 10.0
# The first runs of all duties are recorded together.
FIRST_SECONDS = 0.5
# Duties that come due at about the same time share one read.
FRESH_SECONDS = 0.9


class DutyWork(Protocol):
    """What a duty does. `step` returns how many jobs it moved."""

    name: str
    interval: float
    limit: int

    def step(self) -> int: ...


class PendingDuties:
    """Reads which duties are paused and which have nothing to do, at most about once a second.

    A manual pause is in force within a second, and a duty with nothing to do need not query the store itself.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._stale_at: float | None = None

    def refresh(self, chores: DutyOverview | None = None) -> DutyOverview:
        """Read again, whatever the clock says. `chores` were read just now."""
        self._chores = self._store.duty_overview() if chores is None else chores
        self._stale_at = self._clock.monotonic() + FRESH_SECONDS
        return self._chores

    def now(self) -> DutyOverview:
        is_stale = self._stale_at is None or self._clock.monotonic() >= self._stale_at
        return self.refresh() if is_stale else self._chores


class DutyRunner:
    """Runs one duty."""

    def __init__(self, work: DutyWork, *, pending: PendingDuties, recorder: "RunRecorder", clock: Clock) -> None:
        self._work = work
        self._pending = pending
        self._recorder = recorder
        self._clock = clock
        self.name = work.name
        self.interval = work.interval
        self._did = 0
        self._done_at = self._seconds = 0.0

    def step(self) -> int:
        return self.step_for(self._pending.now())

    def step_for(self, chores: DutyOverview) -> int:
        """Run it, if according to `chores` it is not paused and has something to do."""
        if self.name in chores.paused:
            return 0
        began = self._clock.monotonic()
        did = 0 if self.name in chores.idle else self._work.step()
        self._done_at = self._clock.monotonic()
        self._seconds = self._done_at - began
        self._did += did
        self._recorder.add(self, self._done_at)
        return did

    def last_run(self, worker: str, now: float) -> DutyRun:
        """The last run, with the number of jobs moved since the previous record."""
        return DutyRun(
            duty=self.name,
            worker=worker,
            seconds=self._seconds,
            did=self._did,
            interval=timedelta(seconds=self.interval),
            limit=self._work.limit,
            ago=timedelta(seconds=now - self._done_at),
        )

    def recorded(self, run: DutyRun) -> None:
        # Another run may have ended meanwhile.
        self._did -= run.did


class RunRecorder:
    """Records the runs of all duties of one worker, together."""

    def __init__(self, store: Store, *, worker: str, every: float = RECORD_SECONDS) -> None:
        self._store = store
        self._every = every
        self._worker = worker
        self._unwritten: dict[DutyRunner, None] = {}
        self._known: set[DutyRunner] = set()
        self._write_at: float | None = None

    def add(self, runner: DutyRunner, now: float) -> None:
        self._unwritten[runner] = None
        if runner not in self._known:
            self._known.add(runner)
            first = now + FIRST_SECONDS
            self._write_at = first if self._write_at is None else min(self._write_at, first)
        elif self._write_at is not None and now >= self._write_at:
            self.write(now)

    def write(self, now: float) -> None:
        # First: other duties run in other threads, and only one of them must write.
        self._write_at = now + self._every
        runs = {runner: runner.last_run(self._worker, now) for runner in list(self._unwritten)}
        self._store.record_runs(list(runs.values()))
        for runner, run in runs.items():
            runner.recorded(run)
            self._unwritten.pop(runner, None)


class DutyGroup:
    """Duties that run together: on request, and once a second where time passes by itself."""

    name = "tick"
    interval = 1.0

    def __init__(
        self, runners: Sequence[DutyRunner], *, pending: PendingDuties, recorder: RunRecorder, clock: Clock
    ) -> None:
        self._runners = runners
        self.pending = pending
        self.recorder = recorder
        self._clock = clock
        self._ran_at: float | None = None

    def run_now(self, chores: DutyOverview | None = None) -> int:
        """Run them all; how many jobs and batches were moved. `chores` were read just now."""
        self._ran_at = self._clock.monotonic()
        chores = self.pending.refresh(chores)
        return sum([runner.step_for(chores) for runner in self._runners])

    def step(self) -> int:
        """Run them, unless they already ran at this very moment."""
        return 0 if self._ran_at == self._clock.monotonic() else self.run_now()

    def record_runs(self) -> None:
        self.recorder.write(self._clock.monotonic())


class DutiesInTurn:
    """Duties that run one after the other, all at the shortest of their intervals. One timer serves them all."""

    def __init__(self, *duties: "DutyGroup | DutyRunner") -> None:
        self._duties = duties
        self.name = " and ".join(duty.name for duty in duties)
        self.interval = min(duty.interval for duty in duties)

    def step(self) -> int:
        return sum([duty.step() for duty in self._duties])


def repeat_while_full(move: Callable[[int], int], *, limit: int, passes: int) -> int:
    """Call `move` with the limit until it moves fewer, at most `passes` times; how many were moved."""
    total = 0
    for _ in range(passes):
        moved = move(limit)
        total += moved
        if moved < limit:
            break
    return total
