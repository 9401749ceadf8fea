"""The base of every test of a store: a store, a clock that moves when told, and short names for the operations."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any, TypeVar

import msgspec
import pytest

from conformance.invariants import check
from mulligan.failure.decision import Decision, Fail, Retry, Succeed
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import Move, State
from mulligan.records.event import Event
from mulligan.records.job import Fence, Job, JobFilter, Lease, NewJob
from mulligan.records.limit import LimitBook
from mulligan.service.config import ServiceBook
from mulligan.store import batches, limits, promote
from mulligan.store import store as operations
from mulligan.store.messages import (
    Beat,
    BeatReply,
    Claim,
    Claimed,
    Outcome,
    ReportedProgress,
    Request,
    Settled,
    WorkerRecord,
)
from mulligan.store.sqlite import claim as sqlite_claim
from mulligan.store.store import Store
from mulligan.testing.virtual import VirtualClock
from mulligan.values.clock import Ids

# Read now: the tests' own fixtures clear the environment.
IS_SOAK = bool(os.environ.get("MULLIGAN_SOAK"))

T = TypeVar("T")
SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=number) for number in (1, 60, 3_600, 86_400))
INSTANT = timedelta(microseconds=1)
KIND = "send"
WORKER = "worker-1"
# Of claims; more than any crowd here needs.
PASSES = 20
# Jobs of one pass in a test that uses `small_passes`, and where the store says how many they are: ten times as many.
PASS = 100
PASS_SIZES = [
    *((promote, "PROMOTE_PASS"), (sqlite_claim, "PROMOTE_PASS")),
    *((batches, "CANCEL_PASS"), (operations, "PUBLISH_PASS")),
    *((limits, "MOST"), (limits, "SWEPT_AT_ONCE")),
]


class Bench:
    """One store under test. `folder` is empty and this test's alone; `clock` moves when told; `services` gives the
    services in force.

    A store that sends no hints sets `gives_hints = False`. A variant of a store that runs every case elsewhere sets
    `every_case = IS_SOAK`: in short runs each of its rules has a third of its cases, at least one.
    """

    gives_hints = True
    every_case = True
    folder: Path
    clock: VirtualClock
    store: Store
    book: ServiceBook

    def services(self) -> ServiceBook:
        return self.book

    def open_store(self, now: Callable[[], datetime]) -> Store:
        """An empty store that goes by `now` and `self.services`."""
        raise NotImplementedError("open_store gives the suite an empty store")

    def open_twin(self, now: Callable[[], datetime]) -> Store:  # noqa: ARG002
        """A second store on the data of the first, as another process has it."""
        pytest.skip("a store in memory belongs to one process: it cannot be opened twice")

    @pytest.fixture(autouse=True)
    def _arranged(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        self.clock = VirtualClock()
        self.book = ServiceBook()
        self.ids = Ids(self.clock, Random(1))
        self._numbers = count(1)
        self._opened: list[Store] = []
        self.store = self._open(self.open_store)
        yield
        self.book = ServiceBook()
        try:
            check(self.store, self.clock)
        finally:
            for store in reversed(self._opened):
                store.close()

    @pytest.fixture
    def small_passes(self) -> Iterator[None]:
        """A few hundred jobs are more than the store takes in one pass."""
        with pytest.MonkeyPatch.context() as patch:
            for module, name in PASS_SIZES:
                assert getattr(module, name) == 10 * PASS
                patch.setattr(module, name, PASS)
            yield

    def twin(self) -> Store:
        return self._open(self.open_twin)

    def lift_limits(self) -> None:
        """Remove all limits, and claim until no job is blocked by one."""
        for store in self._opened:
            store.limit_by(LimitBook)
        for _ in range(PASSES):
            for store in self._opened:
                self.claim("nothing", store=store)
            if not self._is_any_job_blocked():
                return

    def _is_any_job_blocked(self) -> bool:
        waiting = self.store.jobs(JobFilter(state="waiting"), limit=100)
        return waiting.cursor is not None or any(
            job.waiting_for in ("limit", "budget") or job.due_at <= self.now for job in waiting.jobs
        )

    def _open(self, opener: Callable[[Callable[[], datetime]], Store]) -> Store:
        # Asked for anew each time: a test may begin on another day.
        store = opener(lambda: self.clock.now())
        self._opened.append(store)
        return store

    # Words

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def advance(self, by: timedelta) -> None:
        self.clock.advance(by)

    def new(self, kind: str = KIND, *, arguments: str = "{}", **options: Any) -> NewJob:
        return NewJob(**{"id": self.ids(), "kind": kind, "arguments": arguments, **options})

    def enqueue(self, kind: str = KIND, **options: Any) -> Job[Any]:
        (job,) = self.store.enqueue([self.new(kind, **options)])
        return job

    def claimed(
        self,
        *kinds: str,
        by: str = WORKER,
        limit: int = 100,
        number: int | None = None,
        queues: Sequence[str] | None = None,
        lease: timedelta = MINUTE,
        version: str | None = None,
        whole: bool = False,
        fair: Sequence[str] = (),
        store: Store | None = None,
    ) -> Claimed:
        claim = Claim(
            incarnation=by,
            number=next(self._numbers) if number is None else number,
            kinds=kinds or (KIND,),
            queues=queues,
            limit=limit,
            lease=lease,
            version=version,
            whole=whole,
            fair=fair,
        )
        return (store or self.store).claim(claim)

    def claim(self, *kinds: str, **options: Any) -> list[Lease]:
        return self.claimed(*kinds, **options).leases

    def leased(self, kind: str = KIND, *, by: str = WORKER, lease: timedelta = MINUTE, **options: Any) -> Lease:
        """A new job, running."""
        job = self.enqueue(kind, **options)
        (found,) = [taken for taken in self.claim(kind, by=by, lease=lease) if taken.fence.id == job.id]
        return found

    def settle(self, lease: Lease, decision: Decision, *, by: str | None = None, store: Store | None = None) -> Settled:
        (answer,) = (store or self.store).settle([Outcome(lease, decision, seconds=0.5, reclaimed_by=by)])
        return answer

    def beat(
        self,
        *extend: Fence,
        by: str = WORKER,
        lease: timedelta = MINUTE,
        progress: Sequence[ReportedProgress] = (),
        store: Store | None = None,
    ) -> BeatReply:
        return (store or self.store).beat(Beat(worker=worker(by), lease=lease, extend=extend, progress=progress))

    def request(self, move: Move, job: str, **options: Any) -> Request:
        return Request(**{"id": self.ids(), "move": move, "job": job, **options})

    def move(self, move: Move, job: str, *, store: Store | None = None, **options: Any) -> Job[Any]:
        return (store or self.store).move(self.request(move, job, **options))

    def job(self, job_id: str) -> Job[Any]:
        return self.store.job(job_id)

    def events(self, job_id: str | None = None) -> list[Event]:
        return self.store.events(job=job_id, limit=100_000)

    def types(self, job_id: str) -> list[str]:
        return [event.type for event in self.events(job_id)]

    def in_state(self, state: State, **options: Any) -> Job[Any]:
        """A new job brought into this state. Waiting means for an hour."""
        match state:
            case State.WAITING:
                return self.enqueue(**{"delay": HOUR, **options})
            case State.QUEUED:
                return self.enqueue(**options)
            case State.RUNNING:
                return self.job(self.leased(**options).fence.id)
            case State.SUCCEEDED:
                return self._settled(Succeed('"done"'), options)
            case State.FAILED:
                return self._settled(failing(), options)
            case State.CANCELLED:
                return self.move(Move.MANUAL_CANCEL, self.enqueue(**options).id)

    def _settled(self, decision: Decision, options: dict[str, Any]) -> Job[Any]:
        lease = self.leased(**options)
        assert self.settle(lease, decision) is Settled.ACCEPTED
        return self.job(lease.fence.id)

    def lease_of(self, job: Job[Any], **fence: Any) -> Lease:
        """A lease that no worker holds: the job's newest attempt, by another worker."""
        values = {"id": job.id, "attempt": job.attempt, "incarnation": "another-worker", "claim": 1, **fence}
        return Lease(
            fence=Fence(**values),
            kind=job.kind,
            owner=job.owner,
            arguments=msgspec.json.encode(job.arguments).decode(),
            claimed_at=self.now,
            until=self.now,
            load=lambda: job,
        )


def worker(incarnation: str = WORKER) -> WorkerRecord:
    return WorkerRecord(incarnation=incarnation, host="host", pid=7, queues=("default",), kinds=(KIND,), concurrency=3)


def verdict(code: str = "GW_5XX", error_class: ErrorClass = ErrorClass.RETRYABLE, **more: Any) -> Verdict:
    return Verdict(**{"code": code, "error_class": error_class, "message": f"It was {code}.", "group": "g1", **more})


def failing(code: str = "GW_4XX", **more: Any) -> Fail:
    return Fail(verdict(code, ErrorClass.FINAL, **more), {"because": "trying again cannot help"})


def retrying(delay: timedelta = MINUTE, code: str = "GW_5XX") -> Retry:
    return Retry(delay, verdict(code), {"failure": 1, "of": 4})


def at_once(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Make these calls from threads that start together; what each returned or raised, in order."""
    start = Barrier(len(calls))

    def call(function: Callable[[], T]) -> T:
        start.wait()
        return function()

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(call, function) for function in calls]
    return [_answer(future.exception(), future) for future in futures]


def _answer(error: BaseException | None, future: Any) -> Any:
    return future.result() if error is None else error
