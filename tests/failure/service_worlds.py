"""One service as a store keeps it: a row, call counts by worker, running jobs. Tests move the time, also backwards."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mulligan.service.allowance import Allowance, claim_allowance, retry_allowance
from mulligan.service.breaker import begin_probing, force, hold, record_calls
from mulligan.service.config import Service
from mulligan.service.state import Change, ServiceState, Transition
from mulligan.service.window import CallCounts, Figures, ServiceCall, compute_figures

SECOND = 1_000_000
NAME = "gateway"


@dataclass(frozen=True)
class Running:
    epoch: int
    is_retry: bool
    worker: str


@dataclass
class World:
    service: Service
    now: int = 1_700_000_000 * SECOND
    state: ServiceState = field(default_factory=lambda: ServiceState.initial(NAME))
    counts: dict[str, CallCounts] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    @property
    def figures(self) -> Figures:
        failing_since = self.state.failing_since
        return compute_figures(
            self.service,
            self.counts.values(),
            epoch=self.state.epoch,
            failing_since=failing_since,
            now=self.now,
        )

    @property
    def types(self) -> list[str]:
        return [change.type for change in self.changes]

    def running_now(self) -> int:
        return sum(job.epoch == self.state.epoch for job in self.running)

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    def claim(self, wanted: int = 1, *, worker: str = "a", is_retry: bool = False) -> list[Running]:
        self.take(begin_probing(self.service, self.state, now=self.now))
        given = self.ask(wanted)
        self.state = given.state
        jobs = [Running(self.state.epoch, is_retry, worker) for _ in range(given.number)]
        self.running += jobs
        return jobs

    def ask(self, wanted: int) -> Allowance:
        return claim_allowance(self.service, self.state, running=self.running_now(), wanted=wanted, now=self.now)

    def settle(self, jobs: Sequence[Running], *, ok: bool) -> None:
        for job in jobs:
            self.running.remove(job)
        for worker in sorted({job.worker for job in jobs}):
            self.hear(
                worker, [ServiceCall(self.now, ok, job.is_retry, job.epoch) for job in jobs if job.worker == worker]
            )

    def hear(self, worker: str, calls: Sequence[ServiceCall], *, is_awaited: bool = False) -> None:
        self.counts[worker] = self.counts.get(worker, CallCounts()).add(calls, self.service)
        self.take(record_calls(self.service, self.state, self.figures, calls, is_awaited=is_awaited, now=self.now))

    def check(self, *, ok: bool = True, is_awaited: bool = True) -> None:
        """A health check of the current epoch."""
        self.hear("a", [ServiceCall(self.now, ok, epoch=self.state.epoch, is_check=True)], is_awaited=is_awaited)

    def call(self, *outcomes: bool, worker: str = "a") -> None:
        """Calls of the current epoch, one settle each."""
        for ok in outcomes:
            self.hear(worker, [ServiceCall(self.now, ok, epoch=self.state.epoch)])

    def hold(self, seconds: float, *, epoch: int | None = None) -> None:
        epoch = self.state.epoch if epoch is None else epoch
        self.take(hold(self.service, self.state, self.figures, seconds, epoch=epoch, now=self.now))

    def force(self, to: str | None, *, actor: str = "ann", reason: str = "drill") -> None:
        self.take(force(self.state, to, actor=actor, reason=reason, now=self.now))

    def retries(self, in_flight: int = 0) -> int | None:
        return retry_allowance(self.service, self.state, self.figures, in_flight=in_flight)

    def take(self, turn: Transition) -> None:
        self.state = turn.state
        self.changes += turn.changes
