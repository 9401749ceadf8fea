"""Fair queues: owners take turns by their weights, whatever each has waiting; plain queues go by submission. And how
fast an owner may submit."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from conformance.bench import HOUR, INSTANT, KIND, MINUTE, SECOND, Bench, at_once, failing, retrying
from mulligan.errors import SubmitRateExceeded
from mulligan.failure.decision import Succeed
from mulligan.records.job import FollowUp, Job, JobFilter, Lease, NewJob
from mulligan.records.rate import parse_rate
from mulligan.store.messages import Outcome

BULK = "bulk"
MANY = 5_000
BATCH = 100


class FairRules(Bench):
    """Jobs of a fair queue come with a weight, as the client gives it to them."""

    def test_one_owner_with_thousands_of_jobs_delays_another_by_no_more_than_a_batch(self) -> None:
        self._submit("big", MANY)
        self._next(BATCH)
        self.advance(HOUR)
        self._submit("small", 1)
        assert "small" in [lease.owner for lease in self._next(BATCH)]
        # And again, when the queue has been busy for long.
        for _ in range(5):
            self._next(BATCH)
        self._submit("small", 1)
        assert "small" in [lease.owner for lease in self._next(BATCH)]

    def test_owners_with_jobs_waiting_take_turns(self) -> None:
        self._submit("big", 1_000)
        self._next(BATCH)
        self._submit("a", 50)
        self._submit("b", 50)
        assert self._owners(self._next(90)) == {"big": 30, "a": 30, "b": 30}

    @pytest.mark.parametrize("weight", [3, 0.25])
    def test_shares_are_as_the_weights(self, weight: float) -> None:
        self._submit("one", 400)
        self._submit("other", 400, weight=weight)
        found = self._owners(self._next(200))
        assert abs(found["other"] - weight * found["one"]) <= max(1, weight)

    def test_many_owners_in_one_enqueue_get_their_turns(self) -> None:
        names = [f"owner-{n % 50}" for n in range(1_000)]
        self.store.enqueue([self._one_of(name) for name in names])
        for _ in range(4):
            assert set(self._owners(self._next(50)).values()) == {1}

    def test_the_jobs_of_one_owner_stay_in_their_order(self) -> None:
        ids = [job.id for number in (3, 1, 4) for job in self._submit("acme", number, weight=0.3)]
        self._submit("other", 5)
        taken = [lease.fence.id for lease in self._next(100) if lease.owner == "acme"]
        assert taken == ids

    @pytest.mark.parametrize("beats", [0, 1])
    def test_an_owner_that_was_away_gets_no_credit_for_it(self, beats: int) -> None:
        self._submit("early", 10)
        self._submit("steady", 2_000)
        for _ in range(10):
            self._all_succeed(self._next(BATCH))
        for _ in range(beats):
            self.beat()
        self.advance(HOUR)
        self._submit("early", 500)
        found = self._owners(self._next(200))
        assert abs(found["early"] - found["steady"]) <= 1

    def test_an_owner_served_before_the_others_came_owes_them_nothing(self) -> None:
        self._submit("first", 500)
        self._all_succeed(self._next(500))
        self._submit("first", 100)
        self._submit("second", 100)
        assert self._owners(self._next(100)) == {"first": 50, "second": 50}

    def test_a_late_retry_does_not_wait_for_the_jobs_that_came_after_it(self) -> None:
        (job,) = self._submit("acme", 1)
        (lease,) = self._next(1)
        self.settle(lease, retrying(HOUR))
        self._submit("acme", 1_000)
        self._submit("big", 1_000)
        self._next(BATCH)
        self.advance(HOUR)
        assert self._next(1)[0].fence.id == job.id

    def test_a_plain_queue_goes_strictly_by_submission(self) -> None:
        names = ["big"] * 50 + ["small"] + ["big"] * 50
        ids = []
        for name in names:
            ids.append(self.enqueue(owner=name, queue="plain").id)
            self.advance(INSTANT)
        self._submit("small", 3)
        assert [lease.fence.id for lease in self.claim(queues=["plain"], fair=[BULK], limit=200)] == ids

    def test_priorities_go_before_shares(self) -> None:
        low = self._submit("a", 2, priority=10)
        high = self._submit("b", 2, priority=-10)
        assert [lease.fence.id for lease in self._next(9)] == [job.id for job in (*high, *low)]

    def test_fair_and_plain_queues_are_merged_by_time(self) -> None:
        self._submit("big", 1_000)
        self._next(10)
        self.advance(SECOND)
        plain = self.enqueue(queue="plain")
        assert plain.id in [lease.fence.id for lease in self.claim(limit=1_001, fair=[BULK])]
        assert len(self._next(1_000)) == 0
        # No owner took turns for an hour: a job that comes now is not an hour old.
        self.advance(HOUR)
        self.beat()
        earlier = self.enqueue(queue="plain")
        self.advance(SECOND)
        later = self._submit("big", 1)[0]
        self.advance(SECOND)
        assert [lease.fence.id for lease in self.claim(limit=2, fair=[BULK])] == [earlier.id, later.id]

    def test_turns_never_go_back(self) -> None:
        self._submit("acme", 1)
        (late,) = self._next(1)
        self._submit("acme", 300)
        self._all_succeed(self._next(300))
        # It keeps its rank, far below all others; what comes now stands behind what was claimed all the same.
        self.settle(late, retrying(SECOND))
        self.advance(SECOND)
        assert [lease.fence.id for lease in self._next(1)] == [late.fence.id]
        self._submit("acme", 50)
        self._submit("new", 50)
        assert self._owners(self._next(20)) == {"acme": 10, "new": 10}

    def test_a_claim_that_is_repeated_changes_no_turn(self) -> None:
        self._submit("a", 10)
        first = self.claim(queues=[BULK], fair=[BULK], limit=5, number=900)
        again = self.claim(queues=[BULK], fair=[BULK], limit=5, number=900)
        assert [lease.fence for lease in first] == [lease.fence for lease in again]
        self._submit("b", 5)
        assert self._owners(self._next(10)) == {"a": 5, "b": 5}

    def test_a_job_that_is_there_already_takes_no_turn(self) -> None:
        job = self._one_of("acme", dedupe_key="k")
        self.store.enqueue([job])
        for _ in range(100):
            self.store.enqueue([job, self._one_of("acme", dedupe_key="k"), self._one_of("acme", dedupe_key="k")])
        mixed = [self._one_of("acme", dedupe_key="k"), self._one_of("acme"), self._one_of("acme", dedupe_key="k")]
        self.store.enqueue(mixed)
        self._submit("other", 4)
        assert [lease.owner for lease in self._next(5)].count("acme") == 2

    def test_what_follows_a_failure_takes_its_owners_turn(self) -> None:
        follow_up = FollowUp(
            kind=KIND,
            arguments="{}",
            queue=BULK,
            service="",
            priority=0,
            deadline=None,
            max_attempts=1,
            max_crashes=1,
            max_snoozes=1,
            timeout=None,
            cost=0,
            weight=1.0,
        )
        self._submit("acme", 1, on_failed=follow_up)
        (lease,) = self._next(1)
        self._submit("acme", 10)
        self.settle(lease, failing())
        self._submit("other", 11)
        assert self._owners(self._next(20)) == {"acme": 10, "other": 10}

    def test_the_number_ahead_of_a_job_is_by_its_rank(self) -> None:
        self._submit("big", 50)
        (job,) = self._submit("small", 1)
        assert self.store.ahead_of(job, limit=100) <= 1

    def test_a_delayed_job_of_a_fair_queue_is_run_when_it_is_due(self) -> None:
        (job,) = self._submit("acme", 1, delay=MINUTE)
        assert self._next(1) == []
        self.advance(MINUTE)
        assert [lease.fence.id for lease in self._next(1)] == [job.id]

    def test_turns_hold_among_processes(self) -> None:
        twin = self.twin()
        self._submit("big", 200)
        self._next(20, store=twin)
        twin.enqueue([self._one_of("small")])
        assert "small" in [lease.owner for lease in self._next(20)]

    def test_owners_that_enqueue_at_once_neither_deadlock_nor_share_a_rank(self) -> None:
        names = [f"owner-{n}" for n in range(20)]
        batches = [[self._one_of(name) for name in order for _ in range(3)] for order in (names, names[::-1]) * 3]
        answers = at_once([lambda batch=batch: self.store.enqueue(batch) for batch in batches])  # type: ignore[misc]
        assert [len(answer) for answer in answers if isinstance(answer, list)] == [60] * 6
        for _ in range(18):
            assert set(self._owners(self._next(20)).values()) == {1}

    # How fast an owner may submit

    def test_an_owner_may_submit_as_many_at_once_as_the_rate_names_then_one_by_one(self) -> None:
        self._allowed(10)
        with pytest.raises(SubmitRateExceeded) as raised:
            self._allowed(1)
        assert raised.value.retry_after == SECOND / 10
        assert str(raised.value) == ("owner 'acme' may submit 10/s, and a job more would exceed it: try again in 100ms")
        self.advance(SECOND / 10 - INSTANT)
        with pytest.raises(SubmitRateExceeded):
            self._allowed(1)
        self.advance(INSTANT)
        self._allowed(1)
        self.advance(HOUR)
        self._allowed(10)
        with pytest.raises(SubmitRateExceeded):
            self._allowed(1)

    def test_nothing_is_stored_of_what_comes_too_fast(self) -> None:
        self._allowed(8)
        before = (self._count(), len(self.events()))
        others = [self._one_of("other"), self.new()]
        with pytest.raises(SubmitRateExceeded) as raised:
            self.store.enqueue([*others, *(self._limited() for _ in range(3))])
        assert raised.value.retry_after == SECOND / 10
        assert (self._count(), len(self.events())) == before
        self._allowed(2)

    def test_more_than_ever_fit_must_come_in_parts(self) -> None:
        with pytest.raises(SubmitRateExceeded) as raised:
            self._allowed(11)
        assert raised.value.retry_after is None
        assert "at most 10 can be submitted at once: submit them in parts" in str(raised.value)

    def test_a_duplicate_does_not_count(self) -> None:
        keyed = self._limited(dedupe_key="k", dedupe_scope="succeeded", dedupe_for=HOUR)
        self.store.enqueue([keyed])
        for _ in range(30):
            (twin,) = self.store.enqueue([self._limited(dedupe_key="k")])
            (same,) = self.store.enqueue([keyed])
            assert (twin.id, same.id) == (keyed.id, keyed.id)
        self._allowed(9)
        (twin,) = self.store.enqueue([self._limited(dedupe_key="k")])
        assert twin.is_duplicate
        with pytest.raises(SubmitRateExceeded):
            self.store.enqueue([self._limited(dedupe_key="k"), self._limited(dedupe_key="l")])

    def test_a_duplicate_by_any_rule_does_not_count(self) -> None:
        done = self._limited(dedupe_key="done", dedupe_scope="succeeded")
        gone = self._limited(dedupe_key="gone", dedupe_for=HOUR)
        self.store.enqueue([done, gone])
        for lease in self.claim():
            self.settle(lease, Succeed("1"))
        self._allowed(8)
        self.store.enqueue([self._limited(dedupe_key="done", dedupe_scope="succeeded")])
        self.store.enqueue([self._limited(dedupe_key="gone", dedupe_for=HOUR)])
        for free in ({"dedupe_key": "done"}, {"dedupe_key": "gone"}):
            with pytest.raises(SubmitRateExceeded):
                self.store.enqueue([self._limited(**free)])

    def test_twins_in_one_enqueue_count_once(self) -> None:
        self._allowed(9)
        jobs = [self._limited(dedupe_key="k") for _ in range(5)]
        stored = self.store.enqueue([*jobs, jobs[0]])
        assert {job.id for job in stored} == {jobs[0].id}
        with pytest.raises(SubmitRateExceeded):
            self._allowed(1)

    def test_the_rate_of_one_owner_is_none_of_anothers_business(self) -> None:
        self._allowed(10)
        self._allowed(10, owner="other")
        self.enqueue(owner="acme")

    def test_the_rate_is_exact_among_processes(self) -> None:
        twin = self.twin()
        stores = [self.store, twin] * 6
        calls = [lambda store=store: store.enqueue([self._limited(), self._limited()]) for store in stores]
        answers = at_once(calls)
        assert Counter(type(answer) for answer in answers) == {list: 5, SubmitRateExceeded: 7}
        assert self._count() == 10

    def test_a_rate_that_was_changed_counts_at_once(self) -> None:
        self._allowed(10, rate="10/d")
        with pytest.raises(SubmitRateExceeded):
            self._allowed(1, rate="10/d")
        self.advance(SECOND)
        self._allowed(10)

    # Words

    def _one_of(self, owner: str, *, weight: float = 1.0, **options: Any) -> NewJob:
        return self.new(**{"owner": owner, "queue": BULK, "weight": float(weight), **options})

    def _submit(self, owner: str, number: int, **options: Any) -> list[Job[Any]]:
        return self.store.enqueue([self._one_of(owner, **options) for _ in range(number)])

    def _limited(self, *, owner: str = "acme", rate: str = "10/s", **options: Any) -> NewJob:
        return self.new(owner=owner, submit_rate=parse_rate(rate), **options)

    def _allowed(self, number: int, **options: Any) -> None:
        assert len(self.store.enqueue([self._limited(**options) for _ in range(number)])) == number

    def _count(self) -> int:
        return len(self.store.jobs(JobFilter(), limit=10_000).jobs)

    def _next(self, limit: int, **options: Any) -> list[Lease]:
        return self.claim(queues=[BULK], fair=[BULK], limit=limit, lease=timedelta(days=1), **options)

    def _owners(self, leases: Sequence[Lease]) -> dict[str, int]:
        return dict(Counter(lease.owner for lease in leases))

    def _all_succeed(self, leases: Sequence[Lease]) -> None:
        self.store.settle([Outcome(lease, Succeed("1")) for lease in leases])
