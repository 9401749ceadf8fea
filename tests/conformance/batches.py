"""Batches: members wait for the publishing, counts are exact on every way a job can end, and each generation is settled
once."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from conformance.bench import DAY, HOUR, KIND, MINUTE, PASS, SECOND, Bench, at_once, failing, retrying
from mulligan.errors import BatchClosed, BatchExpired, BatchNotFound, IllegalMove
from mulligan.failure.decision import Cancel, Decision, Release, Succeed
from mulligan.failure.verdict import deadline_passed
from mulligan.lifecycle import (
    BATCH_ABORTED,
    BATCH_EVENTS,
    BATCH_EXPIRED,
    BATCH_PUBLISHED,
    BATCH_REOPENED,
    BATCH_RETRIED,
    BATCH_SETTLED,
    TABLE,
    Move,
    State,
)
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.event import Event
from mulligan.records.job import FollowUp, Job, JobFilter, Lease
from mulligan.records.limit import LimitBook
from mulligan.records.pause import PauseRequest
from mulligan.store.messages import Outcome, Settled

AFTER = FollowUp(
    kind="after",
    arguments='{"batch":"00000000-0000-0000-0000-000000000000"}',
    queue="default",
    service="",
    priority=0,
    deadline=None,
    max_attempts=4,
    max_crashes=3,
    max_snoozes=100,
    timeout=None,
    cost=0,
)
DONE = Succeed('"done"')
PROMOTED = TABLE[Move.PROMOTE, State.WAITING].event


class BatchRules(Bench):
    # Draft

    def test_a_batch_is_kept_as_it_was_given(self) -> None:
        new = NewBatch(
            id=self.ids(),
            name="Spring",
            owner="acme",
            success_at=0.9,
            abort_above=0.25,
            expires_in=DAY,
            on_settled=AFTER,
        )
        batch = self.store.create_batch(new)
        assert (batch.name, batch.owner, batch.state, batch.generation) == ("Spring", "acme", BatchState.DRAFT, 1)
        assert (batch.success_at, batch.abort_above, batch.expires_at) == (0.9, 0.25, self.now + DAY)
        assert (batch.total, batch.finished, batch.created_at) == (0, 0, self.now)
        assert (batch.published_at, batch.settled_at, batch.aborted_at) == (None, None, None)
        assert self.store.create_batch(new) == self.store.batch(new.id) == batch, "the same id is the same batch"
        assert self.store.find_ids("batch", new.id[-6:], limit=5) == [new.id]

    def test_batches_are_listed_newest_first_by_owner_and_state(self) -> None:
        batches = [self._draft(owner=owner) for owner in ("", "acme", "acme")]
        self.store.publish(batches[1].id)
        assert [batch.id for batch in self.store.batches()] == [batch.id for batch in batches[::-1]]
        assert [batch.id for batch in self.store.batches(owner="acme")] == [batches[2].id, batches[1].id]
        assert [batch.id for batch in self.store.batches(state=BatchState.DRAFT, limit=1)] == [batches[2].id]
        assert [batch.id for batch in self.store.batches(cursor=batches[1].id)] == [batches[0].id]

    def test_another_owners_batch_is_not_found(self) -> None:
        batch = self._draft(owner="acme")
        for call in (
            lambda: self.store.batch(batch.id, owner="other"),
            lambda: self.store.publish(batch.id, owner="other"),
            lambda: self.store.batch("nothing"),
            lambda: self.store.publish("nothing"),
            lambda: self.store.retry_members(self._batch_retry(batch, [], owner="other")),
        ):
            with pytest.raises(BatchNotFound):
                call()
        assert self.store.batch(batch.id, owner="acme").state is BatchState.DRAFT

    def test_members_of_a_draft_wait_and_are_counted_as_they_come(self) -> None:
        batch = self._draft()
        members = [self._member(batch), self._member(batch, delay=HOUR)]
        assert [(job.state, job.waiting_for, job.batch) for job in members] == [(State.WAITING, "batch", batch.id)] * 2
        assert self.claim() == []
        assert self.store.promote("promote", limit=100, is_manual=True) == 0
        assert not self.store.is_busy([KIND])
        assert self.store.next_due() is None
        found = self.store.batch(batch.id)
        assert (found.total, found.left, found.state) == (2, 2, BatchState.DRAFT)
        (listed,) = self.store.batches()
        assert listed.total == 2

    def test_jobs_are_found_by_their_batch(self) -> None:
        batch, other = self._draft(), self._draft()
        member = self._member(batch)
        self._member(other), self.enqueue()
        assert [job.id for job in self.store.jobs(JobFilter(batch=batch.id)).jobs] == [member.id]

    def test_nothing_is_added_to_a_batch_that_is_not_there(self) -> None:
        with pytest.raises(BatchNotFound):
            self.store.enqueue([self.new(), self.new(batch="nothing")])
        assert self.store.jobs(JobFilter()).jobs == (), "all or none"

    def test_a_published_batch_takes_no_more_members(self) -> None:
        batch, first = self._published(1)
        with pytest.raises(BatchClosed, match="processing"):
            self.store.enqueue([self.new(batch=batch.id)])
        self.settle(self._member_lease(first[0]), DONE)
        with pytest.raises(BatchClosed, match="ready"):
            self.store.enqueue([self.new(batch=batch.id)])
        assert self.store.batch(batch.id).total == 1

    def test_adding_that_is_repeated_after_the_publishing_is_the_same_job(self) -> None:
        batch, new = self._draft(), self.new()
        asked = self.new(id=new.id, batch=batch.id)
        self.store.enqueue([asked])
        self.store.publish(batch.id)
        (again,) = self.store.enqueue([asked])
        assert (again.id, again.is_duplicate, self.store.batch(batch.id).total) == (asked.id, False, 1)

    def test_a_twin_is_counted_once_and_only_where_it_belongs(self) -> None:
        outside = self.enqueue(dedupe_key="outside")
        batch = self._draft()
        first, twin, stranger = self.store.enqueue(
            [self.new(batch=batch.id, dedupe_key=key) for key in ("a", "a", "outside")]
        )
        assert (twin.id, twin.is_duplicate) == (first.id, True)
        assert (stranger.id, stranger.batch) == (outside.id, None)
        assert self.store.publish(batch.id).total == 1

    # Publish

    def test_publishing_promotes_members(self) -> None:
        batch, jobs = self._published(3)
        assert (batch.state, batch.total, batch.published_at) == (BatchState.PROCESSING, 3, self.now)
        assert {self.job(job.id).state for job in jobs} == {State.QUEUED}
        assert self.store.is_busy([KIND])
        assert {lease.fence.id for lease in self.claim()} == {job.id for job in jobs}
        assert self._batch_told(batch) == [BATCH_PUBLISHED]

    def test_publishing_twice_is_harmless(self) -> None:
        batch, _ = self._published(2)
        assert self.store.publish(batch.id, actor="ann") == batch
        assert self._batch_told(batch) == [BATCH_PUBLISHED]

    def test_an_empty_batch_is_ready_at_once(self) -> None:
        batch = self.store.publish(self._draft(on_settled=AFTER).id, actor="ann")
        assert (batch.state, batch.total, batch.settled_at) == (BatchState.READY, 0, self.now)
        published, settled = self._batch_events(batch)
        assert (published.type, published.actor, settled.type) == (BATCH_PUBLISHED, "ann", BATCH_SETTLED)
        assert len(self._callbacks()) == 1

    def test_a_member_with_a_delay_waits_for_it_after_the_publishing(self) -> None:
        batch = self._draft()
        later = self._member(batch, delay=HOUR)
        now = self._member(batch)
        self.store.publish(batch.id)
        assert [lease.fence.id for lease in self.claim()] == [now.id]
        assert (self.job(later.id).state, self.job(later.id).waiting_for) == (State.WAITING, "delay")
        assert self.claimed().next_due == HOUR
        self.advance(HOUR)
        assert [lease.fence.id for lease in self.claim()] == [later.id]

    def test_members_are_held_by_a_pause_like_others(self) -> None:
        self.store.pause(PauseRequest(id=self.ids(), what="duty", name="promote"))
        batch, (job,) = self._published(1)
        assert self.claim() == []
        self.store.resume(PauseRequest(id=self.ids(), what="duty", name="promote"))
        assert [lease.fence.id for lease in self.claim()] == [job.id]
        assert batch.id == job.batch

    @pytest.mark.usefixtures("small_passes")
    @pytest.mark.parametrize("number", [PASS, 2 * PASS, 4 * PASS + 50])
    def test_publishing_promotes_all_members_however_many_passes_it_takes(self, number: int) -> None:
        batch = self._draft()
        jobs = self.store.enqueue([self.new(batch=batch.id) for _ in range(number)])
        assert self.store.publish(batch.id).total == number
        # Before any claim: a claim would promote the members of a pass that was left out.
        assert self.store.counts() == {KIND: {"queued": number}}
        promoted = [event.job for event in self.events() if event.type == PROMOTED]
        assert sorted(promoted) == sorted(job.id for job in jobs)

    def test_the_gate_is_closed_when_all_jobs_are_admitted(self) -> None:
        batch, _ = self._published(2)
        self.store.tend_batches(limit=100)
        assert len(self.claim()) == 2, "no member was left blocked"
        self.store.tend_batches(limit=100)
        assert self.store.batch(batch.id).left == 2
        assert not self.store.promote("promote", limit=10)

    # Counts

    @pytest.mark.parametrize(
        ("decisions", "state", "counts"),
        [
            ([DONE, DONE], BatchState.READY, (2, 0, 0)),
            ([DONE, failing()], BatchState.PARTIAL, (1, 1, 0)),
            ([failing(), failing()], BatchState.FAILED, (0, 2, 0)),
            ([DONE, Cancel({})], BatchState.PARTIAL, (1, 0, 1)),
            ([Cancel({}), Cancel({})], BatchState.FAILED, (0, 0, 2)),
            ([failing(), Cancel({})], BatchState.FAILED, (0, 1, 1)),
        ],
    )
    @pytest.mark.parametrize("together", [True, False])
    def test_a_batch_becomes_what_its_members_became(
        self, decisions: list[Decision], state: BatchState, counts: tuple[int, int, int], *, together: bool
    ) -> None:
        batch, jobs = self._published(2)
        outcomes = [Outcome(lease, each) for lease, each in zip(self._member_leases(jobs), decisions, strict=True)]
        for group in [outcomes] if together else [[outcome] for outcome in outcomes]:
            assert self.store.settle(group) == [Settled.ACCEPTED] * len(group)
        found = self.store.batch(batch.id)
        assert (found.state, (found.succeeded, found.failed, found.cancelled)) == (state, counts)
        assert (found.settled_at, found.left) == (self.now, 0)
        (settled,) = self._batch_events(batch, BATCH_SETTLED)
        assert settled.data == {
            "what": "batch",
            "name": batch.name,
            "batch": batch.id,
            "generation": 1,
            "state": state,
            "total": 2,
            "succeeded": counts[0],
            "failed": counts[1],
            "cancelled": counts[2],
        }

    def test_attempts_that_go_on_are_not_counted(self) -> None:
        batch, (job,) = self._published(1)
        self.settle(self._member_lease(job), retrying(SECOND))
        self.advance(SECOND)
        self.settle(self._member_lease(job), Release({}))
        found = self.store.batch(batch.id)
        assert (found.finished, found.state) == (0, BatchState.PROCESSING)
        self.settle(self._member_lease(job), DONE)
        assert self.store.batch(batch.id).state is BatchState.READY

    def test_a_settle_that_is_repeated_or_refused_is_counted_once(self) -> None:
        batch, jobs = self._published(2)
        first, second = self._member_leases(jobs)
        outcomes = [Outcome(first, DONE), Outcome(first, DONE)]
        assert self.store.settle(outcomes) == [Settled.ACCEPTED, Settled.REPEATED]
        assert self.store.settle([Outcome(first, DONE)]) == [Settled.REPEATED]
        assert self.store.settle([Outcome(first, failing(), reclaimed_by="r")]) == [Settled.REFUSED]
        found = self.store.batch(batch.id)
        assert (found.succeeded, found.finished, found.state) == (1, 1, BatchState.PROCESSING)
        assert self.store.settle([Outcome(first, DONE), Outcome(second, DONE)])[1] is Settled.ACCEPTED
        assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_SETTLED]

    def test_an_outcome_that_cannot_be_stored_counts_as_failed(self) -> None:
        batch, jobs = self._published(2)
        first, second = self._member_leases(jobs)
        answers = self.store.settle([Outcome(first, Succeed("no JSON")), Outcome(second, DONE)])
        assert answers == [Settled.UNSTORABLE, Settled.ACCEPTED]
        found = self.store.batch(batch.id)
        assert (found.succeeded, found.failed, found.state) == (1, 1, BatchState.PARTIAL)

    def test_a_wish_to_cancel_that_wins_is_counted_as_cancelled(self) -> None:
        batch, (job,) = self._published(1)
        lease = self._member_lease(job)
        self.move(Move.MANUAL_CANCEL, job.id)
        assert self.store.batch(batch.id).finished == 0, "it still runs"
        self.settle(lease, retrying())
        found = self.store.batch(batch.id)
        assert (found.cancelled, found.state) == (1, BatchState.FAILED)

    def test_a_member_cancelled_manually_is_counted(self) -> None:
        batch, jobs = self._published(2)
        self.move(Move.MANUAL_CANCEL, jobs[0].id)
        assert self.store.batch(batch.id).cancelled == 1
        self.settle(self._member_lease(jobs[1]), DONE)
        assert self.store.batch(batch.id).state is BatchState.PARTIAL

    def test_a_member_whose_deadline_passed_is_counted(self) -> None:
        batch, _ = self._published(2, deadline=SECOND)
        self.advance(MINUTE)
        assert self.store.expire(deadline_passed(), limit=10) == 2
        found = self.store.batch(batch.id)
        assert (found.failed, found.state) == (2, BatchState.FAILED)

    def test_a_member_of_a_lost_worker_is_counted_by_its_reclaimer(self) -> None:
        batch, (job,) = self._published(1)
        self._member_lease(job)
        self.advance(HOUR)
        (lost,) = self.store.overdue(besides="r", limit=10)
        self.settle(lost, failing(), by="r")
        assert self.store.batch(batch.id).failed == 1

    def test_members_that_end_while_it_is_a_draft_are_counted(self) -> None:
        batch = self._draft()
        late, gone, good = self._member(batch, deadline=SECOND), self._member(batch), self._member(batch)
        self.advance(MINUTE)
        self.store.expire(deadline_passed(), limit=10)
        self.move(Move.MANUAL_CANCEL, gone.id)
        draft = self.store.batch(batch.id)
        assert (draft.total, draft.failed, draft.cancelled, draft.state) == (3, 1, 1, BatchState.DRAFT)
        assert self.store.publish(batch.id).left == 1
        self.settle(self._member_lease(good), DONE)
        assert (self.store.batch(batch.id).state, self.job(late.id).state) == (BatchState.PARTIAL, State.FAILED)

    def test_a_draft_whose_members_are_all_over_is_settled_when_published(self) -> None:
        batch = self._draft()
        self.move(Move.MANUAL_CANCEL, self._member(batch).id)
        assert self.store.publish(batch.id).state is BatchState.FAILED
        assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_SETTLED]

    def test_many_batches_in_one_settle_are_each_counted(self) -> None:
        batches = [self._draft() for _ in range(5)]
        jobs = [self._member(batch) for batch in batches for _ in range(2)]
        for batch in batches:
            self.store.publish(batch.id)
        leases = self._member_leases(jobs)
        decisions = [DONE if n % 2 else failing() for n in range(10)]
        self.store.settle([Outcome(lease, each) for lease, each in zip(leases, decisions, strict=True)])
        assert {self.store.batch(batch.id).state for batch in batches} == {BatchState.PARTIAL}

    def test_two_settles_of_the_last_two_members_settle_the_batch_once(self) -> None:
        twin = self.twin()
        for _ in range(10):
            batch, jobs = self._published(2, on_settled=AFTER)
            first, second = self._member_leases(jobs)
            answers = at_once([lambda: self.settle(first, DONE), lambda: self.settle(second, DONE, store=twin)])  # noqa: B023
            assert answers == [Settled.ACCEPTED] * 2
            found = self.store.batch(batch.id)
            assert (found.succeeded, found.state) == (2, BatchState.READY)
            assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_SETTLED]
        assert len(self._callbacks()) == 10

    def test_many_settles_of_members_of_the_same_batches_in_any_order_lose_no_count(self) -> None:
        twin, batches = self.twin(), [self._draft() for _ in range(3)]
        jobs = [self._member(batch) for _ in range(8) for batch in batches]
        for batch in batches:
            self.store.publish(batch.id)
        leases = {lease.fence.id: lease for lease in self.claim()}
        calls = []
        for n in range(8):
            group = [Outcome(leases[job.id], DONE if n % 2 else failing()) for job in jobs[3 * n : 3 * n + 3]]
            store, ordered = (self.store, group) if n % 2 else (twin, group[::-1])
            calls.append(lambda store=store, ordered=ordered: store.settle(ordered))
        assert at_once(calls) == [[Settled.ACCEPTED] * 3] * 8
        found = [self.store.batch(batch.id) for batch in batches]
        assert {(batch.succeeded, batch.failed, batch.state) for batch in found} == {(4, 4, BatchState.PARTIAL)}
        assert [self._batch_told(batch) for batch in batches] == [[BATCH_PUBLISHED, BATCH_SETTLED]] * 3

    # Shares

    @pytest.mark.parametrize(
        ("success_at", "succeeded", "total", "state"),
        [
            (0.5, 1, 2, BatchState.READY),
            (0.51, 1, 2, BatchState.PARTIAL),
            (0.1, 1, 10, BatchState.READY),
            (0.1, 0, 10, BatchState.FAILED),
        ],
    )
    def test_a_share_of_successes_can_be_enough(
        self, success_at: float, succeeded: int, total: int, state: BatchState
    ) -> None:
        batch, jobs = self._published(total, success_at=success_at)
        decisions = [DONE if n < succeeded else failing() for n in range(total)]
        leases = self._member_leases(jobs)
        self.store.settle([Outcome(lease, each) for lease, each in zip(leases, decisions, strict=True)])
        assert self.store.batch(batch.id).state is state

    def test_too_many_failures_cancel_what_does_not_run(self) -> None:
        batch, jobs = self._published(5, abort_above=0.2)
        first, second, running = self._member_leases(jobs[:3], limit=3)
        self.settle(first, failing())
        assert self.store.batch(batch.id).aborted_at is None, "a fifth is not above a fifth"
        self.settle(second, failing())
        found = self.store.batch(batch.id)
        assert (found.failed, found.cancelled, found.aborted_at) == (2, 2, self.now)
        assert found.state is BatchState.PROCESSING, "one still runs"
        (cancelled, *_) = self.events(jobs[4].id)[::-1]
        assert (cancelled.type, cancelled.data) == ("job.cancelled", {"reason": "the batch was aborted"})
        self.settle(running, DONE)
        assert self.store.batch(batch.id).state is BatchState.PARTIAL
        assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_ABORTED, BATCH_SETTLED]

    def test_an_abort_that_leaves_no_member_settles_the_batch(self) -> None:
        batch, jobs = self._published(3, abort_above=0.0)
        self.settle(self._member_leases(jobs[:1], limit=1)[0], failing())
        found = self.store.batch(batch.id)
        assert (found.failed, found.cancelled, found.state) == (1, 2, BatchState.FAILED)
        assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_ABORTED, BATCH_SETTLED]

    def test_members_of_an_aborted_batch_that_come_back_are_cancelled_too(self) -> None:
        batch, jobs = self._published(4, abort_above=0.0)
        first, second, third, _ = self._member_leases(jobs)
        self.settle(first, failing())
        self.settle(second, retrying(HOUR))
        self.settle(third, Release({}))
        assert self.store.batch(batch.id).cancelled == 0
        assert self.store.tend_batches(limit=100) == 2
        found = self.store.batch(batch.id)
        assert (found.failed, found.cancelled, found.left) == (1, 2, 1)

    def test_a_member_retried_manually_after_an_abort_is_left_alone(self) -> None:
        batch, jobs = self._published(3, abort_above=0.0)
        first, _ = self._member_leases(jobs[:2], limit=2)
        self.settle(first, failing())
        assert self.job(jobs[2].id).state is State.CANCELLED
        self.advance(SECOND)
        self.move(Move.MANUAL_RETRY, jobs[2].id)
        assert self.store.tend_batches(limit=100) == 0
        assert (self.job(jobs[2].id).state, self.store.batch(batch.id).left) == (State.QUEUED, 2)

    def test_old_failures_do_not_give_up_members_that_are_brought_back(self) -> None:
        batch, jobs = self._published(4, abort_above=0.25)
        leases = self._member_leases(jobs)
        self.store.settle([Outcome(lease, failing()) for lease in leases])
        for job in jobs[:3]:
            self.move(Move.MANUAL_RETRY, job.id)
        found = self.store.batch(batch.id)
        assert (found.failed, found.left, found.aborted_at) == (1, 3, None)
        first, second, _ = self._member_leases(jobs[:3], limit=3)
        self.settle(first, DONE)
        assert self.store.batch(batch.id).aborted_at is None
        self.settle(second, failing())
        assert self.store.batch(batch.id).aborted_at == self.now

    @pytest.mark.usefixtures("small_passes")
    def test_a_large_batch_is_aborted_in_passes(self) -> None:
        batch = self._draft(abort_above=0.0)
        self.store.enqueue([self.new(batch=batch.id) for _ in range(210)])
        self.store.publish(batch.id)
        (lease,) = self.claim(limit=1)
        self.settle(lease, failing())
        assert self.store.batch(batch.id).cancelled == PASS
        assert self.store.tend_batches(limit=70) == 70
        assert self.store.tend_batches(limit=70) == 39
        found = self.store.batch(batch.id)
        assert (found.failed, found.cancelled, found.state) == (1, 209, BatchState.FAILED)
        assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_ABORTED, BATCH_SETTLED]

    # Callback

    def test_its_callback_takes_its_owners_turn_in_a_fair_queue(self) -> None:
        fair: dict[str, Any] = {"queue": "bulk", "weight": 1.0}
        self.store.enqueue([self.new("after", owner="big", **fair) for _ in range(50)])
        self.claim("after", fair=["bulk"], limit=10)
        self.advance(HOUR)
        _, (job,) = self._published(1, on_settled=structs.replace(AFTER, queue="bulk", weight=1.0), owner="acme")
        self.settle(self._member_lease(job), DONE)
        assert [lease.owner for lease in self.claim("after", fair=["bulk"], limit=2)] == ["big", "acme"]

    def test_its_callback_needs_a_slot_like_any_other_job(self) -> None:
        self.store.limit_by(lambda: LimitBook(kinds={"after": 1}))
        for _ in range(2):
            _, (job,) = self._published(1, on_settled=AFTER)
            self.settle(self._member_lease(job), DONE)
        (first,) = self.claim("after")
        assert self.claim("after") == []
        self.settle(first, DONE)
        assert len(self.claim("after")) == 1
        self.store.limit_by(LimitBook)
        self.claim("nothing")

    def test_the_callback_is_stored_with_the_settling(self) -> None:
        batch, (job,) = self._published(1, on_settled=AFTER, owner="acme")
        assert self._callbacks() == []
        self.settle(self._member_lease(job), failing())
        (after,) = self._callbacks()
        assert (after.kind, after.owner, after.batch) == ("after", "acme", None)
        assert after.arguments == {"batch": batch.id}

    def test_each_generation_has_its_callback(self) -> None:
        batch, (job,) = self._published(1, on_settled=AFTER)
        self.settle(self._member_lease(job), failing())
        self.move(Move.MANUAL_RETRY, job.id)
        self.settle(self._member_lease(job), DONE)
        assert len({after.id for after in self._callbacks()}) == 2
        assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_SETTLED, BATCH_REOPENED, BATCH_SETTLED]

    # Again

    @pytest.mark.parametrize("move", [Move.MANUAL_RETRY, Move.RUN_NOW])
    @pytest.mark.parametrize("decision", [failing(), Cancel({})])
    def test_a_manually_retried_member_opens_the_batch(self, move: Move, decision: Decision) -> None:
        batch, jobs = self._published(2)
        leases = self._member_leases(jobs)
        self.store.settle([Outcome(leases[0], decision), Outcome(leases[1], DONE)])
        self.move(move, jobs[0].id, actor="ann")
        found = self.store.batch(batch.id)
        assert (found.state, found.generation, found.left, found.settled_at) == (BatchState.PROCESSING, 2, 1, None)
        assert (found.succeeded, found.failed, found.cancelled) == (1, 0, 0)
        (reopened,) = self._batch_events(batch, BATCH_REOPENED)
        assert (reopened.actor, reopened.data["generation"]) == ("ann", 2)
        self.settle(self._member_lease(jobs[0]), DONE)
        found = self.store.batch(batch.id)
        assert (found.state, found.generation) == (BatchState.READY, 2)

    def test_a_retry_that_is_repeated_is_counted_once(self) -> None:
        batch, (job,) = self._published(1)
        self.settle(self._member_lease(job), failing())
        request = self.request(Move.MANUAL_RETRY, job.id)
        self.store.move(request), self.store.move(request)
        found = self.store.batch(batch.id)
        assert (found.failed, found.generation) == (0, 2)

    def test_a_stuck_member_that_is_retried_leaves_the_counts_alone(self) -> None:
        batch, (job,) = self._published(1)
        lease = self._member_lease(job)
        self.advance(HOUR)
        first = Outcome(lease, failing("TIMEOUT"), reclaimed_by="by hand", stuck_after=SECOND)
        self.move(Move.MANUAL_RETRY, job.id, first=first)
        found = self.store.batch(batch.id)
        assert (found.finished, found.generation, found.state) == (0, 1, BatchState.PROCESSING)
        assert self._batch_told(batch) == [BATCH_PUBLISHED]

    def test_a_member_of_a_draft_moved_manually_still_waits_for_the_publishing(self) -> None:
        batch = self._draft()
        jobs = [self._member(batch) for _ in range(4)]
        self.move(Move.MANUAL_CANCEL, jobs[0].id)
        for job, move in zip(jobs, [Move.MANUAL_RETRY, Move.RUN_NOW, Move.MANUAL_RETRY], strict=False):
            assert self.move(move, job.id).waiting_for == "batch"
        self.move(Move.MANUAL_SNOOZE, jobs[3].id, delay=HOUR)
        self.advance(2 * HOUR)
        assert self.claim() == []
        draft = self.store.batch(batch.id)
        assert (draft.total, draft.finished) == (4, 0)
        self.store.publish(batch.id)
        assert len(self.claim()) == 4

    def test_all_failed_members_are_retried_in_one_generation(self) -> None:
        batch, jobs = self._published(4)
        leases = self._member_leases(jobs)
        decisions: list[Decision] = [failing(), failing(), DONE, Cancel({})]
        self.store.settle([Outcome(lease, each) for lease, each in zip(leases, decisions, strict=True)])
        request = self._batch_retry(batch, jobs[:2], actor="ann", reason="fixed")
        assert sorted(self.store.retry_members(request).jobs) == sorted(job.id for job in jobs[:2])
        found = self.store.batch(batch.id)
        assert (found.state, found.generation, found.left, found.cancelled) == (BatchState.PROCESSING, 2, 2, 1)
        (asked,) = self._batch_events(batch, BATCH_RETRIED)
        assert (asked.actor, asked.data["did"], asked.data["reason"]) == ("ann", 2, "fixed")
        assert [event.actor for event in self.events(jobs[0].id) if event.type == "job.retry_requested"] == ["ann"]
        again = self._member_leases(jobs[:2])
        self.store.settle([Outcome(lease, DONE) for lease in again])
        assert self.store.batch(batch.id).state is BatchState.PARTIAL, "one is cancelled still"

    def test_a_retry_of_members_that_is_repeated_later_is_answered_as_it_was(self) -> None:
        batch, jobs = self._published(3)
        for lease in self._member_leases(jobs):
            self.settle(lease, failing())
        first = self._batch_retry(batch, jobs[:2])
        retried = self.store.retry_members(first).jobs
        assert self.store.retry_members(first).jobs == retried
        for lease in self._member_leases(jobs[:2]):
            self.settle(lease, failing())
        self.store.retry_members(self._batch_retry(batch, jobs))
        before = self.store.last_position()
        assert sorted(self.store.retry_members(first).jobs) == sorted(job.id for job in jobs[:2])
        assert self.store.last_position() == before, "it changes nothing more"
        with pytest.raises(BatchNotFound):
            self.store.retry_members(replace(first, owner="another"))
        assert len(self._batch_events(batch, BATCH_SETTLED)) == 2

    def test_cancelled_members_can_be_retried_too_and_running_ones_are_left_alone(self) -> None:
        batch, jobs = self._published(3)
        leases = self._member_leases(jobs)
        self.store.settle([Outcome(leases[0], Cancel({})), Outcome(leases[1], DONE)])
        assert self.store.retry_members(self._batch_retry(batch, jobs)).jobs == [jobs[0].id]
        assert self.store.batch(batch.id).left == 2
        assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_RETRIED]

    def test_of_failed_twins_one_is_retried(self) -> None:
        batch, (first,) = self._published(1, dedupe_key="same")
        self.settle(self._member_lease(first), failing())
        outside = self.enqueue(dedupe_key="same")
        assert self.store.retry_members(self._batch_retry(batch, [first])).jobs == []
        assert self.store.batch(batch.id).state is BatchState.FAILED
        self.move(Move.MANUAL_CANCEL, outside.id)
        assert self.store.retry_members(self._batch_retry(batch, [first])).jobs == [first.id]

    def test_retried_members_of_a_draft_wait_for_the_publishing(self) -> None:
        batch = self._draft()
        job = self._member(batch)
        self.move(Move.MANUAL_CANCEL, job.id)
        assert self.store.retry_members(self._batch_retry(batch, [job])).jobs == [job.id]
        assert (self.claim(), self.job(job.id).waiting_for) == ([], "batch")
        self.store.publish(batch.id)
        assert len(self.claim()) == 1

    def test_after_publishing_no_claim_looks_for_more_members(self) -> None:
        self._published(2)
        assert not self.store.outlook(()).has_promotable
        assert "expire" in self.store.duty_overview().idle

    def test_a_claim_promotes_the_members_that_publishing_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mulligan.store.store.PUBLISH_PASS", 1)
        monkeypatch.setattr("mulligan.store.store.PUBLISH_PASSES", 1)
        self._published(3)
        assert self.store.outlook(()).has_promotable
        assert len(self.claim()) == 3

    # Expire

    @pytest.mark.parametrize("decision", [DONE, failing()])
    def test_a_settled_batch_expires_when_its_date_has_passed(self, decision: Decision) -> None:
        batch, (job,) = self._published(1, expires_in=HOUR)
        self.settle(self._member_lease(job), decision)
        assert self.store.tend_batches(limit=10) == 0
        assert "expire" in self.store.duty_overview().idle
        self.advance(HOUR)
        assert "expire" not in self.store.duty_overview().idle
        assert self.store.tend_batches(limit=10) == 1
        assert self.store.tend_batches(limit=10) == 0
        assert "expire" in self.store.duty_overview().idle
        assert self.store.batch(batch.id).state is BatchState.EXPIRED
        assert self._batch_told(batch) == [BATCH_PUBLISHED, BATCH_SETTLED, BATCH_EXPIRED]

    def test_the_next_moment_is_a_deadline_of_a_job_or_the_date_of_a_settled_batch(self) -> None:
        batch, (job,) = self._published(1, expires_in=HOUR)
        assert self.store.outlook(()).next_moment is None, "what is being processed does not expire"
        self.settle(self._member_lease(job), DONE)
        assert self.store.outlook(()).next_moment == batch.expires_at
        sooner = self.enqueue(deadline=MINUTE)
        assert self.store.outlook(()).next_moment == sooner.deadline
        self.advance(MINUTE)
        self.store.expire(deadline_passed(), limit=10)
        assert self.store.outlook(()).next_moment == batch.expires_at
        self.advance(HOUR)
        self.store.tend_batches(limit=10)
        assert self.store.outlook(()).next_moment is None

    def test_a_batch_that_is_being_processed_expires_when_it_is_settled(self) -> None:
        _, (job,) = self._published(1, expires_in=SECOND)
        draft = self._draft(expires_in=SECOND)
        lease = self._member_lease(job)
        self.advance(MINUTE)
        assert self.store.tend_batches(limit=10) == 0
        self.settle(lease, DONE)
        assert self.store.tend_batches(limit=10) == 1
        assert self.store.batch(draft.id).state is BatchState.DRAFT

    @pytest.mark.parametrize("is_tended", [True, False])
    def test_members_of_an_expired_batch_cannot_be_retried(self, *, is_tended: bool) -> None:
        batch, (job,) = self._published(1, expires_in=HOUR)
        self.settle(self._member_lease(job), failing())
        self.advance(HOUR)
        if is_tended:
            self.store.tend_batches(limit=10)
        for call in (
            lambda: self.move(Move.MANUAL_RETRY, job.id),
            lambda: self.move(Move.RUN_NOW, job.id),
            lambda: self.store.retry_members(self._batch_retry(batch, [job])),
        ):
            with pytest.raises(BatchExpired):
                call()
        assert self.job(job.id).state is State.FAILED
        found = self.store.batch(batch.id)
        assert (found.failed, found.generation) == (1, 1)
        with pytest.raises(IllegalMove):
            self.move(Move.MANUAL_CANCEL, job.id)

    # Gone

    def test_members_are_kept_until_their_batch_is_over(self) -> None:
        batch, jobs = self._published(2)
        first, second = self._member_leases(jobs)
        self.settle(first, DONE)
        draft = self._draft()
        self.move(Move.MANUAL_CANCEL, self._member(draft).id)
        self.advance(DAY)
        assert [self.store.prune(state, before=self.now, limit=10) for state in (State.SUCCEEDED, State.CANCELLED)] == [
            0,
            0,
        ]
        assert self.store.list_ended(JobFilter(), before=self.now) == []
        assert {pile.is_held for pile in self.store.count_ended(JobFilter(), before=self.now)} == {True}
        self.settle(second, DONE)
        self.advance(DAY)
        assert self.store.prune(State.SUCCEEDED, before=self.now, limit=10) == 2
        found = self.store.batch(batch.id)
        assert (found.total, found.succeeded, found.state) == (2, 2, BatchState.READY), "what was, was"

    def test_a_batch_goes_after_its_members(self) -> None:
        batch, (job,) = self._published(1)
        draft = self._draft()
        self.settle(self._member_lease(job), DONE)
        self.advance(DAY)
        assert self.store.prune_batches(before=self.now, limit=10) == 0
        self.store.prune(State.SUCCEEDED, before=self.now, limit=10)
        assert self.store.prune_batches(before=self.now - 2 * DAY, limit=10) == 0
        assert self.store.prune_batches(before=self.now, limit=10) == 1
        assert [each.id for each in self.store.batches()] == [draft.id]
        with pytest.raises(BatchNotFound):
            self.store.batch(batch.id)

    # Words

    def _draft(self, **options: Any) -> BatchRecord:
        return self.store.create_batch(NewBatch(**{"id": self.ids(), "name": "spring", **options}))

    def _member(self, batch: BatchRecord, **options: Any) -> Job[Any]:
        return self.enqueue(batch=batch.id, owner=batch.owner, **options)

    def _published(self, number: int, **options: Any) -> tuple[BatchRecord, list[Job[Any]]]:
        """A batch of so many members, and what they were when they were added."""
        of_members = {name: options.pop(name) for name in ("deadline", "dedupe_key") if name in options}
        batch = self._draft(**options)
        jobs = [self._member(batch, **of_members) for _ in range(number)]
        return self.store.publish(batch.id), jobs

    def _member_leases(self, jobs: Sequence[Job[Any]], *, limit: int = 100) -> list[Lease]:
        found = {lease.fence.id: lease for lease in self.claim(limit=limit, lease=timedelta(minutes=10))}
        return [found[job.id] for job in jobs]

    def _member_lease(self, job: Job[Any]) -> Lease:
        return self._member_leases([job])[0]

    def _batch_retry(self, batch: BatchRecord, jobs: Sequence[Job[Any]], **options: Any) -> BatchRetry:
        return BatchRetry(id=self.ids(), batch=batch.id, jobs=tuple(job.id for job in jobs), **options)

    def _batch_events(self, batch: BatchRecord, *types: str) -> list[Event]:
        wanted = types or BATCH_EVENTS
        return [event for event in self.events() if event.type in wanted and event.data["batch"] == batch.id]

    def _batch_told(self, batch: BatchRecord) -> list[str]:
        return [event.type for event in self._batch_events(batch)]

    def _callbacks(self) -> list[Job[Any]]:
        return list(self.store.jobs(JobFilter(kind="after")).jobs)
