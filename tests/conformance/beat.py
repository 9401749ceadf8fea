"""Beat and adopt: a lease is kept by its holder, by explicit list, and the reply names lost leases."""

import pytest

from conformance.bench import HOUR, INSTANT, MINUTE, SECOND, WORKER, Bench, retrying, worker
from conformance.fence import WRONG, mistaken
from mulligan.failure.decision import Release, Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.job import Fence, Lease
from mulligan.store.beat import EVERY
from mulligan.store.messages import ReportedProgress, Settled


class BeatRules(Bench):
    def test_a_beat_extends_the_leases_listed_and_no_others(self) -> None:
        kept, forgotten = self.leased(), self.leased()
        self.advance(30 * SECOND)
        reply = self.beat(kept.fence, lease=HOUR)
        assert (reply.now, reply.lost, reply.cancelled) == (self.now, [], [])
        assert self.job(kept.fence.id).lease_until == self.now + HOUR
        assert self.job(forgotten.fence.id).lease_until == forgotten.until

    def test_a_beat_extends_an_expired_lease_that_was_not_reclaimed(self) -> None:
        lease = self.leased()
        self.advance(HOUR)
        assert self._overdue_fences() == [lease.fence]
        assert self.beat(lease.fence).lost == []
        assert self._overdue_fences() == []
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    @pytest.mark.parametrize("wrong", WRONG, ids=str)
    def test_a_beat_names_the_lost_leases(self, wrong: dict[str, object]) -> None:
        first = self.leased(by="the-first")
        self.settle(first, Release({"why": "shutdown"}))
        (second,) = self.claim()
        lost = mistaken(second, **wrong).fence
        reply = self.beat(lost, second.fence, lease=HOUR)
        assert reply.lost == [lost]
        assert self.job(second.fence.id).lease_until == self.now + HOUR

    def test_a_lease_that_was_taken_over_is_lost(self) -> None:
        lease = self.leased()
        self.advance(HOUR)
        self.settle(lease, Release({"loss": 1}), by="the-reclaimer")
        assert self.beat(lease.fence).lost == [lease.fence]
        (again,) = self.claim(by="another")
        assert self.beat(lease.fence).lost == [lease.fence]
        assert self.job(again.fence.id).lease_until == again.until

    @pytest.mark.parametrize("decision", [Succeed("1"), retrying()], ids=["succeeded", "waiting"])
    def test_a_settled_attempt_is_no_longer_held(self, decision: Succeed) -> None:
        lease = self.leased()
        self.settle(lease, decision)
        assert self.beat(lease.fence).lost == [lease.fence]
        assert self.job(lease.fence.id).lease_until is None

    # Cancellation

    def test_a_beat_names_the_jobs_to_stop_until_they_have_stopped(self) -> None:
        mine, others, other_wish = self.leased(), self.leased(by="another"), self.leased()
        for lease in (mine, others):
            self.move(Move.MANUAL_CANCEL, lease.fence.id)
        for _ in range(2):
            reply = self.beat(mine.fence, other_wish.fence)
            assert (reply.cancelled, reply.lost) == ([mine.fence], [])
        self.settle(mine, retrying())
        assert self.beat().cancelled == []

    def test_a_job_to_be_stopped_keeps_its_lease_until_then(self) -> None:
        lease = self.leased()
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        self.beat(lease.fence, lease=HOUR)
        job = self.job(lease.fence.id)
        assert (job.state, job.lease_until, job.cancel_requested) == (State.RUNNING, self.now + HOUR, True)

    # Progress

    def test_progress_is_stored_without_an_event(self) -> None:
        lease = self.leased()
        written = self.store.last_position()
        self.beat(progress=[ReportedProgress(lease.fence, 0.75, "three of four")])
        job = self.job(lease.fence.id)
        assert (job.progress, job.progress_text) == (0.75, "three of four")
        assert self.store.last_position() == written

    @pytest.mark.parametrize("wrong", WRONG, ids=str)
    def test_progress_of_a_lost_attempt_is_not_shown(self, wrong: dict[str, object]) -> None:
        first = self.leased(by="the-first")
        self.settle(first, Release({"why": "shutdown"}))
        (second,) = self.claim()
        self.beat(progress=[ReportedProgress(mistaken(second, **wrong).fence, 0.9, "late")])
        assert self.job(second.fence.id).progress == 0

    # Workers

    def test_a_worker_is_seen_from_its_first_beat_until_it_leaves(self) -> None:
        assert self.store.workers() == []
        start = self.now
        self.beat(by="a")
        self.advance(MINUTE)
        self.beat(by="b")
        self.beat(by="a")
        first, second = self.store.workers()
        assert (first.incarnation, first.started_at, first.seen_at) == ("a", start, self.now)
        assert (second.incarnation, second.started_at, second.seen_at) == ("b", self.now, self.now)
        assert (first.host, first.pid, first.queues, first.kinds, first.concurrency) == (
            "host",
            7,
            ("default",),
            worker().kinds,
            3,
        )
        self.store.leave("a")
        assert [seen.incarnation for seen in self.store.workers()] == ["b"]

    def test_a_worker_that_leaves_twice_or_never_came_is_no_error(self) -> None:
        self.beat()
        for _ in range(2):
            self.store.leave(WORKER)
        self.store.leave("never-came")
        assert self.store.workers() == []

    def test_a_worker_that_leaves_keeps_its_leases(self) -> None:
        lease = self.leased()
        self.beat()
        self.store.leave(WORKER)
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    # Adoption

    def test_a_worker_that_fell_silent_is_shown_for_an_hour_and_then_forgotten(self) -> None:
        self.beat(by="silent")
        self.advance(HOUR)
        self.beat(by="alive")
        assert [seen.incarnation for seen in self.store.workers()] == ["silent", "alive"]
        self.advance(EVERY)
        self.beat(by="alive")
        assert [seen.incarnation for seen in self.store.workers()] == ["alive"]

    def test_only_leases_of_closed_claims_are_adopted(self) -> None:
        self.store.enqueue([self.new() for _ in range(3)])
        closed, last, on_the_wire = (self.claim(limit=1, number=number) for number in (4, 5, 6))
        assert on_the_wire
        assert self._adopted(before=6) == [closed[0].fence, last[0].fence]
        assert self._adopted(before=5) == [closed[0].fence]

    def test_leases_that_are_held_are_not_adopted(self) -> None:
        self.store.enqueue([self.new() for _ in range(2)])
        held, lost_sight_of = self.claim(number=1)
        assert self._adopted(before=2, held=[held.fence]) == [lost_sight_of.fence]

    def test_only_its_own_leases_are_adopted(self) -> None:
        self.leased(by="another")
        assert self._adopted(before=1_000) == []

    def test_what_was_settled_or_taken_is_not_adopted(self) -> None:
        done, taken = self.leased(), self.leased()
        self.settle(done, Succeed("1"))
        self.advance(MINUTE + INSTANT)
        self.settle(taken, Release({"loss": 1}), by="the-reclaimer")
        self.claim(by="another")
        assert self._adopted(before=1_000) == []

    def test_an_adopted_lease_is_as_good_as_the_claimed_one(self) -> None:
        lease = self.leased(arguments='{"a":1}')
        (adopted,) = self.store.adopt(WORKER, before=1_000, held=[])
        assert (adopted.fence, adopted.arguments, adopted.until) == (lease.fence, '{"a":1}', lease.until)
        assert (adopted.claimed_at, adopted.job) == (lease.claimed_at, lease.job)
        assert self.settle(adopted, Succeed("1")) is Settled.ACCEPTED
        assert self.settle(lease, Succeed("1")) is Settled.REPEATED

    def _adopted(self, *, before: int, held: list[Fence] | None = None) -> list[Fence]:
        return _fences(self.store.adopt(WORKER, before=before, held=held or []))

    def _overdue_fences(self) -> list[Fence]:
        return _fences(self.store.overdue(besides="no worker", limit=10))


def _fences(leases: list[Lease]) -> list[Fence]:
    return sorted((lease.fence for lease in leases), key=lambda fence: fence.claim)
