"""A store in a page of plain Python: what is true after each operation, without a thought for how.

Everything is a dictionary of jobs, one of batches, and lists of events; turns, limits and budgets are in files of their
own. It repeats no SQL: where model and store disagree, one of them breaks a rule of the protocol.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
from msgspec import structs

from conformance.model_batches import BATCH, Batches
from conformance.model_budgets import BUDGET, Budgets
from conformance.model_fair import Turns
from conformance.model_jobs import ModelJob, Refusal
from conformance.model_limits import LIMIT, Limits
from mulligan.failure.decision import Cancel, Decision, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.failure.verdict import Ledger, Verdict, budget_exhausted
from mulligan.lifecycle import KEY_RELEASED, LIVE, REFUSED, TABLE, Move, State
from mulligan.records.duty import duty_of
from mulligan.records.job import ANOTHER_VERSION, Fence, JobFilter, NewJob
from mulligan.records.redrive import MOVED_ON
from mulligan.store.messages import Claim, Outcome, Request, Settled


class Model:
    def __init__(self) -> None:
        self.jobs: dict[str, ModelJob] = {}
        self.events: list[tuple[str, str, int]] = []
        self.batches = Batches(self.jobs, self._log)
        self.turns = Turns()
        self.limits = Limits()
        self.budgets = Budgets()
        self.requests: set[str] = set()
        # What and its name, and when its pause is over.
        self.paused: dict[tuple[str, str], datetime | None] = {}

    def new_events(self) -> list[tuple[str, str, int]]:
        """What was logged since the last time."""
        events, self.events = self.events, []
        return events

    # Batches

    def retry_members(self, batch: str, jobs: Sequence[str], now: datetime) -> list[str]:
        over = self.batches.members(batch, State.FAILED, State.CANCELLED)
        retried = [job for job in over if job.asked.id in jobs]
        if retried and self.batches.known[batch].is_expired(now):
            raise Refusal(is_expired=True)
        for job in retried:
            self._log(job, "job.retry_requested")
            self._revive(job, Move.MANUAL_RETRY, now)
            job.state, job.touched_at = State.WAITING, now
            self.batches.park(job)
        if retried:
            self.batches.tell("batch.retry_requested", batch)
        self.batches.judge(now)
        return [job.asked.id for job in retried]

    # Enqueue

    def enqueue(self, asked: NewJob, now: datetime) -> tuple[str, bool]:
        """The id of the job that stands for this one, and whether it is another's."""
        rank = self.turns.next_rank(asked, now)
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
            rank=rank,
            enqueued_at=now,
            submitted_at=asked.submitted_at or now,
            due_at=now + asked.delay,
            deadline=None if asked.deadline is None else now + asked.deadline,
            dedupe_until=None if asked.dedupe_for is None else now + asked.dedupe_for,
            waiting_for="delay" if asked.delay else None,
        )
        if job.state is State.QUEUED and self.limits.will_concern(job):
            job.state, job.waiting_for = State.WAITING, LIMIT
        self.batches.park(job)
        holder = self._holder(job)
        if holder is not None:
            return holder, True
        self.jobs[asked.id] = job
        self.turns.take(job)
        self._log(job, "job.enqueued")
        return asked.id, False

    def reject(self, asked: NewJob, verdict: Verdict, now: datetime) -> None:
        self.enqueue(asked, now)
        self._fail(self.jobs[asked.id], verdict, now)
        self.batches.judge(now)

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
        passed = self._promote(now, duty=duty, by_hand=by_hand)
        self.batches.judge(now)
        return passed

    def _promote(self, now: datetime, *, duty: str | None = None, by_hand: bool = False) -> int:
        """How many were promoted, up to their other gates; then those with a budget and a slot are admitted."""
        self.limits.tell()
        arrived = [job for job in self.jobs.values() if self._arrives(job, now, duty, by_hand=by_hand)]
        passed = sum(self._promote_due(job, now, by_hand=by_hand) for job in arrived)
        is_anybody_held = any(job.parked in (BUDGET, LIMIT) for job in self.jobs.values())
        if duty is not None or is_anybody_held or self.limits.unswept:
            self._admit(now)
        return passed

    def _arrives(self, job: ModelJob, now: datetime, duty: str | None, *, by_hand: bool) -> bool:
        """Whether it is to be promoted: it is due, or the gate that blocked it is gone."""
        own = duty_of(job.waiting_for).name
        if job.state is not State.WAITING or duty not in (None, own) or job.parked in (BUDGET, LIMIT):
            return False
        if job.parked == BATCH:
            return job.asked.batch not in self.batches.drafts()
        if job.parked is not None:
            return by_hand or not self.is_paused("duty", own, now)
        return job.due_at <= now

    def _promote_due(self, job: ModelJob, now: datetime, *, by_hand: bool) -> bool:
        own, needs_budget = duty_of(job.waiting_for).name, self.budgets.needed(job, self.limits.book)
        if job.parked == BATCH:
            job.parked, job.waiting_for = None, "delay"
            if job.due_at > now:
                return False
        is_held = self.is_paused("duty", own, now) and job.trigger == "automatic" and job.waiting_for != LIMIT
        if is_held and not by_hand:
            job.parked = own
        elif needs_budget and not is_held:
            job.parked = BUDGET
        elif self.limits.concern(job):
            job.park(LIMIT, waiting_for=LIMIT, now=now)
            return is_held
        else:
            self._admit_job(job, now)
            return True
        return False

    def _admit_job(self, job: ModelJob, now: datetime) -> None:
        job.admit(now, has_slot=self.limits.concern(job))
        self._log(job, "job.queued")

    def _admit(self, now: datetime) -> None:
        """By priority and rank: first who is in budget, then who has a place everywhere."""
        for job in self._parked(BUDGET):
            self._spend(job, now)
        for job in self.limits.sweep(self.jobs.values()):
            self._give_back(job, now)
        for job in self.jobs.values():
            if job.state is State.QUEUED and job.has_slot and self._is_braked(job, now):
                self._give_back(job, now)
        for job in self._parked(LIMIT):
            if not self._is_braked(job, now) and self.limits.have_room(job, self.jobs.values()):
                self._admit_job(job, now)

    def _parked(self, under: str) -> list[ModelJob]:
        return sorted((job for job in self.jobs.values() if job.parked == under), key=lambda job: job.turn)

    def _spend(self, job: ModelJob, now: datetime) -> None:
        until = self.budgets.obstacle(job, self.limits.book, now)
        if until is None:
            self.budgets.charge(job, now)
            job.due_at = min(job.due_at, now)
            if self.limits.concern(job):
                job.park(LIMIT, waiting_for=LIMIT, now=now)
            else:
                self._admit_job(job, now)
        elif self.budgets.fails_beyond(job, self.limits.book):
            self._fail(job, budget_exhausted(), now)
        else:
            job.waiting_for, job.due_at = BUDGET, until

    def _give_back(self, job: ModelJob, now: datetime) -> None:
        job.park(LIMIT, waiting_for=LIMIT, now=now)
        self._log(job, "job.parked")

    def is_paused(self, what: str, name: str, now: datetime) -> bool:
        until = self.paused.get((what, name), now)
        return until is None or until > now

    def _is_braked(self, job: ModelJob, now: datetime) -> bool:
        return self.is_paused("queue", job.asked.queue, now) or self.is_paused("kind", job.asked.kind, now)

    def claim(self, claim: Claim, now: datetime) -> list[Fence]:
        self.promote(now)
        mine = (claim.incarnation, claim.number)
        repeated = [job for job in self.jobs.values() if (job.leased_by, job.claim) == mine]
        if repeated:
            return [job.fence for job in sorted(repeated, key=lambda job: job.turn)]
        ready = [job for job in self.jobs.values() if self._is_ready(job, claim, now)]
        taken = sorted(ready, key=lambda job: job.turn)[: claim.limit]
        for job in taken:
            job.state = State.RUNNING
            job.attempt += 1
            job.leased_by, job.claim, job.lease_until = claim.incarnation, claim.number, now + claim.lease
            job.started_at, job.last_attempt_at = job.started_at or now, now
            self._log(job, "job.started")
            if job.asked.queue in claim.fair:
                self.turns.claim(job)
        return [job.fence for job in taken]

    def _is_ready(self, job: ModelJob, claim: Claim, now: datetime) -> bool:
        return (
            job.state is State.QUEUED
            and job.asked.kind in claim.kinds
            and (claim.queues is None or job.asked.queue in claim.queues)
            and (job.deadline is None or job.deadline > now)
            and not self._is_braked(job, now)
        )

    def next_due(self, now: datetime) -> timedelta | None:
        waiting = [job for job in self.jobs.values() if job.state is State.WAITING and job.parked is None]
        return min((job.due_at - now for job in waiting), default=None)

    # Hold

    def beat(self, fences: Sequence[Fence], lease: timedelta, now: datetime) -> list[Fence]:
        """Those that are lost."""
        self.turns.forget(now)
        self.limits.tell()
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

    def settle(self, *outcomes: Outcome, now: datetime) -> list[Settled]:
        answers = [self._settle(outcome, now) for outcome in outcomes]
        self.batches.judge(now)
        return answers

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
        if job.state is State.WAITING and self._may_go_on(job, outcome, now):
            self._admit_job(job, now)
        return Settled.ACCEPTED

    def _may_go_on(self, job: ModelJob, outcome: Outcome, now: datetime) -> bool:
        """Whether a retry is promoted by the settle: it is due at once, and nothing in the store could block it."""
        decision = outcome.decision
        is_due = isinstance(decision, Retry) and not decision.delay and outcome.reclaimed_by is None
        return is_due and not (job.has_slot or self.limits.are_any or self.is_paused("duty", "retry", now))

    def _may_take(self, job: ModelJob, outcome: Outcome, now: datetime) -> bool:
        assert job.lease_until is not None and job.last_attempt_at is not None
        if outcome.stuck_after is not None:
            return job.last_attempt_at + max(job.asked.timeout or timedelta(0), outcome.stuck_after) < now
        return outcome.reclaimed_by is None or job.lease_until == outcome.lease.until < now

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
        is_misfit = isinstance(decision, Postpone) and decision.verdict.ledger is Ledger.MISFITS
        if isinstance(decision, Succeed | Retry | Postpone) and not is_misfit:
            job.crashes = job.losses = 0
        if isinstance(decision, Retry | Postpone):
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
            case Postpone(verdict=verdict) if is_misfit:
                job.waiting_for = ANOTHER_VERSION
                self._charge(job, verdict.ledger, verdict)
                return Move.SNOOZE
            case Postpone(verdict=verdict):
                job.waiting_for = "snooze" if verdict.code == "SNOOZED" else "rate limit"
                job.snoozes += 1
                return Move.SNOOZE
            case Park():
                raise AssertionError("a settle parks on its own, where a service is concerned")
            case Release(ledger=ledger):
                self._charge(job, ledger, None)
                return Move.RELEASE
            case Cancel():
                return Move.CANCEL

    def _charge(self, job: ModelJob, ledger: Ledger | None, verdict: Verdict | None) -> None:
        if ledger not in (None, Ledger.MISFITS):
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
            self._fail(job, verdict, now)
        self.batches.judge(now)
        return len(late[:limit])

    def _fail(self, job: ModelJob, verdict: Verdict, now: datetime) -> None:
        """Outside an attempt: no worker ran it."""
        job.end(State.FAILED, now)
        job.error_code, job.error_message = verdict.code, verdict.message
        self._log(job, "job.failed")

    def prune(self, state: State, before: datetime) -> int:
        gone = [job for job in self.jobs.values() if job.state is state and self._is_over(job, before)]
        for job in gone:
            del self.jobs[job.asked.id]
            if job.asked.batch is not None:
                self.batches.known[job.asked.batch].deleted[job.state] += 1
        return len(gone)

    def _is_over(self, job: ModelJob, before: datetime) -> bool:
        if job.state is State.SUCCEEDED and job.asked.dedupe_scope == "succeeded" and job.asked.dedupe_key is not None:
            return False
        if self.batches.keeps(job):
            return False
        ends = [end for end in (job.finished_at, job.dedupe_until) if end is not None]
        return max(ends) < before

    def candidates(self, wanted: JobFilter, before: datetime) -> set[str]:
        """The jobs that a redrive or a bulk operation that began then may move: by ids and states alone."""
        return {
            job_id
            for job_id, job in self.jobs.items()
            if (wanted.ids is None or job_id in wanted.ids) and self._may_move(job, wanted, before)
        }

    def _may_move(self, job: ModelJob, wanted: JobFilter, before: datetime) -> bool:
        """Whether it was there then, and has not ended since."""
        return job.state in wanted.states and (job.finished_at or job.enqueued_at) <= before

    # Manually

    def move(self, *requests: Request, now: datetime) -> None:
        """In one transaction."""
        changed = [self._change(request, now) for request in requests]
        if any(changed):
            self._promote(now)
        self.batches.judge(now)

    def release_key(self, job_id: str) -> None:
        job = self.jobs[job_id]
        if not job.state.is_final:
            raise Refusal
        if job.asked.dedupe_key is not None:
            job.asked, job.dedupe_until = structs.replace(job.asked, dedupe_key=None), None
            self._log(job, KEY_RELEASED)

    def redrive(
        self, requests: Iterable[Request], wanted: JobFilter, before: datetime, now: datetime
    ) -> list[str | None]:
        """Why each was not moved; None, it was."""
        skipped = [self._skipped(request, wanted, before, now) for request in requests]
        if None in skipped:
            self._promote(now)
        self.batches.judge(now)
        return skipped

    def _skipped(self, request: Request, wanted: JobFilter, before: datetime, now: datetime) -> str | None:
        job = self.jobs.get(request.job)
        if job is None or not self._may_move(job, wanted, before):
            return MOVED_ON
        try:
            self._change(request, now)
        except Refusal as refusal:
            return "its batch has expired" if refusal.is_expired else "conflict"
        return None

    def _change(self, request: Request, now: datetime) -> bool:
        """Whether it was not made before."""
        if request.job not in self.jobs:
            raise Refusal
        if request.id in self.requests:
            return False
        job = self.jobs[request.job]
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
        self.requests.add(request.id)
        return True

    def _move(self, job: ModelJob, request: Request, now: datetime) -> None:
        was_over = job.state.is_final
        if request.first is not None:
            self._settle(request.first, now)
        step = TABLE.get((request.move, job.state))
        if step is None:
            raise Refusal
        job.parked = None
        if request.move in (Move.MANUAL_RETRY, Move.RUN_NOW):
            self._revive(job, request.move, now)
        elif request.move is Move.MANUAL_CANCEL:
            job.waiting_for = None
            job.cancel_requested = step.target is State.RUNNING
            job.finished_at = now if step.target.is_final else None
        else:
            job.waiting_for, job.due_at = "snooze", now + request.delay
        job.state, job.touched_at = step.target, now
        if was_over and self.batches.is_expired(job, now):
            raise Refusal(is_expired=True)
        self._log(job, step.event)
        self.batches.park(job)

    def _revive(self, job: ModelJob, move: Move, now: datetime) -> None:
        # A period belongs to the job that was enqueued in it; a revived job does not ask for one.
        holder = self._holder(replace(job, dedupe_until=None)) if job.state.is_final else None
        if holder is not None:
            raise Refusal(holder)
        if move is Move.MANUAL_RETRY:
            job.failures = job.crashes = job.losses = job.snoozes = 0
            job.code_failures, job.previous_delay = {}, None
            job.manual_retries += 1
        job.trigger, job.due_at, job.finished_at = "manual", now, None
        job.waiting_for = job.waiting_for or "retry"
        job.error_code = job.error_message = None
        job.deadline = None if job.deadline is not None and job.deadline <= now else job.deadline

    def _log(self, job: ModelJob, event: str) -> None:
        self.events.append((event, job.asked.id, job.attempt))
