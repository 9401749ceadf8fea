"""A store in a page of plain Python: what is true after each operation, without a thought for how.

Everything is a dictionary of jobs, one of batches, and lists of events. It repeats no SQL: where model and store
disagree, one of them breaks a rule of the protocol.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mulligan.batch import BatchState, NewBatch
from mulligan.duty import duty_of
from mulligan.failure.policy import Cancel, Decision, Fail, Release, Retry, Snooze, Succeed
from mulligan.failure.verdict import Ledger, Verdict
from mulligan.job import Fence, Job, NewJob
from mulligan.lifecycle import LIVE, REFUSED, TABLE, Move, State
from mulligan.store.protocols import Claim, Outcome, Request, Settled

# What the store does not say of a job, or says in another way.
ITS_OWN = ("asked", "claim", "parked", "touched_at", "settled", "refused")
BATCH = "batch"


@dataclass
class ModelJob:
    """A job as the model knows it; the names are those of `Job`."""

    asked: NewJob
    state: State
    enqueued_at: datetime
    submitted_at: datetime
    due_at: datetime
    deadline: datetime | None
    dedupe_until: datetime | None
    waiting_for: str | None
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    losses: int = 0
    snoozes: int = 0
    manual_retries: int = 0
    code_failures: dict[str, int] = field(default_factory=dict)
    previous_delay: timedelta | None = None
    trigger: str = "automatic"
    started_at: datetime | None = None
    last_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    result: Any = None
    error_code: str | None = None
    error_message: str | None = None
    leased_by: str | None = None
    lease_until: datetime | None = None
    cancel_requested: bool = False
    claim: int | None = None
    parked: str | None = None
    touched_at: datetime | None = None
    settled: dict[int, str] = field(default_factory=dict)
    refused: set[tuple[int, str]] = field(default_factory=set)

    @property
    def rank(self) -> tuple[int, datetime, str]:
        return self.asked.priority, self.submitted_at, self.asked.id

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.asked.owner, self.asked.kind, self.asked.dedupe_key

    @property
    def fence(self) -> Fence:
        return Fence(self.asked.id, self.attempt, self.leased_by or "", self.claim or 0)

    def differences(self, job: Job[Any]) -> dict[str, tuple[Any, Any]]:
        """Where the store's record says something else: name → (model, store)."""
        names = [name for name in self.__dataclass_fields__ if name not in ITS_OWN]
        pairs = {name: (getattr(self, name), getattr(job, name)) for name in names}
        if self.state is not State.WAITING:
            del pairs["due_at"]
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@dataclass
class ModelBatch:
    """A batch as the model knows it. It is never counted: whoever wants to know looks at the members."""

    asked: NewBatch
    expires_at: datetime | None
    state: BatchState = BatchState.DRAFT
    generation: int = 1
    aborted_at: datetime | None = None
    deleted: Counter[State] = field(default_factory=Counter)
    failed: int = 0
    """When it was last looked at."""


class Refusal(Exception):
    """The model's word for an IllegalMove (`twin` is None), a Conflict or a BatchExpired."""

    def __init__(self, twin: str | None = None, *, is_expired: bool = False) -> None:
        self.twin = twin
        self.is_expired = is_expired


class Model:
    def __init__(self) -> None:
        self.jobs: dict[str, ModelJob] = {}
        self.batches: dict[str, ModelBatch] = {}
        self.batch_events: list[tuple[str, str, int]] = []
        self.events: list[tuple[str, str, int]] = []
        self.requests: set[str] = set()
        # Duty and when its pause is over.
        self.paused: dict[str, datetime | None] = {}

    def new_events(self) -> list[tuple[str, str, int]]:
        """What was logged since the last time."""
        events, self.events = self.events, []
        return events

    def new_batch_events(self) -> list[tuple[str, str, int]]:
        events, self.batch_events = self.batch_events, []
        return events

    # Batches

    def members(self, batch: str, *states: State) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.asked.batch == batch and job.state in (states or State)]

    def counts(self, batch: str) -> Counter[State]:
        return Counter(job.state for job in self.members(batch)) + self.batches[batch].deleted

    def draft(self, asked: NewBatch, now: datetime) -> None:
        expires_at = None if asked.expires_in is None else now + asked.expires_in
        self.batches[asked.id] = ModelBatch(asked, expires_at)

    def publish(self, batch: str, now: datetime) -> None:
        found = self.batches[batch]
        if found.state is BatchState.DRAFT:
            found.state, found.failed = BatchState.PROCESSING, 0
            self._tell("batch.published", batch)
            self._judge(now)
        self.promote(now, duty="promote")

    def retry_members(self, batch: str, jobs: Sequence[str], now: datetime) -> list[str]:
        retried = [job for job in self.members(batch, State.FAILED, State.CANCELLED) if job.asked.id in jobs]
        if retried and self._is_expired(batch, now):
            raise Refusal(is_expired=True)
        for job in retried:
            self._log(job, "job.retry_requested")
            self._revive(job, Move.RETRY_BY_HAND, now)
            job.state, job.touched_at = State.WAITING, now
            self._park(job)
        if retried:
            self._tell("batch.retry_requested", batch)
        self._judge(now)
        return [job.asked.id for job in retried]

    def tend(self, now: datetime) -> int:
        did = 0
        for batch, found in self.batches.items():
            if found.state.is_settled and self._is_expired(batch, now):
                found.state = BatchState.EXPIRED
                self._tell("batch.expired", batch)
                did += 1
        for batch, found in self.batches.items():
            if found.state is BatchState.PROCESSING and found.aborted_at is not None:
                did += self._sweep(batch, found.aborted_at, now)
        self._judge(now)
        return did

    def _is_expired(self, batch: str, now: datetime) -> bool:
        found = self.batches[batch]
        is_past = found.expires_at is not None and found.expires_at <= now
        return found.state is BatchState.EXPIRED or (found.state.is_settled and is_past)

    def _park(self, job: ModelJob) -> None:
        batch = job.asked.batch
        if batch is not None and job.state is State.WAITING and self.batches[batch].state is BatchState.DRAFT:
            job.parked = job.waiting_for = BATCH

    def _judge(self, now: datetime) -> None:
        for batch, found in self.batches.items():
            counts = self.counts(batch)
            left = sum(counts[state] for state in LIVE)
            if left and found.state.is_settled:
                found.state, found.generation, found.aborted_at = BatchState.PROCESSING, found.generation + 1, None
                self._tell("batch.reopened", batch)
            if found.state is BatchState.PROCESSING and left and self._is_hopeless(found, counts):
                found.aborted_at = now
                self._tell("batch.aborted", batch)
                self._sweep(batch, now, now)
                left = len(self.members(batch, State.RUNNING))
            found.failed = counts[State.FAILED]
            if found.state is BatchState.PROCESSING and not left:
                found.state = self._outcome(found, self.counts(batch))
                self._tell("batch.settled", batch)

    def _is_hopeless(self, batch: ModelBatch, counts: Counter[State]) -> bool:
        """One more failed, and too many have."""
        limit, failed = batch.asked.abort_above, counts[State.FAILED]
        return (
            limit is not None and batch.aborted_at is None and failed > batch.failed and failed > limit * counts.total()
        )

    def _outcome(self, batch: ModelBatch, counts: Counter[State]) -> BatchState:
        if counts[State.SUCCEEDED] >= batch.asked.success_at * counts.total():
            return BatchState.READY
        return BatchState.PARTIAL if counts[State.SUCCEEDED] else BatchState.FAILED

    def _sweep(self, batch: str, aborted_at: datetime, now: datetime) -> int:
        swept = [
            job
            for job in self.members(batch, State.WAITING, State.QUEUED)
            if job.trigger == "automatic" or job.touched_at is None or job.touched_at <= aborted_at
        ]
        for job in swept:
            job.state, job.waiting_for, job.parked, job.finished_at = State.CANCELLED, None, None, now
            self._log(job, "job.cancelled")
        return len(swept)

    def _tell(self, event: str, batch: str) -> None:
        self.batch_events.append((event, batch, self.batches[batch].generation))

    # Enqueue

    def enqueue(self, asked: NewJob, now: datetime) -> tuple[str, bool]:
        """The id of the job that stands for this one, and whether it is another's."""
        if asked.id in self.jobs:
            return asked.id, False
        if asked.dedupe_key is not None:
            for job in self.jobs.values():
                # A live job holds its key anyway.
                is_over = job.dedupe_until is not None and job.dedupe_until <= now and job.state not in LIVE
                if is_over and job.key == (asked.owner, asked.kind, asked.dedupe_key):
                    job.dedupe_until = None
        job = ModelJob(
            asked=asked,
            state=State.WAITING if asked.delay or asked.batch else State.QUEUED,
            enqueued_at=now,
            submitted_at=asked.submitted_at or now,
            due_at=now + asked.delay,
            deadline=None if asked.deadline is None else now + asked.deadline,
            dedupe_until=None if asked.dedupe_for is None else now + asked.dedupe_for,
            waiting_for="delay" if asked.delay else None,
        )
        self._park(job)
        holder = self._holder(job)
        if holder is not None:
            return holder, True
        self.jobs[asked.id] = job
        self._log(job, "job.enqueued")
        return asked.id, False

    def _holder(self, wanted: ModelJob) -> str | None:
        """Another job that stands in the way of this one being live; a live one first."""
        if wanted.asked.dedupe_key is None:
            return None
        others = [job for job in self.jobs.values() if job.key == wanted.key and job is not wanted]
        live = [job for job in others if job.state in LIVE]
        done = [
            job
            for job in others
            if wanted.asked.dedupe_scope == job.asked.dedupe_scope == "succeeded" and job.state is State.SUCCEEDED
        ]
        period = [job for job in others if wanted.dedupe_until is not None and job.dedupe_until is not None]
        return next((job.asked.id for job in (*live, *done, *period)), None)

    # Claim

    def promote(self, now: datetime, *, duty: str | None = None, by_hand: bool = False) -> int:
        """How many passed the door; those whose duty is paused are parked before it."""
        passed = 0
        for job in self.jobs.values():
            own = duty_of(job.waiting_for).name
            if job.parked == BATCH:
                if duty not in (None, own) or self.batches[job.asked.batch or ""].state is BatchState.DRAFT:
                    continue
                job.parked, job.waiting_for = None, "delay"
            is_due = job.state is State.WAITING and (job.parked is not None or job.due_at <= now)
            if not is_due or duty not in (None, own):
                continue
            if self.is_paused(own, now) and job.trigger == "automatic" and not by_hand:
                job.parked = own
                continue
            job.state, job.waiting_for, job.parked, job.touched_at = State.QUEUED, None, None, now
            passed += 1
            self._log(job, "job.queued")
        return passed

    def is_paused(self, duty: str, now: datetime) -> bool:
        until = self.paused.get(duty, now)
        return until is None or until > now

    def claim(self, claim: Claim, now: datetime) -> list[Fence]:
        self.promote(now)
        mine = (claim.incarnation, claim.number)
        repeated = [job for job in self.jobs.values() if (job.leased_by, job.claim) == mine]
        if repeated:
            return [job.fence for job in sorted(repeated, key=lambda job: job.rank)]
        ready = [job for job in self.jobs.values() if self._is_ready(job, claim, now)]
        taken = sorted(ready, key=lambda job: job.rank)[: claim.limit]
        for job in taken:
            job.state = State.RUNNING
            job.attempt += 1
            job.leased_by, job.claim, job.lease_until = claim.incarnation, claim.number, now + claim.lease
            job.started_at, job.last_attempt_at = job.started_at or now, now
            self._log(job, "job.started")
        return [job.fence for job in taken]

    def _is_ready(self, job: ModelJob, claim: Claim, now: datetime) -> bool:
        return (
            job.state is State.QUEUED
            and job.asked.kind in claim.kinds
            and (claim.queues is None or job.asked.queue in claim.queues)
            and (job.deadline is None or job.deadline > now)
        )

    def next_due(self, now: datetime) -> timedelta | None:
        waiting = [job for job in self.jobs.values() if job.state is State.WAITING and job.parked is None]
        return min((job.due_at - now for job in waiting), default=None)

    # Hold

    def beat(self, fences: Sequence[Fence], lease: timedelta, now: datetime) -> list[Fence]:
        """Those that are lost."""
        lost = []
        for fence in fences:
            job = self.jobs.get(fence.id)
            if job is not None and job.state is State.RUNNING and job.fence == fence:
                job.lease_until = now + lease
            else:
                lost.append(fence)
        return lost

    def cancelled(self, incarnation: str) -> set[Fence]:
        return {job.fence for job in self.jobs.values() if job.cancel_requested and job.leased_by == incarnation}

    def overdue(self, besides: str, now: datetime) -> set[Fence]:
        return {
            job.fence
            for job in self.jobs.values()
            if job.lease_until is not None and job.lease_until < now and job.leased_by != besides
        }

    # Settle

    def settle(self, outcome: Outcome, now: datetime) -> Settled:
        answer = self._settle(outcome, now)
        self._judge(now)
        return answer

    def _settle(self, outcome: Outcome, now: datetime) -> Settled:
        fence = outcome.lease.fence
        job = self.jobs.get(fence.id)
        if job is None:
            return Settled.REFUSED
        if job.state is not State.RUNNING or job.fence != fence or not self._may_take(job, outcome, now):
            return self._not_settled(job, outcome)
        job.settled[fence.attempt] = outcome.settled_by
        wish, job.cancel_requested = job.cancel_requested, False
        job.leased_by = job.claim = job.lease_until = None
        move = self._apply(job, outcome.decision, now)
        if wish and not TABLE[move, State.RUNNING].target.is_final:
            job.waiting_for, move = None, Move.CANCEL
        step = TABLE[move, State.RUNNING]
        job.state = step.target
        job.finished_at = now if step.target.is_final else None
        self._log(job, step.event)
        return Settled.ACCEPTED

    def _may_take(self, job: ModelJob, outcome: Outcome, now: datetime) -> bool:
        assert job.lease_until is not None and job.last_attempt_at is not None
        if outcome.stuck_after is not None:
            return job.last_attempt_at + max(job.asked.timeout or timedelta(0), outcome.stuck_after) < now
        return outcome.reclaimed_by is None or job.lease_until < now

    def _not_settled(self, job: ModelJob, outcome: Outcome) -> Settled:
        attempt = outcome.lease.fence.attempt
        if job.settled.get(attempt) == outcome.settled_by:
            return Settled.REPEATED
        if outcome.reclaimed_by is None and (attempt, outcome.settled_by) not in job.refused:
            job.refused.add((attempt, outcome.settled_by))
            self.events.append((REFUSED, job.asked.id, attempt))
        return Settled.REFUSED

    def _apply(self, job: ModelJob, decision: Decision, now: datetime) -> Move:
        if not isinstance(decision, Succeed | Fail | Cancel):
            job.trigger = "automatic"
        if isinstance(decision, Succeed | Retry | Snooze):
            job.crashes = job.losses = 0
        if isinstance(decision, Retry | Snooze):
            job.due_at, job.previous_delay = now + decision.delay, decision.delay
        match decision:
            case Succeed(result=result):
                job.result = None if result is None else msgspec.json.decode(result)
                return Move.SUCCEED
            case Retry(verdict=verdict):
                job.waiting_for = "retry"
                self._charge(job, Ledger.FAILURES, verdict)
                return Move.RETRY
            case Fail(verdict=verdict):
                job.error_code, job.error_message = verdict.code, verdict.message
                self._charge(job, verdict.ledger, verdict)
                return Move.FAIL
            case Snooze(verdict=verdict):
                job.waiting_for = "snooze" if verdict.code == "SNOOZED" else "rate limit"
                job.snoozes += 1
                return Move.SNOOZE
            case Release(ledger=ledger):
                self._charge(job, ledger, None)
                return Move.RELEASE
            case Cancel():
                return Move.CANCEL

    def _charge(self, job: ModelJob, ledger: Ledger | None, verdict: Verdict | None) -> None:
        if ledger is not None:
            setattr(job, ledger, getattr(job, ledger) + 1)
        if verdict is not None:
            job.code_failures[verdict.code] = job.code_failures.get(verdict.code, 0) + 1

    def expire(self, verdict: Verdict, limit: int, now: datetime) -> int:
        late = [
            job
            for job in self.jobs.values()
            if job.state in (State.WAITING, State.QUEUED) and job.deadline is not None and job.deadline <= now
        ]
        for job in late[:limit]:
            job.state, job.waiting_for, job.parked, job.finished_at = State.FAILED, None, None, now
            job.error_code, job.error_message = verdict.code, verdict.message
            self._log(job, "job.failed")
        self._judge(now)
        return len(late[:limit])

    def prune(self, state: State, before: datetime) -> int:
        gone = [job for job in self.jobs.values() if job.state is state and self._is_over(job, before)]
        for job in gone:
            del self.jobs[job.asked.id]
            if job.asked.batch is not None:
                self.batches[job.asked.batch].deleted[job.state] += 1
        return len(gone)

    def _is_over(self, job: ModelJob, before: datetime) -> bool:
        if job.state is State.SUCCEEDED and job.asked.dedupe_scope == "succeeded" and job.asked.dedupe_key is not None:
            return False
        if job.asked.batch is not None:
            batch = self.batches[job.asked.batch].state
            if batch in (BatchState.DRAFT, BatchState.PROCESSING):
                return False
        ends = [end for end in (job.finished_at, job.dedupe_until) if end is not None]
        return max(ends) < before

    def candidates(self, state: State, before: datetime) -> set[str]:
        """What a redrive that began then may move."""
        return {
            job_id
            for job_id, job in self.jobs.items()
            if job.state is state and job.finished_at is not None and job.finished_at <= before
        }

    # By hand

    def move(self, request: Request, now: datetime) -> None:
        if request.job not in self.jobs:
            raise Refusal
        job = self.jobs[request.job]
        if request.id in self.requests:
            return
        before = replace(
            job, code_failures=dict(job.code_failures), settled=dict(job.settled), refused=set(job.refused)
        )
        written = len(self.events)
        was_over = job.state.is_final
        try:
            self._move(job, request, now)
            if was_over and job.asked.batch is not None and self._is_expired(job.asked.batch, now):
                raise Refusal(is_expired=True)
        except Refusal:
            # All or nothing: what was to be settled first is as it was.
            self.jobs[request.job] = before
            del self.events[written:]
            self.requests.discard(request.id)
            raise
        self._judge(now)

    def _move(self, job: ModelJob, request: Request, now: datetime) -> None:
        if request.first is not None:
            self._settle(request.first, now)
        step = TABLE.get((request.move, job.state))
        if step is None:
            raise Refusal
        job.parked = None
        if request.move in (Move.RETRY_BY_HAND, Move.RUN_NOW):
            self._revive(job, request.move, now)
        elif request.move is Move.CANCEL_BY_HAND:
            job.waiting_for = None
            job.cancel_requested = step.target is State.RUNNING
            job.finished_at = now if step.target.is_final else None
        else:
            job.waiting_for, job.due_at = "snooze", now + request.delay
        job.state, job.touched_at = step.target, now
        self.requests.add(request.id)
        self._log(job, step.event)
        self._park(job)
        self.promote(now)

    def _revive(self, job: ModelJob, move: Move, now: datetime) -> None:
        # A period belongs to whoever was enqueued in it; coming back to life does not ask for one.
        holder = self._holder(replace(job, dedupe_until=None)) if job.state.is_final else None
        if holder is not None:
            raise Refusal(holder)
        if move is Move.RETRY_BY_HAND:
            job.failures = job.crashes = job.losses = job.snoozes = 0
            job.code_failures, job.previous_delay = {}, None
            job.manual_retries += 1
        job.trigger, job.due_at, job.finished_at = "manual", now, None
        job.waiting_for = job.waiting_for or "retry"
        job.error_code = job.error_message = None
        job.deadline = None if job.deadline is not None and job.deadline <= now else job.deadline

    def _log(self, job: ModelJob, event: str) -> None:
        self.events.append((event, job.asked.id, job.attempt))
