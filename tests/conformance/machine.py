"""The model against the store: the same steps to both, in any order, and after each they agree."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from conformance.bench import HOUR, MINUTE, SECOND, retrying, verdict, worker
from conformance.examples import OneRuleMachine
from conformance.invariants import check
from conformance.machine_draws import (
    BATCHES,
    BOOKS,
    BY_HAND,
    CLAIMS,
    CROWDS,
    DECISIONS,
    DELAYS,
    DUTIES,
    FAIR,
    KEYS,
    NEW,
    NONE,
    PAUSED,
    TIMES,
    WEIGHTS,
)
from conformance.model import Model
from conformance.model_jobs import Refusal
from conformance.model_limits import subjects_of, taken
from mulligan.console.redrives import Redrives
from mulligan.errors import BatchExpired, Conflict, IllegalMove, JobNotFound, KeyInUse
from mulligan.failure.verdict import deadline_passed
from mulligan.lifecycle import BATCH_EVENTS, FINAL, JOB_EVENTS, Move, State
from mulligan.records.batch import BatchRetry, BatchState, NewBatch
from mulligan.records.job import Fence, JobFilter, Lease, NewJob
from mulligan.records.limit import LimitBook
from mulligan.records.pause import PauseRequest
from mulligan.records.redrive import BULK_VERBS, MOVES, RETRY, SNOOZE, Redrive, record_retries, retry_request_id
from mulligan.store.messages import Beat, Claim, JobRequest, Outcome, Request
from mulligan.store.store import Store
from mulligan.testing.virtual import VirtualClock
from mulligan.values.clock import Ids

MOST_JOBS = 8
MOST_IN_A_CROWD = 14
MOST_REDRIVES = 3
MOST_BATCHES = 3

T = TypeVar("T")
OpenStore = Callable[[Callable[[], datetime], Path], Store]
Steps = dict[Callable[[], None], int]


class StoreMachine(OneRuleMachine):
    """One rule chooses among all steps: Hypothesis would leave out whole rules, and a life without claims is dull."""

    def open(self, now: Callable[[], datetime], folder: Path) -> Store:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="mulligan-model-")
        self.clock = VirtualClock()
        self.ids = Ids(self.clock, Random(1))
        self.numbers = count(1)
        self.model = Model()
        self.store = self.open(self.clock.now, Path(self._folder.name))
        self.leases: list[Lease] = []
        self.claims: list[Claim] = []
        self.requests: list[Request] = []
        self.redrives: list[Redrive] = []
        self.allowed: dict[str, int] = {}
        self.is_crowded: bool | None = None
        self._read = 0

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.draw: Callable[[st.SearchStrategy[Any]], Any] = data.draw
        if self.is_crowded is None:
            self.is_crowded = data.draw(st.booleans(), label="crowded")
        steps = self._steps_in_a_crowd() if self.is_crowded else self._steps()
        data.draw(st.sampled_from([step for step, weight in steps.items() for _ in range(weight)]), label="step")()

    def _steps_in_a_crowd(self) -> Steps:
        """Where limits, budgets and turns matter: many jobs that have nothing else about them."""
        steps: Steps = {
            self.crowd: 3 if len(self.model.jobs) < MOST_IN_A_CROWD else 0,
            self.claim: 4,
            self.advance: 2,
            self.limit: 1,
        }
        if self.leases:
            steps |= {self.beat: 1}
        if self.held:
            steps |= {self.settle: 2, self.settle_some: 1, self.retry_all: 2}
        if self.model.jobs:
            steps |= {self.move: 1}
        return steps

    def _steps(self) -> Steps:
        steps: Steps = {
            self.enqueue: 3 if len(self.model.jobs) < MOST_JOBS else 0,
            self.reject: 1 if len(self.model.jobs) < MOST_JOBS else 0,
            self.claim: 4,
            self.advance: 4,
            self.expire: 1,
            self.prune: 1,
            self.pause: 1,
            self.resume: 2 if self.model.paused else 0,
            self.promote: 1,
            self.limit: 1,
            self.begin_redrive: 1 if len(self.redrives) < MOST_REDRIVES else 0,
            self.carry_on: 2 if self.redrives else 0,
            self.draft: 1 if len(self.model.batches.known) < MOST_BATCHES else 0,
        }
        if self.model.jobs:
            steps |= {self.move: 3, self.enqueue_again: 1, self.release_key: 2}
        if self.model.batches.known:
            steps |= {self.publish: 2, self.tend: 1, self.retry_members: 1}
        if self.leases:
            steps |= {self.settle_again: 1, self.reclaim: 1, self.take: 1, self.beat: 1, self.adopt: 1}
        if self.held:
            steps |= {self.settle: 4, self.settle_some: 2, self.retry_all: 1}
        if self.claims:
            steps |= {self.claim_again: 1}
        if self.requests:
            steps |= {self.move_again: 1}
        return steps

    def one_of(self, values: list[T]) -> T:
        """The newest come first: they are the ones that still count."""
        chosen: T = self.draw(st.sampled_from(values[::-1]) | st.sampled_from(values[:-4:-1]))
        return chosen

    # Enqueue

    def enqueue(self) -> None:
        age = self.draw(st.sampled_from([None, MINUTE, -MINUTE]))
        submitted = None if age is None else self.now - age
        drafts = self.model.batches.drafts()
        options = {**self.draw(NEW), **self.draw(st.sampled_from(KEYS))}
        options |= {"batch": self.draw(st.sampled_from([None, *drafts, *drafts]))}
        options |= {"weight": self.draw(WEIGHTS) if options["queue"] in FAIR else None}
        self.store_new(NewJob(id=self.ids(), arguments="{}", submitted_at=submitted, **options))

    def crowd(self) -> None:
        options, number = self.draw(CROWDS), self.draw(st.sampled_from([1, 2, 3]))
        options |= {"weight": self.draw(WEIGHTS) if options["queue"] in FAIR else None}
        self.store_new(*(NewJob(id=self.ids(), arguments="{}", **options) for _ in range(number)))

    def enqueue_again(self) -> None:
        self.store_new(NewJob(id=self.one_of(list(self.model.jobs)), kind="a", arguments="{}"))

    def store_new(self, *asked: NewJob) -> None:
        stored = [(job.id, job.is_duplicate) for job in self.store.enqueue(asked)]
        assert stored == [self.model.enqueue(job, self.now) for job in asked]

    def reject(self) -> None:
        batch = self.draw(st.sampled_from([None, *self.model.batches.drafts()]))
        asked = NewJob(id=self.ids(), arguments="{}", batch=batch, **self.draw(NEW))
        stored = self.store.reject(asked, verdict("NOT_PDF"))
        self.model.reject(asked, verdict("NOT_PDF"), self.now)
        assert (stored.id, stored.state) == (asked.id, State.FAILED)

    # Batches

    def draft(self) -> None:
        asked = NewBatch(id=self.ids(), name="a batch", **self.draw(BATCHES))
        assert self.store.create_batch(asked).state is BatchState.DRAFT
        self.model.batches.draft(asked, self.now)

    def publish(self) -> None:
        batch = self.one_of(list(self.model.batches.known))
        published = self.store.publish(batch)
        self.model.batches.publish(batch, self.now)
        # Before the members were admitted: some may fail then, because they exceed a budget.
        assert published.state is self.model.batches.known[batch].state
        self.model.promote(self.now, duty="promote")

    def tend(self) -> None:
        assert self.store.tend_batches(limit=100) == self.model.batches.tend(self.now)

    def retry_members(self) -> None:
        batch = self.one_of(list(self.model.batches.known))
        # Of members that share a key one is retried, and which is the store's business.
        jobs = [job.asked.id for job in self.model.batches.members(batch) if job.asked.dedupe_key is None]
        request = BatchRetry(id=self.ids(), batch=batch, jobs=tuple(jobs))
        try:
            expected = self.model.retry_members(batch, jobs, self.now)
        except Refusal:
            with pytest.raises(BatchExpired):
                self.store.retry_members(request)
        else:
            assert sorted(self.store.retry_members(request).jobs) == sorted(expected)

    # Claim

    def claim(self) -> None:
        self.claims.append(Claim(number=next(self.numbers), **self.draw(CLAIMS)))
        self.make_claim(self.claims[-1])

    def claim_again(self) -> None:
        self.make_claim(self.one_of(self.claims))

    def make_claim(self, claim: Claim) -> None:
        expected = self.model.claim(claim, self.now)
        claimed = self.store.claim(claim)
        assert [lease.fence for lease in claimed.leases] == expected
        if not expected:
            assert claimed.next_due == self.model.next_due(self.now)
        self.leases += claimed.leases

    def adopt(self) -> None:
        incarnation, before = self.draw(st.sampled_from(["w1", "w2"])), self.draw(st.integers(1, 20))
        adopted = self.store.adopt(incarnation, before=before, held=[])
        assert {lease.fence for lease in adopted} == {
            job.fence
            for job in self.model.jobs.values()
            if job.leased_by == incarnation and job.claim is not None and job.claim < before
        }
        self.leases += adopted

    # Hold, settle

    def beat(self) -> None:
        incarnation = self.draw(st.sampled_from(["w1", "w2"]))
        self.send_beat(incarnation, list({self.one_of(self.leases).fence: None for _ in range(2)}))

    def send_beat(self, incarnation: str, fences: list[Fence]) -> None:
        lost = self.model.beat(fences, MINUTE, self.now)
        reply = self.store.beat(Beat(worker=worker(incarnation), lease=MINUTE, extend=fences))
        assert (reply.now, reply.lost) == (self.now, lost)
        assert set(reply.cancelled) == self.model.cancelled(incarnation)
        assert [fence for fence in fences if not self.store.secure(fence)] == lost

    @property
    def held(self) -> list[Lease]:
        running = {job.fence for job in self.model.jobs.values() if job.leased_by}
        return list({lease.fence: lease for lease in self.leases if lease.fence in running}.values())

    def settle(self) -> None:
        self._settle(Outcome(self.one_of(self.held), self.draw(DECISIONS)))

    def settle_some(self) -> None:
        """In one call, whatever they are, and maybe one of them twice or one that is lost."""
        leases = [self.one_of(self.held) for _ in range(self.draw(st.integers(1, 4)))]
        leases += [self.one_of(self.leases)] if self.draw(st.booleans()) else []
        self._settle(*(Outcome(lease, self.draw(DECISIONS)) for lease in leases))

    def retry_all(self) -> None:
        self._settle(*(Outcome(lease, retrying(SECOND)) for lease in self.held))

    def settle_again(self) -> None:
        self._settle(Outcome(self.one_of(self.leases), self.draw(DECISIONS)))

    def take(self) -> None:
        # A worker may also take its own stuck attempts.
        reclaimer = self.draw(st.sampled_from(["r1", "r2", "w1", "w2"]))
        stuck_after = self.draw(st.sampled_from([None, SECOND, MINUTE]))
        lease, decision = self.one_of(self.leases), self.draw(DECISIONS)
        self._settle(Outcome(lease, decision, reclaimed_by=reclaimer, stuck_after=stuck_after))

    def reclaim(self) -> None:
        besides = self.draw(st.sampled_from(["w1", "w2", "r1"]))
        overdue = self.store.overdue(besides=besides, limit=100)
        assert {lease.fence for lease in overdue} == self.model.overdue(besides, self.now)
        for lease in overdue:
            self._settle(Outcome(lease, self.draw(DECISIONS), reclaimed_by=besides))

    def _settle(self, *outcomes: Outcome) -> None:
        assert self.store.settle(outcomes) == self.model.settle(*outcomes, now=self.now)

    def expire(self) -> None:
        expected = self.model.expire(deadline_passed(), 100, self.now)
        assert self.store.expire(deadline_passed(), limit=100) == expected

    def prune(self) -> None:
        state, age = self.draw(st.sampled_from(FINAL)), self.draw(st.sampled_from([NONE, MINUTE]))
        pruned = self.store.prune(state, before=self.now - age, limit=100)
        assert pruned == self.model.prune(state, self.now - age)

    # Manually

    def move(self) -> None:
        move, job = self.draw(BY_HAND), self.one_of(list(self.model.jobs))
        delay = self.draw(DELAYS) if move is Move.MANUAL_SNOOZE else NONE
        first = self._first(job) if move is Move.MANUAL_RETRY else None
        self.requests.append(Request(id=self.ids(), move=move, job=job, delay=delay, first=first))
        self._move(self.requests[-1])

    def _first(self, job: str) -> Outcome | None:
        """To be taken from its worker first, if it is stuck."""
        leases = [lease for lease in self.leases if lease.fence.id == job]
        if not leases or self.draw(st.booleans()):
            return None
        return Outcome(leases[-1], self.draw(DECISIONS), reclaimed_by="by hand", stuck_after=SECOND)

    def release_key(self) -> None:
        ended = [job_id for job_id, job in self.model.jobs.items() if job.asked.dedupe_key and job.state.is_final]
        request = JobRequest(id=self.ids(), job=self.one_of(ended or list(self.model.jobs)))
        try:
            self.model.release_key(request.job)
        except Refusal:
            with pytest.raises(KeyInUse):
                self.store.release_key(request)
        else:
            assert self.store.release_key(request).dedupe_key is None

    def move_again(self) -> None:
        self._move(self.one_of(self.requests))

    def _move(self, request: Request) -> None:
        try:
            self.model.move(request, now=self.now)
        except Refusal as refusal:
            self._must_refuse(request, refusal)
        else:
            assert self.store.move(request).state is self.model.jobs[request.job].state

    def _must_refuse(self, request: Request, refusal: Refusal) -> None:
        try:
            self.store.move(request)
        except Conflict as conflict:
            assert conflict.twin == refusal.twin
        except IllegalMove:
            assert refusal.twin is None
        except BatchExpired:
            assert refusal.is_expired
        except JobNotFound:
            assert request.job not in self.model.jobs
        else:
            raise AssertionError(f"{request} should have been refused")

    # Redrives

    def begin_redrive(self) -> None:
        planned = self._plan(self.draw(st.sampled_from([RETRY, *BULK_VERBS])))
        assert planned.matched == len(self.model.candidates(planned.filter, self.now))
        if planned.matched:
            self.redrives.append(self.store.begin_redrive(replace(planned, id=self.ids(), request_id=self.ids())))

    def _plan(self, verb: str) -> Redrive:
        redrives = Redrives(lambda: self.store, self.ids)
        if verb == RETRY:
            state = self.draw(st.sampled_from([State.FAILED, State.FAILED, State.CANCELLED]))
            return redrives.start(JobFilter(state=state), rate="1/s", canary=0, abort_above=1, dry_run=True)
        marked = [self.one_of(list(self.model.jobs)) for _ in range(3)] if self.model.jobs else None
        return redrives.start_bulk(
            verb,
            JobFilter(),
            ids=self.draw(st.sampled_from([None, marked])),
            delay=self.draw(DELAYS) if verb == SNOOZE else None,
            dry_run=True,
        )

    def carry_on(self) -> None:
        """With jobs as a worker may have read them, now or long ago."""
        redrive = self.one_of(self.redrives)
        page = self.store.candidates(redrive.filter, before=redrive.began_at)
        assert {job.id for job in page.jobs} == self.model.candidates(redrive.filter, redrive.began_at)
        ids = sorted({self.one_of(list(self.model.jobs)) for _ in range(2)}) if self.model.jobs else []
        moves = [
            Request(
                id=retry_request_id(redrive.id, job),
                move=MOVES[redrive.verb],
                job=job,
                delay=redrive.delay,
                redrive=redrive.id,
            )
            for job in ids
        ]
        after = self.store.advance_redrive(redrive, moves)
        skipped = self.model.redrive(moves, redrive.filter, redrive.began_at, self.now)
        expected = record_retries(redrive, list(zip(ids, skipped, strict=True)), self.now)
        assert after == replace(expected, course=replace(expected.course, version=redrive.course.version + 1))
        assert self.store.advance_redrive(redrive, moves) is None, "it was read before"
        self.redrives[self.redrives.index(redrive)] = after

    # Pauses

    def pause(self) -> None:
        (what, name), duration = self.draw(PAUSED), self.draw(st.sampled_from([None, SECOND, HOUR]))
        self.store.pause(PauseRequest(id=self.ids(), what=what, name=name, duration=duration))
        self.model.paused[what, name] = None if duration is None else self.now + duration

    def resume(self) -> None:
        what, name = self.draw(PAUSED | st.sampled_from(sorted(self.model.paused)))
        was_paused = self.model.is_paused(what, name, self.now)
        self.model.paused.pop((what, name), None)
        ended = self.store.resume(PauseRequest(id=self.ids(), what=what, name=name))
        assert (ended is not None) == was_paused

    def promote(self) -> None:
        duty, by_hand = self.draw(DUTIES), self.draw(st.booleans())
        passed = self.store.promote(duty, limit=100, is_manual=by_hand)
        assert passed == self.model.promote(self.now, duty=duty, by_hand=by_hand)

    # Limits

    def limit(self) -> None:
        self.limit_by(self.draw(BOOKS))

    def limit_by(self, book: LimitBook) -> None:
        self.store.limit_by(lambda: book)
        self.model.limits.asked = book
        jobs = self.model.jobs.values()
        subjects = {subject: job for job in jobs for subject in subjects_of(job)}
        self.allowed = {subject: taken(subject, jobs) for subject in subjects}

    # Time

    def advance(self) -> None:
        self.clock.advance(self.draw(TIMES))

    # After each step

    @invariant()
    def they_agree(self) -> None:
        stored = {job.id: job for job in self.store.jobs(JobFilter(), limit=100).jobs}
        assert stored.keys() == self.model.jobs.keys()
        differences = {
            job_id: found for job_id, job in self.model.jobs.items() if (found := job.differences(stored[job_id]))
        }
        assert not differences, "name: (model, store)"
        # Jobs that were promoted in one step may have been promoted in any order.
        events = self.store.events(after=self._read, limit=1_000)
        self._read = events[-1].position if events else self._read
        logged = [(event.type, event.job, event.attempt) for event in events if event.type in JOB_EVENTS]
        assert sorted(logged) == sorted(self.model.new_events())
        told = [
            (event.type, event.data["batch"], event.data["generation"])
            for event in events
            if event.type in BATCH_EVENTS
        ]
        assert sorted(told) == sorted(self.model.batches.new_events())

    @invariant()
    def counts_are_a_recount(self) -> None:
        for batch, expected in self.model.batches.known.items():
            found, counts = self.store.batch(batch), self.model.batches.counts(batch)
            assert (found.state, found.generation) == (expected.state, expected.generation)
            assert (found.total, found.aborted_at) == (counts.total(), expected.aborted_at)
            ended = found.succeeded, found.failed, found.cancelled
            assert ended == (counts[State.SUCCEEDED], counts[State.FAILED], counts[State.CANCELLED])

    @invariant()
    def places_are_a_recount(self) -> None:
        """And never more than the limit: only jobs admitted before it may exceed it."""
        limits, jobs = self.model.limits, list(self.model.jobs.values())
        if not limits.book or limits.unswept:
            return
        most = {subject: number for job in jobs for subject, number in limits.most(job).items()}
        recount = {subject: taken(subject, jobs) for subject in most}
        told = self.store.limits(sorted(most))
        assert {f"{one.what}/{one.name}": (one.taken, one.most) for one in told} == {
            subject: (recount[subject], most[subject]) for subject in most
        }
        for subject, number in recount.items():
            self.allowed[subject] = max(most[subject], min(number, self.allowed.get(subject, 0)))
            assert number <= self.allowed[subject]

    @invariant()
    def spending_is_what_was_admitted(self) -> None:
        for owner in ("acme", "other") if self.model.limits.book.budgets else ():
            found = self.store.spending(owner)
            if found is not None:
                spent = found.today, found.this_month, found.cost_this_month
                assert spent == self.model.budgets.of(owner, self.now)

    def teardown(self) -> None:
        try:
            self._lift_limits()
            check(self.store, self.clock)
        finally:
            self.store.close()
            self._folder.cleanup()

    def _lift_limits(self) -> None:
        """Otherwise no claim could reach the jobs that wait for a slot or a budget."""
        self.store.limit_by(LimitBook)
        for _ in range(2):
            self.store.claim(Claim(incarnation="w1", number=next(self.numbers), kinds=(), limit=1, lease=MINUTE))
