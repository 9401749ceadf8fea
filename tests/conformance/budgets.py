"""Retry budgets of owners: what is beyond waits for the next period, or fails."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, KIND, PASS, SECOND, Bench, at_once, failing, retrying
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.batch import BatchState, NewBatch
from mulligan.records.job import FollowUp, Job, JobFilter
from mulligan.records.limit import LimitBook, RetryBudget
from mulligan.store import budgets
from mulligan.store.messages import Outcome
from mulligan.store.store import Store

OWNER = "acme"
LOW, HIGH = 10, -10


class BudgetRules(Bench):
    """First tries cost nothing; each automatic retry that is admitted does."""

    _has_budgets = False

    @pytest.fixture(autouse=True)
    def _with_budgets_lifted(self, _arranged: None) -> Iterator[None]:
        yield
        if self._has_budgets:
            self.lift_limits()

    def budget(self, *, stores: tuple[Store, ...] = (), owner: str = OWNER, more: Any = None, **budget: Any) -> None:
        self._has_budgets = True
        book = LimitBook(budgets={owner: RetryBudget(**budget)}, **(more or {}))
        for store in stores or (self.store,):
            store.limit_by(lambda: book)

    def retried(self, number: int = 1, **options: Any) -> list[Job[Any]]:
        """Jobs that failed once and are due again."""
        jobs = self.store.enqueue([self.new(**{"owner": OWNER, **options}) for _ in range(number)])
        self.store.settle([Outcome(lease, retrying(SECOND)) for lease in self.claim(limit=1_000)])
        self.advance(2 * SECOND)
        return jobs

    def run(self) -> int:
        """How many run and succeed now."""
        leases = [lease for _ in range(3) for lease in self.claim(limit=1_000)]
        self.store.settle([Outcome(lease, Succeed("1")) for lease in leases])
        return len(leases)

    def tomorrow(self) -> datetime:
        return (self.now + DAY).replace(hour=0, minute=0, second=0, microsecond=0)

    def next_month(self) -> datetime:
        return (self.tomorrow().replace(day=1) + timedelta(days=32)).replace(day=1)

    def test_retries_beyond_a_day_wait_for_the_next(self) -> None:
        self.budget(per_day=10)
        jobs = self.retried(15, priority=HIGH)
        assert self.run() == 10
        left = [job for job in map(self.job, (job.id for job in jobs)) if job.state is State.WAITING]
        assert {(job.waiting_for, job.due_at) for job in left} == {("budget", self.tomorrow())}
        self.advance(DAY)
        assert self.run() == 5

    def test_retries_beyond_a_month_wait_for_the_next(self) -> None:
        self.budget(per_month=2)
        self.retried(3, priority=HIGH)
        assert self.run() == 2
        self.advance(DAY)
        assert self.run() == 0
        (left,) = self.store.jobs(JobFilter(state="waiting")).jobs
        self.clock.advance(left.due_at - self.now)
        assert (self.now.day, self.run()) == (1, 1)

    def test_what_they_cost_is_counted_too(self) -> None:
        self.budget(cost_per_month=100)
        self.retried(3, priority=HIGH, cost=40)
        assert self.run() == 2
        found = self.store.spending(OWNER)
        assert found is not None
        assert (found.today, found.this_month, found.cost_this_month) == (2, 2, 80)

    def test_however_many_wait_each_learns_until_when(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Found by day 19407999: those behind the first hundred stayed due."""
        monkeypatch.setattr(budgets, "EACH", 5)
        self.budget(per_day=1)
        for _ in range(2):
            self.retried(12)
            for _ in range(8):
                self.run()
            left = self.store.jobs(JobFilter(state="waiting"), limit=100).jobs
            assert {(job.waiting_for, job.due_at) for job in left} == {("budget", self.tomorrow())}
            self.advance(DAY)

    def test_a_retry_that_costs_less_is_found_behind_many_that_cost_too_much(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(budgets, "EACH", 5)
        self.budget(cost_per_month=100)
        self.retried(12, priority=HIGH, cost=200)
        self.retried(2, priority=HIGH, cost=60)
        assert sum(self.run() for _ in range(3)) == 1

    def test_the_first_come_first_though_many_waited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A walk through those that wait does not go on where it was when there is budget again."""
        monkeypatch.setattr(budgets, "EACH", 5)
        self.budget(per_day=0)
        jobs = [self.retried(priority=HIGH)[0] for _ in range(20)]
        for _ in range(3):
            assert self.run() == 0
        self.budget(per_day=7)
        assert self.run() == 7
        over = [number for number, job in enumerate(jobs) if self.job(job.id).state is State.SUCCEEDED]
        assert over == list(range(7))

    def test_first_tries_and_manual_moves_are_free(self) -> None:
        self.budget(per_day=0)
        (job,) = self.retried()
        assert self.run() == 0
        assert self.move(Move.MANUAL_RETRY, job.id).state is State.QUEUED
        assert self.run() == 1
        self.enqueue(owner=OWNER)
        assert self.run() == 1
        found = self.store.spending(OWNER)
        assert found is not None
        assert found.today == 0

    def test_the_last_part_is_for_what_is_more_urgent(self) -> None:
        self.budget(per_day=100)
        self.retried(100, priority=LOW)
        assert self.run() == 80
        self.retried(100)
        assert self.run() == 15
        self.retried(100, priority=HIGH)
        assert self.run() == 5

    @pytest.mark.parametrize(
        ("budget", "of_normal", "of_low"),
        [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3), (5, 5, 4), (20, 19, 16), (21, 20, 17)],
    )
    def test_of_a_small_budget_nothing_is_kept(self, budget: int, of_normal: int, of_low: int) -> None:
        self.budget(owner="*", per_day=budget)
        for owner, priority, most in ((OWNER, LOW, of_low), ("other", 0, of_normal)):
            self.retried(25, owner=owner, priority=priority)
            assert self.run() == most

    def test_those_beyond_can_be_made_to_fail(self) -> None:
        follow_up = FollowUp(
            kind="after",
            arguments="[]",
            service="",
            queue="default",
            priority=0,
            max_attempts=1,
            max_crashes=1,
            max_snoozes=1,
            deadline=None,
            timeout=None,
            cost=0,
        )
        self.budget(per_day=1, over="fail")
        jobs = self.retried(2, on_failed=follow_up)
        assert self.run() == 1
        failed = self.job(jobs[1].id)
        assert (failed.state, failed.error_code, failed.error_class) == (State.FAILED, "BUDGET_EXHAUSTED", "final")
        assert self.types(failed.id)[-1] == "job.failed"
        assert len(self.claim("after")) == 1

    @pytest.mark.parametrize(
        ("budget", "options", "told"),
        [
            ({"per_day": 2}, {}, ("retries", "2030-01-01", 2, 1, 2, 2)),
            ({"per_month": 3}, {}, ("retries", "2030-01", 3, 1, 3, 3)),
            ({"per_day": 5}, {"priority": LOW}, ("retries", "2030-01-01", 4, 1, 5, 4)),
            ({"cost_per_month": 100}, {"cost": 40}, ("cost", "2030-01", 80, 40, 100, 95)),
        ],
    )
    def test_the_log_says_which_budget_failed_a_job_with_its_figures(
        self, budget: dict[str, Any], options: dict[str, Any], told: tuple[Any, ...]
    ) -> None:
        self.budget(over="fail", **budget)
        self.retried(7, **options)
        self.run()
        failed = [event for event in self.events() if event.type == "job.failed"]
        assert failed
        for event in failed:
            reasons = event.data["reasons"]
            assert (reasons["because"], reasons["owner"]) == ("budget exhausted", OWNER)
            assert tuple(reasons[name] for name in ("what", "period", "used", "takes", "of", "part")) == told

    def test_members_that_fail_for_lack_of_budget_are_counted_in_their_batch(self) -> None:
        self.budget(per_day=1, over="fail")
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="spring", owner=OWNER))
        self.store.enqueue([self.new(owner=OWNER, batch=batch.id) for _ in range(3)])
        self.store.publish(batch.id)
        self.retried(0)
        assert self.run() == 1
        found = self.store.batch(batch.id)
        assert (found.state, found.succeeded, found.failed) == (BatchState.PARTIAL, 1, 2)
        assert [event.type for event in self.events() if event.type == "batch.settled"] == ["batch.settled"]

    def test_a_batch_is_aborted_by_members_that_fail_for_lack_of_budget(self) -> None:
        self.budget(per_day=0, over="fail")
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="spring", owner=OWNER, abort_above=0.25))
        first = self.store.enqueue([self.new(owner=OWNER, batch=batch.id) for _ in range(2)])
        self.store.enqueue([self.new(owner=OWNER, batch=batch.id, delay=HOUR) for _ in range(2)])
        self.store.publish(batch.id)
        self.retried(0)
        self.claim("nothing")
        assert {self.job(job.id).error_code for job in first} == {"BUDGET_EXHAUSTED"}
        found = self.store.batch(batch.id)
        assert (found.state, found.failed, found.cancelled) == (BatchState.FAILED, 2, 2)

    def test_a_batch_is_not_settled_while_a_member_is_being_brought_back(self) -> None:
        """One step admits jobs and brings another member back: the batch is not settled between the two."""
        self.budget(per_day=0, over="fail")
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="spring", owner=OWNER))
        self.store.enqueue([self.new(owner=OWNER, batch=batch.id) for _ in range(2)])
        self.store.publish(batch.id)
        first, second = self.claim()
        self.settle(first, failing())
        self.settle(second, retrying(SECOND))
        self.advance(2 * SECOND)
        assert self.move(Move.MANUAL_RETRY, first.fence.id).state is State.QUEUED
        assert self.job(second.fence.id).error_code == "BUDGET_EXHAUSTED"
        found = self.store.batch(batch.id)
        assert (found.state, found.generation, found.failed, found.left) == (BatchState.PROCESSING, 1, 1, 1)
        assert self.run() == 1
        assert self.store.batch(batch.id).state is BatchState.PARTIAL

    def test_each_owner_has_the_same_budget(self) -> None:
        self.budget(owner="*", per_day=1)
        self.store.enqueue([self.new(owner=owner) for owner in ("a", "b") for _ in range(3)])
        self.retried(3, owner="")
        assert self.run() == 5, "one of each owner, and the three without an owner"

    def test_a_larger_budget_admits_more_retries_at_once(self) -> None:
        self.budget(per_day=1)
        self.retried(5, priority=HIGH)
        assert self.run() == 1
        self.budget(per_day=3)
        assert self.run() == 2
        self.store.limit_by(LimitBook)
        assert self.run() == 2

    @pytest.mark.usefixtures("small_passes")
    def test_an_owner_out_of_budget_delays_no_other(self) -> None:
        self.budget(per_day=0)
        self.retried(PASS)
        assert self.run() == 0
        self.retried(1, owner="other")
        assert self.run() == 1

    def test_a_retry_in_budget_still_needs_a_place(self) -> None:
        self.budget(per_day=10, more={"kinds": {KIND: 1}})
        self.store.enqueue([self.new(owner=OWNER) for _ in range(3)])
        while leases := self.claim():
            self.settle(leases[0], retrying(SECOND))
        self.advance(2 * SECOND)
        assert len(self.claim()) == 1
        found = self.store.spending(OWNER)
        assert found is not None
        assert found.today == 3, "charged when the budget let them pass"

    def test_two_concurrent_promotions_spend_no_budget_twice(self) -> None:
        stores = (self.store, self.twin())
        self.budget(stores=stores, per_day=20)
        self.retried(60, priority=HIGH)
        found = [
            one for _ in range(5) for one in at_once([partial(self.claim, limit=50, store=store) for store in stores])
        ]
        leases = [lease for answer in found if isinstance(answer, list) for lease in answer]
        assert len(leases) == 20
        spent = self.store.spending(OWNER)
        assert spent is not None
        assert spent.today == 20

    def test_a_budget_that_no_worker_has_stored_yet_is_seen_where_it_is_known(self) -> None:
        twin = self.twin()
        assert self.store.spending(OWNER) is None
        for owner in (OWNER, "*"):
            self.budget(owner=owner, per_day=2)
            found = self.store.spending(OWNER)
            assert found is not None
            assert (found.today, found.budget.per_day) == (0, 2)
        assert twin.spending(OWNER) is None

    def test_owners_with_a_budget_of_their_own_are_listed_with_what_they_spent(self) -> None:
        self._has_budgets = True
        book = LimitBook(budgets={OWNER: RetryBudget(per_day=5), "*": RetryBudget(per_day=9)})
        self.store.limit_by(lambda: book)
        self.retried(1, owner="other")
        assert self.run() == 1
        self.retried(2, priority=HIGH)
        assert self.run() == 2
        found = {spent.owner: (spent.today, spent.budget.per_day) for spent in self.store.budgets()}
        assert found == {OWNER: (2, 5)}

    def test_what_was_spent_long_ago_is_forgotten(self) -> None:
        self.budget(per_day=5)
        self.retried(1)
        self.run()
        self.advance(timedelta(days=70))
        self.beat()
        found = self.store.spending(OWNER)
        assert found is not None
        assert (found.today, found.this_month) == (0, 0)
