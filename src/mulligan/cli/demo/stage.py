"""The stage: gateway, workers and producer, each real. What is started here is ended here."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from mulligan import App, JobFilter, State
from mulligan.cli.demo.gateway import Gateway
from mulligan.cli.demo.producer import Producer
from mulligan.cli.demo.story import DemoStory, Happening, Weight
from mulligan.cli.demo.view import Scene
from mulligan.cli.demo.weather import Weather
from mulligan.cli.demo.workers import Workers, WorkersFailed
from mulligan.values.clock import SystemClock

WORKERS = 2
LONGEST_START = 15.0
# The last part of the time belongs to jobs under way: new ones would only be left over.
PRODUCING = 0.85
# A killing is put off until the victim holds so many jobs, but not for ever.
WORTH_KILLING = 2
LONGEST_AIM = 1.0


class Stage:
    def __init__(self, app: App, url: str, *, log: Path, seconds: float | None) -> None:
        self.app = app
        self.seconds = seconds
        self.killed = 0
        self.story = DemoStory(app)
        self.producer = Producer()
        self.gateway = Gateway(lambda: self._weather.at(self.elapsed))
        self._weather = Weather.within(seconds)
        self._log = log
        self._workers = Workers({**self.gateway.environment, "MULLIGAN_DATABASE_URL": url}, log)
        self._clock = SystemClock()
        self._began, self._began_at = self._clock.monotonic(), self._clock.now()
        self._told: list[Happening] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            # Ended in the opposite order: jobs in flight still find their gateway.
            stack.enter_context(self.gateway)
            stack.callback(self._workers.stop)
            for _ in range(WORKERS):
                self._workers.start()
            stack.callback(self.producer.stop)
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
        """Whether a worker has shown itself. Raises WorkersFailed if none can."""
        self._workers.check()
        if self.elapsed > LONGEST_START:
            raise WorkersFailed("the workers of the demo do not start", self._log)
        return any(worker.pid in self._workers.pids for worker in self.app.workers())

    def begin(self) -> None:
        """Time counts from here."""
        self._began, self._began_at = self._clock.monotonic(), self._clock.now()
        self.producer.start()

    def step(self) -> None:
        if self.seconds is not None and self.elapsed >= self.seconds * PRODUCING:
            self.producer.stop()
        for pid in self._workers.replace_ended():
            self._tell_of_worker(pid, "ended by itself", "another takes its place")
        if self.killed < self._weather.kills_due(self.elapsed):
            self._kill()
        self._told += self.story.follow()

    def _kill(self) -> None:
        """Take a worker out of the middle of its work, and put another in its place."""
        victim, held = self._busiest()
        is_late = self.killed < self._weather.kills_due(self.elapsed - LONGEST_AIM)
        if held < WORTH_KILLING and not is_late:
            return
        self._workers.kill(victim)
        self._workers.start()
        self.killed += 1
        self._tell_of_worker(
            victim, "was killed", f"it held {held} {'job' if held == 1 else 'jobs'}; another takes its place"
        )

    def _busiest(self) -> tuple[int, int]:
        """The pid of the worker that holds most jobs, and how many."""
        pids = {worker.incarnation: worker.pid for worker in self.app.workers()}
        running = self.app.jobs(JobFilter(state=State.RUNNING), limit=1_000).jobs
        held = Counter(pids.get(job.leased_by or "") for job in running)
        return max(((pid, held[pid]) for pid in self._workers.pids), key=lambda worker: worker[1])

    def _tell_of_worker(self, pid: int, what: str, then: str) -> None:
        self._told.append(Happening(self._clock.now(), f"worker {pid}", what, then, Weight.LOSS))

    def scene(self) -> Scene:
        """This moment, with what happened since the last scene."""
        told, self._told = self._told, []
        return Scene(
            elapsed=self.elapsed,
            seconds=self.seconds,
            began_at=self._began_at,
            phase=self._weather.at(self.elapsed),
            calls=self.gateway.calls,
            workers=len(self._workers.pids),
            killed=self.killed,
            taken_back=self.story.taken_back,
            states=self._states(),
            accepted=len(self.producer.accepted),
            retries=self.story.count("job.retried"),
            waits=self.story.rate_limit_waits,
            happenings=told,
        )

    def _states(self) -> Mapping[str, int]:
        states: Counter[str] = Counter()
        for kind, counts in self.app.counts().items():
            if kind in self.app.tasks:
                states.update(counts)
        return states
