"""A store in a page of plain Python: what is true after each operation, without a thought for how.

Everything is a dictionary of jobs and a list of events. It repeats no SQL: where model and store
disagree, one of them breaks a rule of the protocol.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mulligan.duty import duty_of
from mulligan.failure.policy import Cancel, Decision, Fail, Release, Retry, Snooze, Succeed
from mulligan.failure.verdict import Ledger, Verdict
from mulligan.job import Fence, Job, NewJob
from mulligan.lifecycle import LIVE, REFUSED, TABLE, Move, State
from mulligan.store.protocols import Claim, Outcome, Request, Settled


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
        names = [
            name for name in self.__dataclass_fields__ if name not in ("asked", "claim", "parked", "settled", "refused")
        ]
        pairs = {name: (getattr(self, name), getattr(job, name)) for name in names}
        if self.state is not State.WAITING:
            del pairs["due_at"]
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


class Refusal(Exception):
    """The model's word for an IllegalMove (`twin` is None) or a Conflict."""

    def __init__(self, twin: str | None = None) -> None:
        self.twin = twin


class Model:
    def __init__(self) -> None:
        self.jobs: dict[str, ModelJob] = {}
        self.events: list[tuple[str, str, int]] = []
        self.requests: set[str] = set()
        # Duty and when its pause is over.
        self.paused: dict[str, datetime | None] = {}

    def new_events(self) -> list[tuple[str, str, int]]:
        """What was logged since the last time."""
        events, self.events = self.events, []
        return events

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
            state=State.WAITING if asked.delay else State.QUEUED,
            enqueued_at=now,
            submitted_at=asked.submitted_at or now,
            due_at=now + asked.delay,
            deadline=None if asked.deadline is None else now + asked.deadline,
            dedupe_until=None if asked.dedupe_for is None else now + asked.dedupe_for,
            waiting_for="delay" if asked.delay else None,
        )
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
            is_due = job.state is State.WAITING and (job.parked is not None or job.due_at <= now)
            if not is_due or duty not in (None, own):
                continue
            if self.is_paused(own, now) and job.trigger == "automatic" and not by_hand:
                job.parked = own
                continue
            job.state, job.waiting_for, job.parked = State.QUEUED, None, None
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
        return len(late[:limit])

    def prune(self, state: State, before: datetime) -> int:
        gone = [job for job in self.jobs.values() if job.state is state and self._is_over(job, before)]
        for job in gone:
            del self.jobs[job.asked.id]
        return len(gone)

    def _is_over(self, job: ModelJob, before: datetime) -> bool:
        if job.state is State.SUCCEEDED and job.asked.dedupe_scope == "succeeded" and job.asked.dedupe_key is not None:
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
        try:
            self._move(job, request, now)
        except Refusal:
            # All or nothing: what was to be settled first is as it was.
            self.jobs[request.job] = before
            del self.events[written:]
            raise

    def _move(self, job: ModelJob, request: Request, now: datetime) -> None:
        if request.first is not None:
            self.settle(request.first, now)
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
        job.state = step.target
        self.requests.add(request.id)
        self._log(job, step.event)
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
