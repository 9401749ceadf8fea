"""The measurements. Each opens an empty store, and leaves no process behind."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import psutil

from bench.lineup import Subject
from bench.marks import Marks
from bench.place import ROOT, Place

BULK = 1_000
LOOK_SECONDS = 0.005
MEMORY_SECONDS = 0.1
WORKER_SECONDS = 20
"""How long a worker may take to run its first job."""


@dataclass(frozen=True)
class Sizes:
    one_seconds: float = 2.0
    bulk: int = 20_000
    share: float = 1.0
    """Of each subject's own number of jobs in a drain."""
    latencies: int = 40
    drain_seconds: float = 45.0


FULL = Sizes()
QUICK = Sizes(one_seconds=0.5, bulk=5_000, share=0.2, latencies=10, drain_seconds=20)

Numbers = dict[str, float]


class Stuck(Exception):
    """A subject that does not come to an end in time."""


class Bench:
    def __init__(self, place: Place, marks: Marks, sizes: Sizes) -> None:
        self._place = place
        self._marks = marks
        self._sizes = sizes
        self.parts: dict[str, Callable[[Subject], Numbers]] = {
            "one": self.one,
            "bulk": self.bulk,
            "drain": self.drain,
            "batch": self.batch,
            "fail-twice": self.fail_twice,
            "latency": self.latency,
        }

    def measure(self, part: str, subject: Subject) -> Numbers:
        self._marks.clear()
        subject.open()
        try:
            return self.parts[part](subject)
        finally:
            subject.close()

    # Enqueue

    def one(self, subject: Subject) -> Numbers:
        subject.enqueue("succeed", 0)
        count = 0

        def numbers() -> Iterator[int]:
            nonlocal count
            while time.monotonic() < end:
                yield count
                count += 1

        start = time.monotonic()
        end = start + self._sizes.one_seconds
        subject.enqueue_singly(numbers())
        return {"jobs/s": count / (time.monotonic() - start)}

    def bulk(self, subject: Subject) -> Numbers:
        start = time.monotonic()
        self._preload(subject, "succeed", self._sizes.bulk)
        return {"jobs/s": self._sizes.bulk / (time.monotonic() - start)}

    def _preload(self, subject: Subject, kind: str, jobs: int) -> None:
        for first in range(0, jobs, BULK):
            subject.enqueue_many(kind, range(first, min(jobs, first + BULK)))

    # Work

    def drain(self, subject: Subject) -> Numbers:
        return self._drain(subject, "succeed", int(subject.drained * self._sizes.share), tries=1)

    def batch(self, subject: Subject) -> Numbers:
        """The same jobs as members of one batch: until that is settled."""
        jobs = int(subject.drained * self._sizes.share)
        subject.draft()
        self._preload(subject, "succeed", jobs)
        subject.publish()
        return self._drain_loaded(subject, jobs, tries=1)

    def fail_twice(self, subject: Subject) -> Numbers:
        return self._drain(subject, "fail_twice", int(subject.failing * self._sizes.share), tries=3)

    def _drain(self, subject: Subject, kind: str, jobs: int, *, tries: int) -> Numbers:
        self._preload(subject, kind, jobs)
        return self._drain_loaded(subject, jobs, tries=tries)

    def _drain_loaded(self, subject: Subject, jobs: int, *, tries: int) -> Numbers:
        """From the first body's start until the store says that nothing is left: late acknowledgements count."""
        subject.after_preload()
        before = self._place.server_seconds()
        with working(subject, self._place.folder) as worker:
            self._wait_for(lambda: self._marks.done(jobs) == jobs, worker)
            self._wait_for(lambda: not subject.has_jobs_left(), worker)
            end = time.monotonic()
            worker.note()
            used = self._place.server_seconds() - before
        first = min(began for began in self._marks.began(jobs) if began)
        return {
            "jobs/s": jobs / (end - first),
            "peak MiB": worker.peak / 2**20,
            "worker CPU µs": (worker.seconds - worker.seconds_to_begin) / jobs * 1e6,
            "server CPU µs": used / jobs * 1e6,
            "run too often": self._marks.tried_more_than(tries, jobs),
        }

    def _wait_for(self, is_so: Callable[[], bool], worker: "WorkerProcess") -> None:
        end = time.monotonic() + self._sizes.drain_seconds
        while not is_so():
            worker.look(has_begun=self._marks.began(1) != [0])
            if time.monotonic() > end:
                raise Stuck(f"not done after {self._sizes.drain_seconds:.0f} s")
            time.sleep(LOOK_SECONDS)

    # Latency

    def latency(self, subject: Subject) -> Numbers:
        """From the call of enqueue until the body's first line, one job at a time on an idle system."""
        with working(subject, self._place.folder) as worker:
            self._warm_up(subject)
            worker.note()
            idle = worker.memory
            rested = self._latencies(subject, self._sizes.latencies, gap=0.1)
            trickled = self._latencies(subject, 2 * self._sizes.latencies, gap=0.01)
        return {
            "p50 ms": median(rested),
            "p95 ms": quantiles(rested, n=20)[-1],
            "10 ms apart p50 ms": median(trickled),
            "10 ms apart p95 ms": quantiles(trickled, n=20)[-1],
            "idle MiB": idle / 2**20,
        }

    def _warm_up(self, subject: Subject) -> None:
        for number in range(5):
            subject.enqueue("succeed", number)
            self._wait_for_body(number)
        time.sleep(1)

    def _latencies(self, subject: Subject, count: int, *, gap: float) -> list[float]:
        self._marks.clear()
        calls = []
        for number in range(count):
            calls.append(time.monotonic())
            subject.enqueue("succeed", number)
            self._wait_for_body(number)
            time.sleep(gap)
        return [(began - called) * 1_000 for began, called in zip(self._marks.began(count), calls, strict=True)]

    def _wait_for_body(self, number: int) -> None:
        end = time.monotonic() + WORKER_SECONDS
        while not self._marks.is_done(number):
            if time.monotonic() > end:
                raise Stuck(f"a single job was not run in {WORKER_SECONDS} s")
            time.sleep(0.0005)


class WorkerProcess:
    """What can be seen of a worker, and of its children, from outside."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log
        self._looked_at = 0.0
        self.memory = self.peak = 0
        self.seconds = self.seconds_to_begin = 0.0

    def look(self, *, has_begun: bool) -> None:
        """Cheap enough to be called in a loop."""
        if self._process.poll() is not None:
            raise Stuck(f"the worker ended: {self._log.read_text(errors='replace')[-2000:]}")
        if not has_begun or time.monotonic() - self._looked_at > MEMORY_SECONDS:
            self.note()
        if not has_begun:
            self.seconds_to_begin = self.seconds

    def note(self) -> None:
        self._looked_at = time.monotonic()
        first = psutil.Process(self._process.pid)
        tree = [first, *first.children(recursive=True)]
        self.memory = sum(process.memory_info().rss for process in tree)
        self.peak = max(self.peak, self.memory)
        self.seconds = sum(sum(process.cpu_times()[:2]) for process in tree)


@contextlib.contextmanager
def working(subject: Subject, folder: Path) -> Iterator[WorkerProcess]:
    log = folder / f"{subject.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(subject.worker(), cwd=ROOT, stdout=output, stderr=output)
    try:
        yield WorkerProcess(process, log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
