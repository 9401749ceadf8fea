"""Batches as the model knows them. It keeps no counts: it looks at the members."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from conformance.model_jobs import ModelJob
from mulligan.lifecycle import LIVE, State
from mulligan.records.batch import BatchState, NewBatch

BATCH = "batch"


@dataclass
class ModelBatch:
    asked: NewBatch
    expires_at: datetime | None
    state: BatchState = BatchState.DRAFT
    generation: int = 1
    aborted_at: datetime | None = None
    deleted: Counter[State] = field(default_factory=Counter)
    failed: int = 0
    """When it was last looked at."""

    def is_expired(self, now: datetime) -> bool:
        is_past = self.expires_at is not None and self.expires_at <= now
        return self.state is BatchState.EXPIRED or (self.state.is_settled and is_past)

    def is_hopeless(self, counts: Counter[State]) -> bool:
        """One more failed, and too many have."""
        limit, failed = self.asked.abort_above, counts[State.FAILED]
        return (
            limit is not None and self.aborted_at is None and failed > self.failed and failed > limit * counts.total()
        )

    def outcome(self, counts: Counter[State]) -> BatchState:
        if counts[State.SUCCEEDED] >= self.asked.success_at * counts.total():
            return BatchState.READY
        return BatchState.PARTIAL if counts[State.SUCCEEDED] else BatchState.FAILED


class Batches:
    """`jobs` are the model's, `log` notes what happens to one of them."""

    def __init__(self, jobs: dict[str, ModelJob], log: Callable[[ModelJob, str], None]) -> None:
        self.known: dict[str, ModelBatch] = {}
        self._jobs = jobs
        self._log = log
        self._events: list[tuple[str, str, int]] = []

    def new_events(self) -> list[tuple[str, str, int]]:
        events, self._events = self._events, []
        return events

    def tell(self, event: str, batch: str) -> None:
        self._events.append((event, batch, self.known[batch].generation))

    def members(self, batch: str, *states: State) -> list[ModelJob]:
        return [job for job in self._jobs.values() if job.asked.batch == batch and job.state in (states or State)]

    def counts(self, batch: str) -> Counter[State]:
        return Counter(job.state for job in self.members(batch)) + self.known[batch].deleted

    def draft(self, asked: NewBatch, now: datetime) -> None:
        expires_at = None if asked.expires_in is None else now + asked.expires_in
        self.known[asked.id] = ModelBatch(asked, expires_at)

    def drafts(self) -> list[str]:
        return [name for name, batch in self.known.items() if batch.state is BatchState.DRAFT]

    def publish(self, batch: str, now: datetime) -> None:
        found = self.known[batch]
        if found.state is BatchState.DRAFT:
            found.state, found.failed = BatchState.PROCESSING, 0
            self.tell("batch.published", batch)
            self.judge(now)

    def tend(self, now: datetime) -> int:
        did = 0
        for batch, found in self.known.items():
            if found.state.is_settled and found.is_expired(now):
                found.state = BatchState.EXPIRED
                self.tell("batch.expired", batch)
                did += 1
        for batch, found in self.known.items():
            if found.state is BatchState.PROCESSING and found.aborted_at is not None:
                did += self._sweep(batch, found.aborted_at, now)
        self.judge(now)
        return did

    def park(self, job: ModelJob) -> None:
        """A member waits beside the others until its batch is published."""
        if job.state is State.WAITING and job.asked.batch in self.drafts():
            job.parked = job.waiting_for = BATCH

    def keeps(self, job: ModelJob) -> bool:
        """Members are deleted only once their batch is over."""
        return job.asked.batch is not None and self.known[job.asked.batch].state in (
            BatchState.DRAFT,
            BatchState.PROCESSING,
        )

    def is_expired(self, job: ModelJob, now: datetime) -> bool:
        return job.asked.batch is not None and self.known[job.asked.batch].is_expired(now)

    def judge(self, now: datetime) -> None:
        """What the counts mean, after whatever happened to members."""
        for batch, found in self.known.items():
            counts = self.counts(batch)
            left = sum(counts[state] for state in LIVE)
            if left and found.state.is_settled:
                found.state, found.generation, found.aborted_at = BatchState.PROCESSING, found.generation + 1, None
                self.tell("batch.reopened", batch)
            if found.state is BatchState.PROCESSING and left and found.is_hopeless(counts):
                found.aborted_at = now
                self.tell("batch.aborted", batch)
                self._sweep(batch, now, now)
                left = len(self.members(batch, State.RUNNING))
            found.failed = counts[State.FAILED]
            if found.state is BatchState.PROCESSING and not left:
                found.state = found.outcome(self.counts(batch))
                self.tell("batch.settled", batch)

    def _sweep(self, batch: str, aborted_at: datetime, now: datetime) -> int:
        swept = [
            job
            for job in self.members(batch, State.WAITING, State.QUEUED)
            if job.trigger == "automatic" or job.touched_at is None or job.touched_at <= aborted_at
        ]
        for job in swept:
            job.end(State.CANCELLED, now)
            self._log(job, "job.cancelled")
        return len(swept)
