"""One run: workers, a client and a reader under load, the faults of a plan, then no faults until all work is done."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from chaos.app import GATEWAY, app
from chaos.counters import counters
from chaos.evidence import Evidence
from chaos.forked import ForkedProcess
from chaos.ledger import Watch, lines, runs
from chaos.plan import LEASE, SEED, SLOTS, Fault, spared
from chaos.workers import Workers, environment
from conformance.invariants import PAGE, all_events, all_jobs
from mulligan.records.job import JobFilter
from mulligan.service.records import ServiceRequest
from mulligan.store import open_store
from mulligan.store.messages import WorkerRecord
from mulligan.store.store import Store

RATE = 70
"""Jobs a second: about as much as the four can do while they are being killed."""
PATIENCE = 90.0
VICTIMS = ("kill", "stop")
# How often the store is asked; what costs nothing is looked at more often.
OFTEN = 0.1
Strike = Callable[[Fault], None]


class ChaosRun:
    """All processes use `url`; `direct` reaches the database past all faults."""

    def __init__(self, folder: Path, url: str, *, direct: str | None = None, strikes: Mapping[str, Strike]) -> None:
        self._folder = folder
        self._url = url
        self._direct = direct or url
        self._ledger = folder / "ledger"
        self._watch = Watch(self._ledger)
        self._outage = folder / "outage"
        self._environment = {**environment(url, lease=LEASE, ledger=self._ledger), "CHAOS_OUTAGE": str(self._outage)}
        self._strikes = {"kill": self._kill, "stop": self._stop, "outage": self._break_off, **strikes}
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
            store = stack.enter_context(contextlib.closing(open_store(self._direct)))
            # Manually: after so many outages it would admit the blocked jobs at its own pace.
            store.force(ServiceRequest(id="calm", name=GATEWAY, to="closed"))
            # Lost jobs must be reclaimed under the same load. The log shows when they are.
            self._supervise(lambda: self._is_all_found(store), every=OFTEN)
            end(client)
            # On a machine with other work, jobs wait for longer at the end of a longer run.
            drained = PATIENCE + plan[-1].at / 2
            is_done = lambda: not store.is_busy(list(app.tasks), waiting_for=["retry", "delay"])  # noqa: E731
            self._supervise(is_done, every=OFTEN, patience=drained)
            workers = store.workers()
            statuses = self._workers.end()
            end(reader)
            return self._evidence(plan, statuses, workers, store)

    def _migrate(self) -> None:
        with contextlib.closing(open_store(self._direct)) as store:
            store.migrate()

    def _evidence(
        self,
        plan: Sequence[Fault],
        statuses: list[int],
        workers: list[WorkerRecord],
        store: Store,
    ) -> Evidence:
        said = lines(self._folder / "accepted")
        return Evidence(
            plan=plan,
            accepted=[job for line in said for job in line.get("accepted", ())],
            published={line["published"]: line["is_followed"] for line in said if "published" in line},
            runs=runs(self._ledger),
            jobs=all_jobs(store),
            events=all_events(store),
            read=(self._folder / "read").read_text().splitlines(),
            workers=workers,
            lives=self._workers.lives,
            statuses=statuses,
            log=(self._folder / "log").read_text(),
            counters=counters(store, self._direct),
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
        self._outage.unlink(missing_ok=True)

    @staticmethod
    def _is_time(moment: float) -> bool:
        return time.monotonic() >= moment

    def _victims(self, fault: Fault) -> list[int]:
        """The worker that the fault names, or the next one that is at work, not frozen and not spared now."""
        slots = [(fault.slot + further) % SLOTS for further in range(SLOTS)]
        others = {spared(fault.at), spared(fault.at + fault.seconds)}
        return [slot for slot in slots if slot not in others and self._is_at_work(slot)]

    def _is_at_work(self, slot: int) -> bool:
        """An idle worker would lose nothing. One that was frozen gets time to settle its results."""
        life = self._workers.slots[slot]
        # The number of its process may have been another's.
        return self._watch.signs().get(life.pid, 0.0) > life.started and not self._workers.is_frozen(slot)

    def _is_all_found(self, store: Store) -> bool:
        """No killed worker holds a lease any more."""
        living = {record.incarnation for record in store.workers() if record.pid in self._workers.pids}
        return all(job.leased_by in living for job in store.jobs(JobFilter(state="running"), limit=PAGE).jobs)

    def _supervise(self, is_so: Callable[[], object], *, every: float = 0.02, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
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

    def _break_off(self, fault: Fault) -> None:
        """The service that some tasks call does not answer the next ones."""
        self._outage.write_bytes(b"." * fault.number)


def end(process: ForkedProcess) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, f"process {process.pid} ended with {process.returncode}"
