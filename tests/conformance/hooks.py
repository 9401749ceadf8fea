"""Hooks: a final failure has one follow-up, whichever operation fails the job. Attempts record their version."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from conformance.bench import HOUR, KIND, MINUTE, SECOND, Bench, at_once, failing, retrying, verdict
from mulligan.failure.decision import Cancel, Decision, Fail, Postpone, Release, Succeed
from mulligan.failure.verdict import deadline_passed, worker_lost
from mulligan.lifecycle import Move, State
from mulligan.records.batch import NewBatch
from mulligan.records.job import ANY_ID, FollowUp, Job, JobFilter
from mulligan.store.messages import Outcome, Settled

CLEANUP = "clean up"

NOT_FAILED: dict[str, Decision] = {
    "succeed": Succeed("1"),
    "retry": retrying(),
    "snooze": Postpone(MINUTE, verdict("SNOOZED"), {}),
    "release": Release({}),
    "cancel": Cancel({}),
}


def follow_up(kind: str = CLEANUP, **options: Any) -> FollowUp:
    values = {
        "kind": kind,
        "arguments": msgspec.json.encode({"job": ANY_ID}).decode(),
        "queue": "default",
        "service": "",
        "priority": 0,
        "deadline": None,
        "max_attempts": 4,
        "max_crashes": 3,
        "max_snoozes": 100,
        "timeout": None,
        "cost": 0,
    }
    return FollowUp(**{**values, **options})


class HookRules(Bench):
    # What follows

    def test_a_failure_for_good_stores_the_job_that_follows_it(self) -> None:
        lease = self.leased(owner="acme", on_failed=follow_up())
        assert self.settle(lease, failing()) is Settled.ACCEPTED
        (found,) = self._followed(lease.fence.id)
        assert (found.state, found.owner, found.attempt, found.enqueued_at) == (State.QUEUED, "acme", 0, self.now)
        assert self.types(found.id) == ["job.enqueued"]
        assert [taken.fence.id for taken in self.claim(CLEANUP)] == [found.id]

    def test_it_has_the_limits_and_the_queue_of_its_own_task(self) -> None:
        mine = follow_up(
            queue="bulk", service="mail", priority=7, max_attempts=2, max_crashes=1, max_snoozes=5, timeout=HOUR, cost=3
        )
        lease = self.leased(on_failed=mine, max_attempts=9, tags=("eu",))
        self.settle(lease, failing())
        (found,) = self._followed(lease.fence.id)
        assert (found.queue, found.service, found.priority, found.cost, found.timeout) == ("bulk", "mail", 7, 3, HOUR)
        assert (found.max_attempts, found.max_crashes, found.max_snoozes, found.tags) == (2, 1, 5, ())

    def test_its_deadline_counts_from_the_failure(self) -> None:
        lease = self.leased(on_failed=follow_up(deadline=HOUR))
        self.advance(SECOND)
        self.settle(lease, failing())
        (found,) = self._followed(lease.fence.id)
        assert found.deadline == self.now + HOUR

    @pytest.mark.parametrize("name", NOT_FAILED)
    def test_nothing_follows_what_is_no_failure_for_good(self, name: str) -> None:
        lease = self.leased(on_failed=follow_up())
        assert self.settle(lease, NOT_FAILED[name]) is Settled.ACCEPTED
        assert self._followed(lease.fence.id) == []

    def test_nothing_follows_a_job_that_asks_for_nothing(self) -> None:
        self.settle(self.leased(), failing())
        assert len(self.store.jobs(JobFilter()).jobs) == 1

    def test_a_wish_to_cancel_that_wins_over_a_retry_is_no_failure(self) -> None:
        lease = self.leased(on_failed=follow_up())
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        self.settle(lease, retrying())
        assert (self.job(lease.fence.id).state, self._followed(lease.fence.id)) == (State.CANCELLED, [])

    # Once

    def test_a_settle_that_is_repeated_brings_no_second_one(self) -> None:
        lease = self.leased(on_failed=follow_up())
        answers = [self.settle(lease, failing()) for _ in range(3)]
        assert answers == [Settled.ACCEPTED, Settled.REPEATED, Settled.REPEATED]
        assert len(self._followed(lease.fence.id)) == 1

    def test_a_settle_that_comes_too_late_brings_none(self) -> None:
        late = self.leased(on_failed=follow_up())
        self.settle(late, retrying(SECOND))
        self.advance(MINUTE)
        (newest,) = self.claim(by="worker-2")
        assert self.settle(late, failing()) is not Settled.ACCEPTED
        assert self._followed(late.fence.id) == []
        self.settle(newest, failing())
        assert len(self._followed(late.fence.id)) == 1

    def test_several_failures_of_one_settle_are_each_followed_by_their_own(self) -> None:
        for _ in range(3):
            self.enqueue(on_failed=follow_up())
        plain, leases = self.enqueue(), self.claim()
        decisions = [failing() if n % 2 == 0 else Succeed("1") for n in range(len(leases))]
        outcomes = [Outcome(lease, decision) for lease, decision in zip(leases, decisions, strict=True)]
        assert set(self.store.settle(outcomes)) == {Settled.ACCEPTED}
        for lease, decision in zip(leases, decisions, strict=True):
            is_followed = isinstance(decision, Fail) and lease.fence.id != plain.id
            assert len(self._followed(lease.fence.id)) == int(is_followed)

    def test_each_further_failure_after_a_manual_retry_is_followed_again(self) -> None:
        lease = self.leased(on_failed=follow_up())
        self.settle(lease, failing())
        for times in (2, 3):
            self.move(Move.MANUAL_RETRY, lease.fence.id)
            (again,) = self.claim()
            self.settle(again, failing())
            assert len(self._followed(lease.fence.id)) == times

    def test_of_many_settles_at_once_one_is_followed(self) -> None:
        lease = self.leased(on_failed=follow_up(), lease=SECOND)
        self.advance(MINUTE)
        stores = [self.store, self.twin()]
        outcomes = [
            Outcome(lease, failing(), reclaimed_by=None if n == 0 else f"reclaimer-{n}") for n in range(2 * len(stores))
        ]
        answers = at_once(
            [
                lambda outcome=outcome, store=stores[n % 2]: store.settle([outcome])  # type: ignore[misc]
                for n, outcome in enumerate(outcomes)
            ]
        )
        assert [answer for answer in answers if answer == [Settled.ACCEPTED]] == [[Settled.ACCEPTED]]
        assert len(self._followed(lease.fence.id)) == 1

    # However it fails

    def test_a_reclaimer_that_does_not_know_the_kind_brings_it_too(self) -> None:
        lease = self.leased(on_failed=follow_up(), lease=SECOND)
        self.advance(MINUTE)
        (found,) = self.store.overdue(besides="reclaimer", limit=5)
        assert self.settle(found, Fail(worker_lost(), {}), by="reclaimer") is Settled.ACCEPTED
        assert len(self._followed(lease.fence.id)) == 1

    def test_so_does_taking_a_stuck_job_away(self) -> None:
        lease = self.leased(on_failed=follow_up(), lease=HOUR)
        self.advance(HOUR / 2)
        outcome = Outcome(lease, failing("TIMEOUT"), reclaimed_by="ann, manually", stuck_after=MINUTE, actor="ann")
        assert self.store.settle([outcome]) == [Settled.ACCEPTED]
        assert len(self._followed(lease.fence.id)) == 1

    def test_so_does_a_manual_retry_that_takes_a_stuck_job_away(self) -> None:
        lease = self.leased(on_failed=follow_up(), lease=HOUR)
        self.advance(HOUR / 2)
        first = Outcome(lease, failing("TIMEOUT"), reclaimed_by="ann, manually", stuck_after=MINUTE)
        request = self.request(Move.MANUAL_RETRY, lease.fence.id, first=first)
        for _ in range(2):
            assert self.store.move(request).state is State.QUEUED
        assert len(self._followed(lease.fence.id)) == 1

    def test_so_does_a_deadline_that_passes_before_the_job_ran(self) -> None:
        jobs = [self.enqueue(deadline=MINUTE, on_failed=follow_up()), self.enqueue(deadline=MINUTE)]
        self.advance(HOUR)
        assert (self.store.expire(deadline_passed(), limit=10), self.store.expire(deadline_passed(), limit=10)) == (
            2,
            0,
        )
        assert [len(self._followed(job.id)) for job in jobs] == [1, 0]

    def test_so_does_an_outcome_that_cannot_be_stored(self) -> None:
        lease, beside = self.leased(on_failed=follow_up()), self.leased("other", on_failed=follow_up())
        outcomes = [Outcome(lease, Fail(verdict(message="\ud800"), {})), Outcome(beside, failing())]
        assert self.store.settle(outcomes) == [Settled.UNSTORABLE, Settled.ACCEPTED]
        assert [len(self._followed(each.fence.id)) for each in (lease, beside)] == [1, 1]

    # After it

    def test_what_follows_may_be_followed_itself(self) -> None:
        lease = self.leased(on_failed=follow_up(on_failed=follow_up("notify")))
        self.settle(lease, failing())
        (first,) = self._followed(lease.fence.id)
        (cleanup,) = self.claim(CLEANUP)
        self.settle(cleanup, failing())
        (second,) = self._followed(first.id)
        assert (second.kind, second.state) == ("notify", State.QUEUED)
        (last,) = self.claim("notify")
        self.settle(last, failing())
        assert len(self.store.jobs(JobFilter()).jobs) == 3

    def test_jobs_of_one_enqueue_each_keep_their_own(self) -> None:
        self.store.enqueue([self.new(on_failed=follow_up()), self.new(), self.new(on_failed=follow_up("other"))])
        for lease in self.claim():
            self.settle(lease, failing())
        assert sorted(job.kind for job in self.store.jobs(JobFilter()).jobs) == sorted([KIND] * 3 + [CLEANUP, "other"])

    # After a cancellation

    @pytest.mark.parametrize("state", [State.WAITING, State.QUEUED])
    def test_a_job_that_is_cancelled_before_it_runs_is_followed_once(self, state: State) -> None:
        job = self.in_state(state, owner="acme", on_cancelled=follow_up(), on_failed=follow_up("other"))
        request = self.request(Move.MANUAL_CANCEL, job.id)
        for _ in range(2):
            assert self.store.move(request).state is State.CANCELLED
        (found,) = self._followed(job.id)
        assert (found.kind, found.state, found.owner) == (CLEANUP, State.QUEUED, "acme")

    def test_a_running_job_is_followed_when_its_attempt_ends_and_not_when_it_is_asked_to_stop(self) -> None:
        lease = self.leased(on_cancelled=follow_up())
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        assert self._followed(lease.fence.id) == []
        assert [self.settle(lease, Cancel({})) for _ in range(2)] == [Settled.ACCEPTED, Settled.REPEATED]
        assert len(self._followed(lease.fence.id)) == 1

    @pytest.mark.parametrize("name", ["retry", "snooze", "release"])
    def test_a_cancel_request_that_takes_precedence_is_followed_once(self, name: str) -> None:
        lease, plain = self.leased(on_cancelled=follow_up()), self.leased("other")
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        outcomes = [Outcome(lease, NOT_FAILED[name]), Outcome(plain, retrying())]
        assert self.store.settle(outcomes) == [Settled.ACCEPTED] * 2
        assert self.store.settle(outcomes) == [Settled.REPEATED] * 2
        assert self.job(lease.fence.id).state is State.CANCELLED
        assert len(self._followed(lease.fence.id)) == 1
        assert self.types(lease.fence.id)[-1] == "job.cancelled"

    @pytest.mark.parametrize("decision", [Succeed("1"), failing()], ids=["succeeds", "fails"])
    def test_a_job_that_ends_in_spite_of_the_request_is_not_followed_as_cancelled(self, decision: Decision) -> None:
        lease = self.leased(on_cancelled=follow_up())
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        self.settle(lease, decision)
        assert self._followed(lease.fence.id) == []

    def test_each_further_cancellation_after_a_manual_retry_is_followed_again(self) -> None:
        job = self.enqueue(on_cancelled=follow_up())
        for times in (1, 2, 3):
            self.move(Move.MANUAL_CANCEL, job.id)
            assert len(self._followed(job.id)) == times
            self.move(Move.MANUAL_RETRY, job.id)

    def test_members_of_an_aborted_batch_are_each_followed_once(self) -> None:
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="b", abort_above=0.0))
        jobs = [self.enqueue(batch=batch.id, on_cancelled=follow_up()) for _ in range(3)]
        self.store.publish(batch.id)
        (lease,) = self.claim(limit=1)
        self.settle(lease, failing())
        for _ in range(2):
            self.store.tend_batches(limit=10)
        assert sorted(len(self._followed(job.id)) for job in jobs) == [0, 1, 1]

    # Versions

    def test_the_version_of_the_app_is_kept_with_each_attempt(self) -> None:
        job = self.enqueue()
        assert job.version is None
        for version in ("1.0", "1.1"):
            (lease,) = self.claim(version=version)
            assert lease.job.version == version
            self.settle(lease, retrying(timedelta(0)))
        starts = [event for event in self.events(job.id) if event.type == "job.started"]
        assert [event.data["version"] for event in starts] == ["1.0", "1.1"]
        assert self.job(job.id).version == "1.1"

    def test_an_app_without_a_version_leaves_none(self) -> None:
        job = self.enqueue()
        (lease,) = self.claim(version="1.0")
        self.settle(lease, retrying(timedelta(0)))
        self.claim()
        assert self.job(job.id).version is None
        assert "version" not in self.events(job.id)[-1].data

    def test_jobs_are_found_by_the_version_of_their_last_attempt(self) -> None:
        old, new, never = self.enqueue(), self.enqueue("other"), self.enqueue("third")
        self.claim(version="1.0")
        self.claim("other", version="1.1")
        found = {version: self.store.jobs(JobFilter(version=version)).jobs for version in ("1.0", "1.1", "1.2")}
        assert {version: [job.id for job in jobs] for version, jobs in found.items()} == {
            "1.0": [old.id],
            "1.1": [new.id],
            "1.2": [],
        }
        assert never.id in {job.id for job in self.store.jobs(JobFilter()).jobs}

    def _followed(self, job_id: str) -> list[Job[Any]]:
        """What followed this job."""
        return [job for job in self.store.jobs(JobFilter(), limit=100).jobs if job.arguments.get("job") == job_id]
