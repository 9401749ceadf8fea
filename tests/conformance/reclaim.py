"""Reclaim: only what expired, decided by the statement that takes it; and expire, for deadlines that passed."""

import pytest

from conformance.bench import HOUR, INSTANT, MINUTE, SECOND, Bench, at_once, failing, retrying, verdict
from mulligan.failure.decision import Decision, Fail, Release, Succeed
from mulligan.failure.verdict import Ledger, deadline_passed
from mulligan.lifecycle import REFUSED, Move, State
from mulligan.records.job import Lease
from mulligan.store.messages import Settled
from mulligan.store.store import Store

RECLAIMER = "the-reclaimer"
LOST = verdict("WORKER_LOST", ledger=Ledger.LOSSES)
BACK = Release({"loss": 1, "of": 10}, ledger=Ledger.LOSSES, verdict=LOST)


class ReclaimRules(Bench):
    def test_only_expired_leases_are_overdue(self) -> None:
        short, _ = self.leased(lease=MINUTE), self.leased(lease=HOUR)
        self.advance(MINUTE)
        assert self._overdue() == []
        self.advance(INSTANT)
        assert self._overdue() == [short.fence.id]

    def test_an_overdue_lease_is_handed_out_whole(self) -> None:
        lease = self.leased(arguments='{"a":1}')
        self.advance(HOUR)
        (found,) = self.store.overdue(besides=RECLAIMER, limit=10)
        assert (found.fence, found.kind, found.arguments) == (lease.fence, lease.kind, '{"a":1}')
        assert (found.claimed_at, found.until, found.job) == (lease.claimed_at, lease.until, lease.job)

    def test_the_longest_overdue_are_handed_out_first_and_not_more_than_wanted(self) -> None:
        leases = [self.leased(lease=number * MINUTE) for number in (3, 1, 2)]
        self.advance(HOUR)
        assert {lease.fence for lease in self.store.overdue(besides=RECLAIMER, limit=2)} == {
            leases[1].fence,
            leases[2].fence,
        }

    def test_no_worker_reclaims_its_own_leases(self) -> None:
        mine, other = self.leased(by=RECLAIMER), self.leased(by="another")
        self.advance(HOUR)
        assert self._overdue() == [other.fence.id]
        assert self.job(mine.fence.id).state is State.RUNNING

    def test_a_lease_that_has_not_expired_cannot_be_taken(self) -> None:
        lease = self.leased()
        before = self.job(lease.fence.id)
        self.advance(MINUTE)
        assert self.settle(lease, BACK, by=RECLAIMER) is Settled.REFUSED
        assert self.job(before.id) == before
        assert REFUSED not in self.types(before.id)

    def test_a_beat_between_looking_and_taking_wins(self) -> None:
        self._beat_wins(self.store)

    def test_a_beat_on_another_connection_between_looking_and_taking_wins(self) -> None:
        self._beat_wins(self.twin())

    def _beat_wins(self, store: Store) -> None:
        lease = self.leased()
        self.advance(HOUR)
        (seen,) = self.store.overdue(besides=RECLAIMER, limit=10)
        self.beat(lease.fence, store=store)
        assert self.settle(seen, BACK, by=RECLAIMER) is Settled.REFUSED
        job = self.job(lease.fence.id)
        assert (job.state, job.losses, job.lease_until) == (State.RUNNING, 0, self.now + MINUTE)
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    def test_a_beat_between_looking_and_taking_wins_though_the_clock_stepped_beyond_it(self) -> None:
        """The reclaimer is stopped after its look: what it saw expired is extended, then the store's clock steps."""
        lease = self.leased()
        self.advance(HOUR)
        (seen,) = self.store.overdue(besides=RECLAIMER, limit=10)
        self.beat(lease.fence)
        self.advance(HOUR)
        assert self.settle(seen, BACK, by=RECLAIMER) is Settled.REFUSED
        assert self.beat(lease.fence).lost == []
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    def test_a_lease_that_expires_again_is_taken_by_another_look(self) -> None:
        lease = self.leased()
        self.advance(HOUR)
        self.beat(lease.fence)
        self.advance(HOUR)
        (seen,) = self.store.overdue(besides=RECLAIMER, limit=10)
        assert self.settle(lease, BACK, by=RECLAIMER) is Settled.REFUSED, "not what is in the store"
        assert self.settle(seen, BACK, by=RECLAIMER) is Settled.ACCEPTED

    def test_a_settle_between_looking_and_taking_wins(self) -> None:
        lease = self.leased()
        self.advance(HOUR)
        (seen,) = self.store.overdue(besides=RECLAIMER, limit=10)
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED
        assert self.settle(seen, BACK, by=RECLAIMER) is Settled.REFUSED
        assert self.job(lease.fence.id).result == 1

    def test_a_lost_job_goes_back_to_the_queue_and_the_loss_is_counted(self) -> None:
        lease = self._reclaimed(BACK)
        job = self.job(lease.fence.id)
        assert (job.state, job.losses, job.failures, job.attempt) == (State.QUEUED, 1, 0, 1)
        event = self.events(job.id)[-1]
        assert (event.type, event.attempt, event.code) == ("job.released", 1, "WORKER_LOST")
        assert (event.data["worker"], event.data["by"]) == (lease.fence.incarnation, RECLAIMER)
        assert event.data["reasons"] == {"loss": 1, "of": 10}

    @pytest.mark.parametrize(
        ("decision", "state"),
        [(Fail(LOST, {"loss": 10}), State.FAILED), (retrying(), State.WAITING)],
        ids=["at the limit", "timed out"],
    )
    def test_a_reclaimer_may_decide_anything(self, decision: Decision, state: State) -> None:
        assert self.job(self._reclaimed(decision).fence.id).state is state

    def test_the_late_result_of_a_lost_worker_is_refused_and_seen(self) -> None:
        lease = self._reclaimed(BACK)
        before = self.job(lease.fence.id)
        for _ in range(2):
            assert self.settle(lease, Succeed("1")) is Settled.REFUSED
        assert self.job(lease.fence.id) == before
        assert self.types(before.id).count(REFUSED) == 1

    def test_a_lost_worker_does_not_disturb_the_next(self) -> None:
        lease = self._reclaimed(BACK)
        (again,) = self.claim(by="another")
        assert self.settle(lease, Succeed('"late"')) is Settled.REFUSED
        assert self.settle(again, Succeed('"right"')) is Settled.ACCEPTED
        assert self.settle(lease, Succeed('"late"')) is Settled.REFUSED
        job = self.job(lease.fence.id)
        assert (job.result, job.losses) == ("right", 0)
        assert self.types(job.id).count(REFUSED) == 1

    def test_the_holder_of_an_expired_lease_that_was_not_reclaimed_may_settle(self) -> None:
        lease = self.leased()
        self.advance(HOUR)
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    def test_of_two_reclaimers_one_takes_it(self) -> None:
        lease = self.leased()
        self.advance(HOUR)
        twin = self.twin()
        answers = at_once(
            [
                lambda: self.settle(lease, BACK, by="one"),
                lambda: self.settle(lease, BACK, by="two", store=twin),
            ]
        )
        assert sorted(map(str, answers)) == ["accepted", "refused"]
        assert self.job(lease.fence.id).losses == 1
        assert REFUSED not in self.types(lease.fence.id)

    def test_a_reclaim_can_be_repeated(self) -> None:
        lease = self._reclaimed(BACK)
        assert self.settle(lease, BACK, by=RECLAIMER) is Settled.REPEATED
        self.claim(by="another")
        assert self.settle(lease, BACK, by=RECLAIMER) is Settled.REPEATED
        assert self.job(lease.fence.id).losses == 1

    def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(self) -> None:
        lease = self.leased()
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        self.advance(HOUR)
        assert self.settle(lease, BACK, by=RECLAIMER) is Settled.ACCEPTED
        assert self.job(lease.fence.id).state is State.CANCELLED

    def _reclaimed(self, decision: Decision) -> Lease:
        lease = self.leased()
        self.advance(HOUR)
        assert self.settle(lease, decision, by=RECLAIMER) is Settled.ACCEPTED
        return lease

    def _overdue(self) -> list[str]:
        return [lease.fence.id for lease in self.store.overdue(besides=RECLAIMER, limit=10)]

    # Expire

    @pytest.mark.parametrize("state", [State.WAITING, State.QUEUED])
    def test_a_job_whose_deadline_passed_before_it_ran_fails_visibly(self, state: State) -> None:
        job = self.in_state(state, deadline=MINUTE)
        self.advance(MINUTE - INSTANT)
        assert self.store.expire(deadline_passed(), limit=10) == 0
        self.advance(INSTANT)
        assert self.store.expire(deadline_passed(), limit=10) == 1
        now = self.job(job.id)
        assert (now.state, now.error_code, now.error_class) == (State.FAILED, "DEADLINE", "final")
        assert (now.error_message, now.finished_at, now.failures) == (deadline_passed().message, self.now, 0)
        event = self.events(job.id)[-1]
        assert (event.type, event.code, event.data["message"]) == ("job.failed", "DEADLINE", now.error_message)
        assert self.store.expire(deadline_passed(), limit=10) == 0

    def test_a_job_that_waits_for_a_retry_expires_too(self) -> None:
        lease = self.leased(deadline=MINUTE)
        self.settle(lease, retrying(HOUR))
        self.advance(MINUTE)
        assert self.store.expire(deadline_passed(), limit=10) == 1
        job = self.job(lease.fence.id)
        assert (job.error_code, job.failures, job.attempt) == ("DEADLINE", 1, 1)
        assert self.settle(lease, retrying(HOUR)) is Settled.REPEATED

    def test_a_running_job_is_not_expired(self) -> None:
        lease = self.leased(deadline=MINUTE)
        self.advance(HOUR)
        assert self.store.expire(deadline_passed(), limit=10) == 0
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    def test_jobs_expire_oldest_deadline_first_and_not_more_than_wanted(self) -> None:
        minutes = (3, 1, 2, 4)
        jobs = {number: self.enqueue(deadline=number * MINUTE).id for number in minutes}
        self.advance(HOUR)
        assert [self.store.expire(deadline_passed(), limit=2) for _ in range(3)] == [2, 2, 0]
        expired = [event.job for event in self.events() if event.code == "DEADLINE"]
        assert {*expired[:2]} == {jobs[1], jobs[2]}

    def test_a_job_without_a_deadline_never_expires(self) -> None:
        self.enqueue()
        self.in_state(State.FAILED, deadline=SECOND)
        self.advance(1_000 * HOUR)
        assert self.store.expire(deadline_passed(), limit=10) == 0

    def test_a_failed_job_keeps_its_error_when_its_deadline_passes(self) -> None:
        job = self._failed_with_deadline()
        self.advance(HOUR)
        self.store.expire(deadline_passed(), limit=10)
        assert self.job(job).error_code == "GW_4XX"

    def _failed_with_deadline(self) -> str:
        lease = self.leased(deadline=MINUTE)
        self.settle(lease, failing("GW_4XX"))
        return lease.fence.id
