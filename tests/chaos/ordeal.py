"""The ordeal: workers, a client and a reader under load, the faults of a plan, then calm until all work is done."""

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from chaos.app import app
from chaos.born import Born
from chaos.ledger import Run, Watch, lines, runs
from chaos.plan import LEASE, SEED, SLOTS, Fault, spared
from chaos.reader import written
from chaos.workers import Life, Workers, environment
from mulligan.event import Event
from mulligan.job import Job, JobFilter
from mulligan.store import open_store
from mulligan.store.protocols import Store, WorkerRecord
from mulligan.testing.stores.invariants import PAGE, all_events, all_jobs

RATE = 70
"""Jobs a second: about as much as the four can do while they are being killed."""
PATIENCE = 90.0
VICTIMS = ("kill", "stop")
# How often the store is asked; what costs nothing is looked at more often.
OFTEN = 0.1
Strike = Callable[[Fault], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is left when it is over."""

    plan: Sequence[Fault]
    accepted: list[str]
    runs: list[Run]
    jobs: list[Job[Any]]
    events: list[Event]
    read: list[str]
    workers: list[WorkerRecord]
    lives: list[Life]
    statuses: list[int]
    log: str
    crashes: list[float] = field(default_factory=list)
    """When the database crashed."""


class Ordeal:
    """`url` is what everybody uses; `direct` reaches the database past all faults."""

    def __init__(self, folder: Path, url: str, *, direct: str | None = None, strikes: Mapping[str, Strike]) -> None:
        self._folder = folder
        self._url = url
        self._direct = direct or url
        self._ledger = folder / "ledger"
        self._watch = Watch(self._ledger)
        self._environment = environment(url, lease=LEASE, ledger=self._ledger)
        self._strikes = {"kill": self._kill, "stop": self._stop, **strikes}
        self._thaws: list[threading.Timer] = []
        self.crashes: list[float] = []

    def run(self, plan: Sequence[Fault]) -> Evidence:
        self._migrate()
        with contextlib.ExitStack() as stack:
            self._workers = stack.enter_context(
                contextlib.closing(Workers(SLOTS, self._environment, self._folder / "log"))
            )
            client = stack.enter_context(self._beside("client", self._folder / "accepted", SEED, RATE))
            reader = stack.enter_context(self._beside("reader", self._folder / "read"))
            self._supervise(lambda: all(map(self._is_at_work, range(SLOTS))))
            self._strike(plan)
            # Whatever was lost is to be found again under the same load: the log is the clock of that.
            store = stack.enter_context(contextlib.closing(open_store(self._direct)))
            self._supervise(lambda: self._is_all_found(store), every=OFTEN)
            end(client)
            self._supervise(lambda: not store.busy(list(app.tasks), waiting_for=["retry", "delay"]), every=OFTEN)
            workers = store.workers()
            statuses = self._workers.end()
            end(reader)
            return self._evidence(plan, statuses, workers, all_jobs(store), all_events(store))

    def _migrate(self) -> None:
        with contextlib.closing(open_store(self._direct)) as store:
            store.migrate()

    def _evidence(
        self,
        plan: Sequence[Fault],
        statuses: list[int],
        workers: list[WorkerRecord],
        jobs: list[Job[Any]],
        events: list[Event],
    ) -> Evidence:
        return Evidence(
            plan=plan,
            accepted=[job for line in lines(self._folder / "accepted") for job in line["accepted"]],
            runs=runs(self._ledger),
            jobs=jobs,
            events=events,
            read=(self._folder / "read").read_text().splitlines(),
            workers=workers,
            lives=self._workers.lives,
            statuses=statuses,
            log=(self._folder / "log").read_text(),
            crashes=self.crashes,
        )

    @contextlib.contextmanager
    def _beside(self, module: str, *arguments: object) -> Any:
        process = self._workers.beside(f"chaos.{module}", self._url, *arguments)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _strike(self, plan: Sequence[Fault]) -> None:
        """In the order of the plan; later than planned where the machine is too slow for its victims to be at work."""
        begin = time.monotonic()
        for fault in plan:
            self._supervise(partial(self._is_time, begin + fault.at))
            if fault.what in VICTIMS:
                self._supervise(partial(self._victims, fault))
                begin = max(begin, time.monotonic() - fault.at)
            self._strikes[fault.what](fault)
        for thaw in self._thaws:
            thaw.join()

    @staticmethod
    def _is_time(moment: float) -> bool:
        return time.monotonic() >= moment

    def _victims(self, fault: Fault) -> list[int]:
        """Whom the fault may strike: the one it names, or the next that is at work, awake and not spared now."""
        slots = [(fault.slot + further) % SLOTS for further in range(SLOTS)]
        others = {spared(fault.at), spared(fault.at + fault.seconds)}
        return [slot for slot in slots if slot not in others and self._is_at_work(slot)]

    def _is_at_work(self, slot: int) -> bool:
        """One that is not would lose nothing; one that was frozen is to have the time to offer its results."""
        return self._workers.pids[slot] in self._watch.pids() and not self._workers.is_frozen(slot)

    def _is_all_found(self, store: Store) -> bool:
        """Nobody who was killed holds anything any more."""
        living = {record.incarnation for record in store.workers() if record.pid in self._workers.pids}
        return all(job.leased_by in living for job in store.jobs(JobFilter(state="running"), limit=PAGE).jobs)

    def _supervise(self, is_so: Callable[[], object], *, every: float = 0.02) -> None:
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < end, "it did not become true in time"
            self._workers.mend()
            time.sleep(every)

    def _kill(self, fault: Fault) -> None:
        self._workers.kill(self._victims(fault)[0])

    def _stop(self, fault: Fault) -> None:
        thaw = threading.Timer(fault.seconds, self._workers.thaw, [self._workers.freeze(self._victims(fault)[0])])
        thaw.start()
        self._thaws.append(thaw)


def end(process: Born) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, f"process {process.pid} ended with {process.returncode}"


def summary(evidence: Evidence) -> str:
    types = Counter(event.type for event in evidence.events)
    kills = sum(life.killed is not None for life in evidence.lives)
    lost = sum(event.code == "WORKER_LOST" for event in evidence.events)
    return (
        f"{kills} kills, {sum(len(life.stops) for life in evidence.lives)} stops, {len(evidence.crashes)} database "
        f"crashes; {len(evidence.accepted)} jobs accepted, {len(evidence.runs)} runs, {lost} attempts lost, "
        f"{types['job.refused']} late results refused, {len(evidence.events)} events"
    )


def seen_by(events: Sequence[Event]) -> list[str]:
    return [written(event) for event in events]
