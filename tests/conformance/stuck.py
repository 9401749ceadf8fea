"""Stuck: an attempt that runs beyond its limit is taken from a worker that still holds it, by the settle itself."""

from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest

from conformance.bench import (
    DAY,
    HOUR,
    INSTANT,
    KIND,
    MINUTE,
    SECOND,
    Bench,
    at_once,
    failing,
    retrying,
)
from mulligan.console.stuck import StuckJobs
from mulligan.duties.reclaim import STUCK_SECONDS, Reclaim
from mulligan.errors import IllegalMove, JobNotFound, StillRunning
from mulligan.failure.decision import Decision, Succeed
from mulligan.failure.error_codes import Catalogue
from mulligan.failure.policy import RetryPolicy
from mulligan.judge import Judge
from mulligan.lifecycle import REFUSED, Move, State
from mulligan.records.job import Lease
from mulligan.store.messages import Outcome, Settled
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.testing.virtual import VirtualClock

LIMIT = 30 * MINUTE
LATE = retrying(MINUTE, "TIMEOUT")
RECLAIMER = "the-reclaimer"


class Stepping(VirtualClock):
    """The clock of a process. When it is read, the clock of the store steps."""

    def __init__(self, theirs: VirtualClock, by: timedelta, ours: VirtualClock) -> None:
        super().__init__()
        self._theirs = theirs
        self._by = by
        self._ours = ours

    def monotonic(self) -> float:
        self._theirs.advance(self._by)
        return self._ours.monotonic()


class StuckRules(Bench):
    # Which are

    def test_a_job_is_stuck_when_its_attempt_runs_longer_than_the_limit(self) -> None:
        lease = self._kept(LIMIT)
        assert self._stuck() == []
        self.advance(INSTANT)
        assert self._stuck() == [lease.fence.id]

    @pytest.mark.parametrize(("timeout", "limit"), [(MINUTE, LIMIT), (2 * HOUR, 2 * HOUR), (None, LIMIT)])
    def test_a_longer_timeout_of_its_own_counts_instead(self, timeout: timedelta | None, limit: timedelta) -> None:
        lease = self._kept(limit, timeout=timeout)
        assert self.job(lease.fence.id).timeout == timeout
        assert self._stuck() == []
        self.advance(INSTANT)
        assert self._stuck() == [lease.fence.id]

    def test_each_attempt_has_its_own_time(self) -> None:
        lease = self._kept(HOUR)
        self.settle(lease, retrying(SECOND))
        self.advance(SECOND)
        (again,) = self.claim(lease=DAY)
        assert self._stuck() == []
        self.advance(HOUR)
        assert self._stuck() == [again.fence.id]

    def test_only_running_jobs_are_stuck(self) -> None:
        for state in State:
            if state is not State.RUNNING:
                self.in_state(state, kind=f"{KIND}-{state}")
        self.advance(DAY)
        assert self._stuck() == []

    def test_a_stuck_lease_is_handed_out_whole_and_the_longest_running_first(self) -> None:
        first = self.leased(arguments='{"a":1}', lease=DAY)
        self.advance(SECOND)
        second = self.leased(lease=DAY)
        self.advance(HOUR)
        found = self.store.stuck(after=LIMIT, limit=10)
        assert {lease.fence for lease in found} == {first.fence, second.fence}
        assert self._stuck(limit=1) == [first.fence.id]
        assert found[0].job == self.job(found[0].fence.id)

    def test_they_are_found_by_job_and_by_owner(self) -> None:
        mine, other = self.leased(owner="acme", lease=DAY), self.leased(lease=DAY)
        self.advance(HOUR)
        assert self._stuck(owner="acme") == [mine.fence.id]
        assert self._stuck(job=other.fence.id) == [other.fence.id]
        assert self._stuck(job=other.fence.id, owner="acme") == []

    # Taking

    def test_a_stuck_job_is_taken_though_its_worker_still_beats(self) -> None:
        lease = self._kept(HOUR)
        self.beat(lease.fence)
        assert self._take(lease, LATE) is Settled.ACCEPTED
        job = self.job(lease.fence.id)
        assert (job.state, job.waiting_for, job.failures, job.losses) == (State.WAITING, "retry", 1, 0)
        event = self.events(job.id)[-1]
        assert (event.type, event.code, event.actor) == ("job.retried", "TIMEOUT", "ann")

    def test_its_worker_learns_of_it_and_its_late_result_is_refused_and_logged(self) -> None:
        lease = self._kept(HOUR)
        self._take(lease, failing("TIMEOUT"))
        assert self.beat(lease.fence).lost == [lease.fence]
        for _ in range(2):
            assert self.settle(lease, Succeed("1")) is Settled.REFUSED
        assert self.job(lease.fence.id).state is State.FAILED
        assert self.types(lease.fence.id).count(REFUSED) == 1

    @pytest.mark.parametrize("timeout", [None, 2 * HOUR])
    def test_a_job_that_is_not_stuck_cannot_be_taken(self, timeout: timedelta | None) -> None:
        lease = self.leased(lease=MINUTE, timeout=timeout)
        before = self.job(lease.fence.id)
        # Its lease has expired, but that is the reclaimer's business.
        self.advance(LIMIT if timeout is None else timeout)
        assert self._take(lease, LATE) is Settled.REFUSED
        assert self.job(lease.fence.id) == before
        assert REFUSED not in self.types(before.id)

    def test_an_attempt_that_ended_between_looking_and_taking_is_left_alone(self) -> None:
        lease = self._kept(HOUR)
        (seen,) = self.store.stuck(after=LIMIT)
        assert self.settle(lease, retrying(SECOND)) is Settled.ACCEPTED
        self.advance(SECOND)
        (again,) = self.claim(lease=DAY)
        assert self._take(seen, failing("TIMEOUT")) is Settled.REFUSED
        self.advance(HOUR)
        assert self._take(seen, failing("TIMEOUT")) is Settled.REFUSED, "another attempt, stuck or not"
        assert self.settle(again, Succeed("1")) is Settled.ACCEPTED

    def test_a_taking_can_be_repeated(self) -> None:
        lease = self._kept(HOUR)
        assert self._take(lease, LATE) is Settled.ACCEPTED
        assert self._take(lease, LATE) is Settled.REPEATED
        assert self.job(lease.fence.id).failures == 1

    def test_a_worker_and_a_person_at_once_settle_it_once(self) -> None:
        twin = self.twin()
        for _ in range(5):
            lease = self._kept(HOUR)
            answers = at_once(
                [
                    lambda lease=lease: self.settle(lease, Succeed("1")),  # type: ignore[misc]
                    lambda lease=lease: self._take(lease, failing("TIMEOUT"), store=twin),  # type: ignore[misc]
                ]
            )
            assert sorted(map(str, answers)) == ["accepted", "refused"]
            state = self.job(lease.fence.id).state
            assert state is (State.SUCCEEDED if answers[0] is Settled.ACCEPTED else State.FAILED)

    # Manual retry

    def test_a_stuck_job_is_retried_manually_in_one_step(self) -> None:
        lease = self._kept(HOUR)
        job = self._retry(lease, LATE)
        assert (job.state, job.failures, job.manual_retries, job.trigger) == (State.QUEUED, 0, 1, "manual")
        assert self.types(job.id)[-3:] == ["job.retried", "job.retry_requested", "job.queued"]
        (again,) = self.claim()
        assert again.fence.attempt == 2
        assert self.settle(lease, Succeed('"late"')) is Settled.REFUSED
        assert self.settle(again, Succeed('"right"')) is Settled.ACCEPTED
        assert self.job(job.id).result == "right"

    @pytest.mark.parametrize("decision", [LATE, failing("TIMEOUT")], ids=["it would be retried", "it would fail"])
    def test_whatever_its_policy_says_it_is_retried(self, decision: Decision) -> None:
        assert self._retry(self._kept(HOUR), decision).state is State.QUEUED

    def test_a_stuck_job_that_was_to_be_cancelled_is_retried_all_the_same(self) -> None:
        lease = self._kept(HOUR)
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        job = self._retry(lease, LATE)
        assert (job.state, job.cancel_requested) == (State.QUEUED, False)

    def test_a_running_job_that_is_not_stuck_stays_with_its_worker(self) -> None:
        lease = self.leased()
        before = self.job(lease.fence.id)
        with pytest.raises(
            StillRunning, match="it is running; a running job can be: cancel, or retry once it is stuck"
        ):
            self._retry(lease, LATE)
        assert self.job(before.id) == before
        assert self.types(before.id) == ["job.enqueued", "job.started"]
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    def test_a_worker_that_settled_just_before_wins(self) -> None:
        lease = self._kept(HOUR)
        self.settle(lease, Succeed("1"))
        with pytest.raises(IllegalMove, match="it is succeeded") as refusal:
            self._retry(lease, failing("TIMEOUT"))
        assert not isinstance(refusal.value, StillRunning)
        assert self.job(lease.fence.id).result == 1
        assert REFUSED not in self.types(lease.fence.id)

    def test_a_job_that_failed_just_before_is_retried(self) -> None:
        lease = self._kept(HOUR)
        self.settle(lease, failing())
        job = self._retry(lease, LATE)
        assert (job.state, job.manual_retries) == (State.QUEUED, 1)
        assert "TIMEOUT" not in [event.code for event in self.events(job.id)]

    def test_two_callers_at_once_retry_it_once(self) -> None:
        lease = self._kept(HOUR)
        twin = self.twin()
        answers = at_once([lambda: self._retry(lease, LATE), lambda: self._retry(lease, LATE, actor="bob", store=twin)])
        assert sorted(type(answer).__name__ for answer in answers) == ["IllegalMove", "Job"]
        assert self.types(lease.fence.id).count("job.retry_requested") == 1
        assert len(self.claim()) == 1

    def test_a_settle_and_a_manual_retry_at_once_end_in_one_of_two_ways(self) -> None:
        twin = self.twin()
        for _ in range(5):
            lease = self._kept(HOUR)
            settled, retried = at_once(
                [
                    lambda lease=lease: self.settle(lease, Succeed("1")),  # type: ignore[misc]
                    lambda lease=lease: self._retry(lease, LATE, store=twin),  # type: ignore[misc]
                ]
            )
            job = self.job(lease.fence.id)
            if settled is Settled.ACCEPTED:
                assert isinstance(retried, IllegalMove)
                assert job.state is State.SUCCEEDED
            else:
                assert (settled, job.state) == (Settled.REFUSED, State.QUEUED)
            self.claim()

    def test_the_same_request_takes_only_once(self) -> None:
        lease = self._kept(HOUR)
        request = self.request(Move.MANUAL_RETRY, lease.fence.id, first=self._outcome(lease, LATE))
        first = self.store.move(request)
        (again,) = self.claim(lease=DAY)
        self.advance(HOUR)
        assert self.store.move(request).attempt == 2
        assert self.settle(again, Succeed("1")) is Settled.ACCEPTED
        assert first.state is State.QUEUED

    def test_another_owners_stuck_job_is_neither_taken_nor_found(self) -> None:
        lease = self._kept(HOUR, owner="acme")
        with pytest.raises(JobNotFound):
            self.move(Move.MANUAL_RETRY, lease.fence.id, owner="other", first=self._outcome(lease, LATE))
        assert self.job(lease.fence.id).state is State.RUNNING

    # The duty of a worker

    def test_a_reclaimer_takes_a_stuck_job(self) -> None:
        lease = self._kept(LIMIT)
        assert self._pass_of_reclaimer(step=timedelta(0)) == 1
        assert self.job(lease.fence.id).last_code == "TIMEOUT"

    def test_a_clock_that_steps_while_a_reclaimer_is_stopped_makes_no_job_stuck(self) -> None:
        """It is stopped between its look at the store's clock and its look for stuck jobs."""
        lease = self._kept(MINUTE)
        assert self._pass_of_reclaimer(step=LIMIT) == 0
        assert self.beat(lease.fence).lost == []
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    def _pass_of_reclaimer(self, *, step: timedelta) -> int:
        """Two passes of a reclaimer that settles stuck jobs. During the second, the store's clock steps."""
        judge = Judge(Registry(), rules=(), catalogue=Catalogue.default(), default=RetryPolicy(), draw=Random(1).random)
        jobs, ours = StuckJobs(lambda: self.store, judge, lambda: LIMIT), VirtualClock()
        reclaim = Reclaim(
            self.store,
            judge=judge,
            clock=ours,
            incarnation=RECLAIMER,
            interval=STUCK_SECONDS,
            beat=1.0,
            stuck_after=LIMIT,
            take_stuck=partial(jobs.settle, worker=RECLAIMER),
        )
        reclaim.step()
        for clock in (self.clock, ours):
            clock.advance(timedelta(seconds=STUCK_SECONDS))
        # It reads its own clock right after the store's.
        reclaim.clock = Stepping(self.clock, step, ours)
        return reclaim.step()

    def test_a_worker_that_takes_its_own_attempt_after_another_took_it_is_refused(self) -> None:
        """The event of that settle names the worker too: as the one that lost the attempt."""
        lease = self._kept(HOUR)
        self._take(lease, retrying(SECOND))
        self.advance(SECOND)
        (again,) = self.claim(lease=DAY)
        self.settle(again, Succeed("1"))
        own = Outcome(lease, LATE, reclaimed_by=lease.fence.incarnation, stuck_after=LIMIT)
        assert self.store.settle([own]) == [Settled.REFUSED]

    # Words

    def _kept(self, running: timedelta, **options: Any) -> Lease:
        """A job that has been running for so long; its lease lasts."""
        lease = self.leased(lease=10 * DAY, **options)
        self.advance(running)
        return lease

    def _stuck(self, **options: Any) -> list[str]:
        return [lease.fence.id for lease in self.store.stuck(after=LIMIT, **options)]

    def _outcome(self, lease: Lease, decision: Decision, actor: str = "ann") -> Outcome:
        return Outcome(lease, decision, reclaimed_by=f"by hand, {actor}", stuck_after=LIMIT, actor=actor)

    def _take(self, lease: Lease, decision: Decision, *, store: Store | None = None) -> Settled:
        (answer,) = (store or self.store).settle([self._outcome(lease, decision)])
        return answer

    def _retry(self, lease: Lease, decision: Decision, *, actor: str = "ann", store: Store | None = None) -> Any:
        first = self._outcome(lease, decision, actor)
        return self.move(Move.MANUAL_RETRY, lease.fence.id, actor=actor, first=first, store=store)
