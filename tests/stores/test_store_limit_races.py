"""Limits with real transactions that stay open while others go on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

import pytest
from postgres_server import emptied
from transactions import enqueue_on, held, meanwhile, on, promote_on

from conformance.bench import KIND, MINUTE, SECOND, Bench, retrying
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import State
from mulligan.records.job import Lease
from mulligan.records.limit import LimitBook, RetryBudget
from mulligan.store.messages import Claim, Outcome
from mulligan.store.postgres import PostgresStore
from mulligan.store.postgres.claim import Claimable
from mulligan.store.postgres.session import SQL, PostgresSession

ONE, OTHER = LimitBook(kinds={KIND: 1}), "other"


class TestLimitRaces(Bench):
    url: str
    store: PostgresStore

    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        self.url = emptied(database)

    @pytest.fixture(autouse=True)
    def _lifted(self, _arranged: None) -> Iterator[None]:
        self.store.limit_by(lambda: ONE)
        self.claim("nothing")
        yield
        self.store.limit_by(LimitBook)
        for _ in range(3):
            self.claim("nothing")

    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return PostgresStore(self.url + "?notify=off", now=now)

    open_twin = open_store

    def wish(self, by: str, number: int = 1) -> Claim:
        return Claim(incarnation=by, number=number, kinds=(KIND,), limit=10, lease=MINUTE)

    def test_no_worker_claims_while_another_counts_the_jobs_admitted_before_a_limit(self) -> None:
        for _ in range(5):
            self.enqueue("new")
        self.store.limit_by(lambda: LimitBook(kinds={KIND: 1, "new": 2}))
        wish = Claim(incarnation="w", number=1, kinds=("new",), limit=10, lease=MINUTE)
        with held(self.url) as other:
            other.begin().execute(SQL["limits_lock"])
            claimed = self.store.claim(wish)
            assert claimed.leases == []
            assert claimed.next_due is not None
            assert claimed.next_due < SECOND, "it looks again soon"
        assert len(self.store.claim(replace(wish, number=2)).leases) == 2

    @pytest.mark.parametrize("limits", [{"kinds": {"new": 2}}, {"queues": {"bulk": 2}}])
    def test_what_no_new_limit_is_about_is_claimed_while_another_still_counts(
        self, limits: dict[str, dict[str, int]]
    ) -> None:
        for _ in range(5):
            self.enqueue("new", queue="bulk")
        others = {self.enqueue(OTHER).id for _ in range(3)}
        self.store.limit_by(lambda: LimitBook(**limits))
        wish = Claim(incarnation="w", number=1, kinds=("new", OTHER), limit=10, lease=MINUTE)
        with held(self.url) as other:
            other.begin().execute(SQL["limits_lock"])
            assert {lease.fence.id for lease in self.store.claim(wish).leases} == others
            assert {lease.fence.id for lease in self.store.claim(wish).leases} == others, "its own, repeated"
        assert [lease.kind for lease in self.store.claim(replace(wish, number=2)).leases] == ["new", "new"]

    def test_limits_that_the_keeper_declares_in_the_middle_of_a_claim_hold_for_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(5):
            self.enqueue("new")
        self.store.limit_by(lambda: LimitBook(kinds={KIND: 1, "new": 2}))
        steps = self.store._backend._promote
        looking = steps.find_claimable

        def look_and_be_slow(session: PostgresSession, claim: Claim) -> Claimable:
            look = looking(session, claim)
            monkeypatch.undo()
            self.beat()
            return look

        monkeypatch.setattr(steps, "find_claimable", look_and_be_slow)
        assert len(self.claim("new")) == 2

    def test_of_two_claims_one_gets_the_slot_and_the_other_does_not_wait(self) -> None:
        first = self.enqueue()
        with held(self.url) as other:
            # Its promotion and its claim are two transactions: the first is left open here.
            promote_on(self.store, other.begin())
            # No transaction holds the row of this one, and the slot does not look taken from outside.
            self.enqueue()
            second = self.store.claim(self.wish("w2"))
            assert second.leases == []
            assert second.next_due is not None
            assert second.next_due < SECOND, "it looks again soon"
            other.commit()
        assert [lease.fence.id for lease in self.store.claim(self.wish("w1")).leases] == [first.id]
        assert self.store.claim(self.wish("w2", 2)).leases == []

    def test_a_slot_freed_while_another_claim_was_counting_is_found_by_the_next_claim(self) -> None:
        """The settle commits after the count, and the job was parked just before: it must not wait for ever."""
        (first,) = self._running()
        with held(self.url) as settling:
            settling.begin()
            on(self.store, settling).settle([Outcome(first, Succeed("1"), seconds=0.1)])
            waiting = self.enqueue()
            assert self.store.claim(self.wish("w2")).leases == [], "the place is not free yet"
            settling.commit()
        assert [lease.fence.id for lease in self.store.claim(self.wish("w2", 2)).leases] == [waiting.id]

    def test_jobs_enqueued_in_an_open_transaction_are_admitted_when_it_ends(self) -> None:
        job = self.new()
        with held(self.url) as caller:
            enqueue_on(caller, self.store, job)
            with meanwhile(lambda: self.store.claim(self.wish("w1"))) as answer:
                assert answer.result().leases == [], "no claim waits for the caller"
            caller.commit()
        assert [lease.fence.id for lease in self.store.claim(self.wish("w1", 2)).leases] == [job.id]

    def test_a_new_limit_waits_for_the_jobs_that_are_being_claimed_and_counts_them(self) -> None:
        self.store.limit_by(LimitBook)
        self.claim("nothing")
        self.store.enqueue([self.new() for _ in range(3)])
        with held(self.url) as other:
            claiming = Claim(incarnation="w1", number=1, kinds=(KIND,), limit=1, lease=MINUTE)
            (lease,) = on(self.store, other).claim(claiming).leases
            self.store.limit_by(lambda: ONE)
            with meanwhile(lambda: self.store.claim(self.wish("w2"))) as answer:
                other.commit()
        assert answer.result().leases == [], "one runs, and one is the limit"
        self.settle(lease, Succeed("1"))
        assert len(self.store.claim(self.wish("w2", 2)).leases) == 1

    def test_a_budget_is_spent_once_though_two_look_at_it(self) -> None:
        book = LimitBook(budgets={"acme": RetryBudget(per_day=1)})
        self.store.limit_by(lambda: book)
        self.store.enqueue([self.new(owner="acme") for _ in range(2)])
        for number, lease in enumerate(self.claim(), 1):
            self.settle(lease, retrying(number * MINUTE))
        self.advance(MINUTE)
        with held(self.url) as other:
            promote_on(self.store, other.begin())
            self.advance(MINUTE)
            assert self.store.claim(self.wish("w2")).leases == []
            other.commit()
        assert len(self.store.claim(self.wish("w2", 2)).leases) == 1
        found = self.store.spending("acme")
        assert found is not None
        assert found.today == 1

    def _running(self) -> list[Lease]:
        job = self.enqueue()
        leases = self.claim()
        assert self.job(job.id).state is State.RUNNING
        return leases
