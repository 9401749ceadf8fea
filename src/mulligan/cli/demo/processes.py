"""The processes: gateway, workers and producer. All are started and stopped here."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import Self

from mulligan import App, JobFilter, State
from mulligan.cli.demo.faults import FaultPlan, Faults
from mulligan.cli.demo.gateway import Gateway
from mulligan.cli.demo.incidents import EventReader, Incident, Weight
from mulligan.cli.demo.producer import Producer
from mulligan.cli.demo.view import Snapshot
from mulligan.cli.demo.workers import TASKS, Workers, WorkersFailed, worker_command
from mulligan.explain.words import counted
from mulligan.values.clock import SystemClock

WORKERS = 2
LONGEST_START = 60.0
# No new jobs in the last part, so that the others can finish.
PRODUCING = 0.85
# A worker is killed when it holds this many jobs, or after the longest wait.
WORTH_KILLING = 2
LONGEST_AIM = 1.0


class DemoProcesses:
    def __init__(
        self,
        app: App,
        url: str,
        *,
        log: Path,
        seconds: float | None,
        faults: Faults | None = None,
        tasks: str = TASKS,
        producer: Producer | None = None,
    ) -> None:
        self.app = app
        self.seconds = seconds
        self.killed = 0
        self.events = EventReader(app)
        self.producer = producer or Producer(app)
        self.gateway = Gateway(lambda: self._faults.at(self.elapsed))
        self._faults = faults or FaultPlan.within(seconds)
        self._log = log
        environment = {**self.gateway.environment, "MULLIGAN_DATABASE_URL": url}
        self._workers = Workers(environment, log, command=worker_command(tasks))
        self._clock = SystemClock()
        self._began, self._began_at = self._clock.monotonic(), self._clock.now()
        self._incidents: list[Incident] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            # Stopped in reverse order, so that running jobs still reach the gateway.
            stack.enter_context(self.gateway)
            stack.callback(self._workers.stop)
            self._workers.start(WORKERS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def elapsed(self) -> float:
        return self._clock.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        return self.seconds is not None and self.elapsed >= self.seconds

    @property
    def is_ready(self) -> bool:
        """Whether a worker is registered. Raises WorkersFailed if none can start."""
        self._workers.check()
        if self.elapsed > LONGEST_START:
            raise WorkersFailed("the workers of the demo do not start", self._log)
        return any(worker.pid in self._workers.pids for worker in self.app.workers())

    def begin(self) -> None:
        """Start the clock."""
        self._began, self._began_at = self._clock.monotonic(), self._clock.now()

    def step(self) -> None:
        self.producer.produce(min(self.elapsed, (self.seconds or inf) * PRODUCING))
        for pid in self._workers.replace_ended():
            self._add_incident(pid, "ended by itself", "it is replaced")
        if self.killed < self._faults.kills_due(self.elapsed):
            self._kill()
        self._incidents += self.events.follow()

    def _kill(self) -> None:
        """Kill the busiest worker and start another."""
        victim, held = self._busiest()
        is_late = self.killed < self._faults.kills_due(self.elapsed - LONGEST_AIM)
        if held < WORTH_KILLING and not is_late:
            return
        self._workers.kill(victim)
        self._workers.start()
        self.killed += 1
        self._add_incident(victim, "was killed", f"it held {counted(held, 'job')}; it is replaced")

    def _busiest(self) -> tuple[int, int]:
        """The pid of the worker with the most jobs, and their number."""
        pids = {worker.incarnation: worker.pid for worker in self.app.workers()}
        running = self.app.jobs(JobFilter(state=State.RUNNING), limit=1_000).jobs
        held = Counter(pids.get(job.leased_by or "") for job in running)
        return max(((pid, held[pid]) for pid in self._workers.pids), key=lambda worker: worker[1])

    def _add_incident(self, pid: int, what: str, then: str) -> None:
        self._incidents.append(Incident(self._clock.now(), f"worker {pid}", what, then, Weight.LOSS))

    def snapshot(self) -> Snapshot:
        """The current state, with the incidents since the last snapshot."""
        incidents, self._incidents = self._incidents, []
        return Snapshot(
            elapsed=self.elapsed,
            seconds=self.seconds,
            began_at=self._began_at,
            phase=self._faults.at(self.elapsed),
            calls=self.gateway.calls,
            workers=len(self._workers.pids),
            killed=self.killed,
            taken_back=self.events.taken_back,
            states=self._states(),
            accepted=len(self.producer.accepted),
            retries=self.events.retries.total(),
            waits=self.events.rate_limit_waits,
            incidents=incidents,
        )

    def _states(self) -> Mapping[str, int]:
        counts = self.app.store.counts()
        return sum((Counter(counts.get(kind, {})) for kind in self.app.tasks), Counter())
