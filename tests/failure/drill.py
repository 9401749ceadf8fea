"""The outage drill in simulated time: a fleet of workers, a service of limited capacity, and a fault.

A small model of discrete events. Workers claim in batches, ask the service's allowance at the claim and settle a few
milliseconds after a call ends; what they claimed and did not start they give back when the service is not closed any
more. Failed jobs come back after an exponential delay, by promotion. Without a service the same fleet runs with
its backoff alone.
"""

import os
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from mulligan.service.allowance import BURST, claim_allowance, retry_allowance
from mulligan.service.breaker import begin_probing, is_routine, record_calls
from mulligan.service.config import Service
from mulligan.service.pace import BOLDEST
from mulligan.service.state import BreakerState, Change, ServiceState, Transition, is_restricted
from mulligan.service.window import CallCounts, Figures, ServiceCall, compute_figures

SECOND = 1_000_000
SEEDS = int(os.environ.get("MULLIGAN_DRILL_SEEDS", "1"))
FIRST_SEED = int(os.environ.get("MULLIGAN_DRILL_SEED", "0"))
FAULTS = ("dead", "429", "black hole", "50 % errors", "flapping", "slow answers")


@dataclass(frozen=True, slots=True)
class Setting:
    """Seconds, and calls a second. `slots` are far more than the load needs, as they are where calls are waited for.
    `floods` is when the jobs that wait come, after the outage began; `away` is how far the store is."""

    fault: str
    seed: int = 0
    workers: int = 4
    slots: int = 100
    capacity: float = 100.0
    load: float = 0.8
    waiting: int = 3_000
    latency: float = 0.2
    timeout: float = 2.0
    begins: float = 40.0
    lasts: float = 20.0
    ends: float = 140.0
    rest: float = 5.0
    floods: float = 1.0
    away: float = 0.0025
    service: Service | None = field(default_factory=lambda: Service("gateway", cooldown="5s"))

    @property
    def concurrency(self) -> int:
        return self.workers * self.slots

    @property
    def recovers(self) -> float:
        return self.begins + self.lasts

    @property
    def arrivals(self) -> float:
        return self.capacity * self.load


@dataclass(slots=True)
class Job:
    number: int
    attempts: int = 0
    epoch: int = 0


@dataclass(slots=True)
class Worker:
    name: int
    busy: int = 0
    ahead: list[Job] = field(default_factory=list)
    is_asking: bool = False


@dataclass(slots=True)
class Report:
    """What was seen, second by second."""

    setting: Setting
    calls: Counter[int] = field(default_factory=Counter)
    good: Counter[int] = field(default_factory=Counter)
    firsts: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    changes: list[tuple[float, Change]] = field(default_factory=list)
    most_in_flight: int = 0
    most_probes: int = 0
    done: int = 0
    begun: int = 0

    def _rate(self, counts: Counter[int], start: float, end: float) -> float:
        return sum(counts[second] for second in range(int(start), int(end))) / (end - start)

    @property
    def rate_before(self) -> float:
        return self._rate(self.good, self.setting.begins - 20, self.setting.begins)

    @property
    def calls_into_the_outage(self) -> int:
        return sum(self.calls[second] for second in range(int(self.setting.begins), int(self.setting.recovers)))

    @property
    def amplification(self) -> float:
        """Calls for each job that was tried, from the outage to the end."""
        span = range(int(self.setting.begins), int(self.setting.ends))
        return sum(self.calls[second] for second in span) / max(1, sum(self.firsts[second] for second in span))

    @property
    def most_into_the_outage(self) -> int:
        """The aim: as many calls hang as there are slots, before any worker can know. Errors at just the
        share that opens it do so by luck a little later: if that is after the flood, every slot is calling by then."""
        is_late = self.opened[:1] > [self.setting.begins + self.setting.floods]
        hang = self.setting.fault in ("black hole", "slow answers") or (self.setting.fault == "50 % errors" and is_late)
        # Most of the slow answers are good ones.
        slow = round(15 * self.setting.lasts)
        most = {"50 % errors": 200, "flapping": 200, "slow answers": slow}.get(self.setting.fault, 100)
        return most + (self.setting.concurrency if hang else 0)

    @property
    def most_amplification(self) -> float:
        """What is aimed at. Slow answers are good ones as long as it is asked little: it closes, and opens again."""
        return 1.15 if self.setting.fault == "slow answers" else 1.10

    @property
    def amplification_of_the_outage(self) -> float:
        span = range(int(self.setting.begins), int(self.setting.recovers))
        return sum(self.calls[second] for second in span) / max(1, sum(self.firsts[second] for second in span))

    @property
    def rate_at_the_end(self) -> float:
        return self._rate(self.good, self.setting.ends - 100, self.setting.ends) / self.rate_before

    @property
    def recovery(self) -> float:
        """Seconds from the end of the fault until goodput is 95 % of what it was, for any three seconds of ten."""
        enough = 0.95 * self.rate_before
        for second in range(int(self.setting.recovers), int(self.setting.ends) - 13):
            if all(self._rate(self.good, at, at + 3) >= enough for at in range(second, second + 10)):
                return second - self.setting.recovers
        return float("inf")

    @property
    def peak(self) -> float:
        """The busiest second of the first minute after the fault, as a share of what the service can do."""
        start = int(self.setting.recovers)
        return max(self.calls[second] for second in range(start, start + 60)) / self.setting.capacity

    @property
    def most_peak(self) -> float:
        """What the search may ask for: its boldest step above what the service can do, and a burst."""
        return (1 + BOLDEST) * (1 + BURST) + 1 / self.setting.capacity

    @property
    def search(self) -> float:
        """Seconds until three seconds give 90 % of what the service can do, since it is well and closed for good."""
        closings = (at for at, change in self.changes if change.type == "service.closed")
        since = max(self.setting.recovers, max(closings, default=0))
        for second in range(int(since), int(self.setting.ends) - 3):
            if self._rate(self.good, second, second + 3) >= 0.9 * self.setting.capacity:
                return second - since
        return float("inf")

    @property
    def failed_after(self) -> int:
        """Calls that failed once the last of the outage had timed out, and those that stood behind them."""
        begins, ends = int(self.setting.recovers + 2 * self.setting.timeout) + 1, int(self.setting.ends)
        return sum(self.failed[second] for second in range(begins, ends))

    @property
    def lowest_after(self) -> float:
        """Goodput of the worst five seconds once it is back, as a fraction of the earlier rate."""
        start = int(self.setting.recovers) + 15
        ends = int(self.setting.ends) - 5
        return min(self._rate(self.good, second, second + 5) for second in range(start, ends)) / self.rate_before

    @property
    def opened(self) -> list[float]:
        return [at for at, change in self.changes if change.type == "service.opened"]

    def openings(self, start: float = 0.0, end: float = float("inf")) -> int:
        return sum(start <= at < end for at in self.opened)


class Remote:
    """The service: some places, a queue before them, and a fault for a while."""

    def __init__(self, setting: Setting, draw: Random) -> None:
        self.setting = setting
        self._draw = draw
        self._places = [0] * round(setting.capacity * setting.latency)

    def is_faulty(self, now: int) -> bool:
        at = now / SECOND - self.setting.begins
        if not 0 <= at < self.setting.lasts:
            return False
        return self.setting.fault != "flapping" or int(at) % 2 == 0

    def answer(self, now: int) -> tuple[float, bool]:
        """After how many seconds the caller has an answer, or has given up waiting, and whether it is a good one."""
        seconds, ok = self._answer(now)
        return (seconds, ok) if seconds <= self.setting.timeout else (self.setting.timeout, False)

    def _answer(self, now: int) -> tuple[float, bool]:
        if not self.is_faulty(now):
            return self._worked(1, now), True
        match self.setting.fault:
            case "dead" | "flapping":
                return 0.005, False
            case "429":
                return 0.02, False
            case "black hole":
                return self.setting.timeout + 1, False
            case "50 % errors":
                return self._worked(1, now), self._draw.random() < 0.5
            case "slow answers":
                return self._worked(4, now), True
        raise AssertionError(self.setting.fault)

    def _worked(self, times: float, now: int) -> float:
        """A place of its own for each call, and a queue before them. Who gave up waiting is still worked for: so it
        collapses, and does not come back by itself."""
        starts = max(now, heappop(self._places))
        ends = starts + round(self.setting.latency * times * self._draw.uniform(0.8, 1.2) * SECOND)
        heappush(self._places, ends)
        return (ends - now) / SECOND


class Drill:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.draw = Random(setting.seed)
        self.remote = Remote(setting, self.draw)
        self.now = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.order = 0
        self.queue: deque[Job] = deque()
        self.retries: deque[Job] = deque()
        self.parked: deque[Job] = deque()
        self.workers = [Worker(number) for number in range(setting.workers)]
        self.state = ServiceState.initial("gateway")
        self.counts: dict[int, CallCounts] = {}
        self.in_service = 0
        self.running: Counter[int] = Counter()
        self.retries_in_flight = 0
        self.report = Report(setting)
        self.numbers = 0

    # Time

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self.order += 1
        heappush(self.events, (self.now + max(1, round(seconds * SECOND)), self.order, do))

    @property
    def seconds(self) -> float:
        return self.now / SECOND

    def run(self) -> Report:
        self.arrive()
        self.after(self.setting.begins + self.setting.floods, self.flood)
        for worker in self.workers:
            self.after(self.draw.random() * 0.1, lambda worker=worker: self.claim(worker))  # type: ignore[misc]
        while self.events and self.events[0][0] <= self.setting.ends * SECOND:
            self.now, _, do = heappop(self.events)
            do()
        return self.report

    # Jobs

    def arrive(self) -> None:
        self.enqueue()
        self.after(self.draw.expovariate(self.setting.arrivals), self.arrive)
        self.wake()

    def flood(self) -> None:
        """Thousands more, submitted while the service is out of order."""
        for _ in range(self.setting.waiting):
            self.enqueue()
        self.wake()

    def enqueue(self) -> None:
        self.numbers += 1
        self.queue.append(Job(self.numbers))

    def wake(self) -> None:
        for worker in self.workers:
            if not worker.is_asking and self.free(worker) > 0:
                self.ask_again(worker, 0.002)

    def ask_again(self, worker: Worker, seconds: float) -> None:
        worker.is_asking = True
        self.after(seconds, lambda: self.claim(worker))

    def free(self, worker: Worker) -> int:
        return self.setting.slots - worker.busy - len(worker.ahead)

    def ending_soon(self, worker: Worker) -> int:
        """About as many as end within 100 ms, which are claimed ahead."""
        return round(worker.busy * min(1.0, 0.1 / self.setting.latency) * 0.5)

    # Claim

    def claim(self, worker: Worker) -> None:
        worker.is_asking = False
        self.admit()
        wanted = self.free(worker) + self.ending_soon(worker)
        if wanted <= 0:
            return
        number, again_in = self.allowed(min(wanted, len(self.retries) + len(self.queue)))
        for _ in range(number):
            # A retry keeps its rank: it comes before what was submitted later.
            job = self.retries.popleft() if self.retries else self.queue.popleft()
            job.epoch = self.state.epoch
            self.running[job.epoch] += 1
            worker.ahead.append(job)
        if self.state.breaker is BreakerState.HALF_OPEN:
            self.report.most_probes = max(self.report.most_probes, self.running[self.state.epoch])
        self.start(worker)
        if self.retries or self.queue:
            self.ask_again(worker, min(max(again_in, 0.01), 1.0))

    def allowed(self, wanted: int) -> tuple[int, float]:
        service = self.setting.service
        if service is None:
            return wanted, 0.01
        self.take(begin_probing(service, self.state, now=self.now))
        if not is_restricted(service, self.state):
            return wanted, 0.01
        given = claim_allowance(
            service, self.state, running=self.running[self.state.epoch], wanted=wanted, now=self.now
        )
        self.state = given.state
        return given.number, 1.0 if given.again_in is None else given.again_in / SECOND

    def admit(self) -> None:
        """Promotion: retries that came due, as many as the budget allows."""
        service = self.setting.service
        while self.parked:
            if service is not None:
                allowed = retry_allowance(service, self.state, self.figures, in_flight=self.retries_in_flight)
                if allowed == 0:
                    return
            self.retries_in_flight += 1
            self.retries.append(self.parked.popleft())

    def start(self, worker: Worker) -> None:
        while worker.ahead and worker.busy < self.setting.slots:
            job = worker.ahead.pop(0)
            worker.busy += 1
            self.call(worker, job)

    # The service

    def call(self, worker: Worker, job: Job) -> None:
        job.attempts += 1
        report = self.report
        report.calls[int(self.seconds)] += 1
        report.firsts[int(self.seconds)] += job.attempts == 1
        self.in_service += 1
        report.most_in_flight = max(report.most_in_flight, self.in_service)
        seconds, ok = self.remote.answer(self.now)
        self.after(seconds, lambda: self.answered(worker, job, ok=ok))

    def answered(self, worker: Worker, job: Job, *, ok: bool) -> None:
        self.in_service -= 1
        self.report.failed[int(self.seconds)] += not ok
        worker.busy -= 1
        self.start(worker)
        self.after(self.draw.uniform(0.002, 0.008), lambda: self.settle(worker, job, ok=ok))

    # Settle

    def settle(self, worker: Worker, job: Job, *, ok: bool) -> None:
        self.running[job.epoch] -= 1
        is_retry = job.attempts > 1
        self.retries_in_flight -= is_retry
        if ok:
            self.report.good[int(self.seconds)] += 1
            self.report.done += 1
        else:
            delay = self.setting.rest * 2 ** (job.attempts - 1) * self.draw.uniform(0.8, 1.2)
            self.after(min(delay, 40), lambda: self.came_due(job))
        self.hear(worker, ServiceCall(self.now, ok, is_retry, job.epoch))
        if not worker.is_asking:
            self.ask_again(worker, 0.001)

    def came_due(self, job: Job) -> None:
        self.parked.append(job)
        self.wake()

    def hear(self, worker: Worker, call: ServiceCall) -> None:
        service = self.setting.service
        if service is None:
            return
        self.counts[worker.name] = self.counts.get(worker.name, CallCounts()).add([call], service)
        if not is_routine(self.state, [call]):
            self.take(record_calls(service, self.state, self.figures, [call], now=self.now))
        if self.state.breaker is not BreakerState.CLOSED:
            self.give_back(worker)

    def give_back(self, worker: Worker) -> None:
        """What was claimed before the change and not begun. Each worker hears of it with its next settle."""
        for job in [job for job in worker.ahead if job.epoch != self.state.epoch]:
            worker.ahead.remove(job)
            self.running[job.epoch] -= 1
            (self.retries if job.attempts else self.queue).appendleft(job)

    @property
    def figures(self) -> Figures:
        assert self.setting.service is not None
        return compute_figures(
            self.setting.service,
            self.counts.values(),
            epoch=self.state.epoch,
            failing_since=self.state.failing_since,
            now=self.now,
        )

    def take(self, turn: Transition) -> None:
        self.state = turn.state
        self.report.changes += [(self.seconds, change) for change in turn.changes]


def drill(setting: Setting) -> Report:
    return Drill(setting).run()


def line(report: Report) -> str:
    setting = report.setting
    return (
        f"{setting.fault:12} seed {setting.seed} {'backoff' if setting.service is None else 'service'}:"
        f" {report.calls_into_the_outage:6,} into the outage, amplification {report.amplification:.3f},"
        f" back in {report.recovery:.0f} s, peak {report.peak:.2f},"
        f" 90 % of what it can do in {report.search:.0f} s, {report.failed_after} failed,"
        f" then at least {report.lowest_after:.2f},"
        f" {report.openings()} openings, {report.done:,} done"
    )


if __name__ == "__main__":
    for fault in FAULTS:
        for seed in range(3):
            print(line(drill(Setting(fault, seed=seed, lasts=20 + 2 * seed))))
        print(line(drill(Setting(fault, service=None))))
