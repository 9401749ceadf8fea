"""Concurrency limits: never more at once than allowed, whichever operation promotes, and no job waits forever."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest

from conformance.bench import HOUR, KIND, MINUTE, PASS, SECOND, Bench, at_once, failing, retrying, verdict
from mulligan.failure.decision import Postpone, Release, Succeed
from mulligan.failure.verdict import deadline_passed
from mulligan.lifecycle import Move, State
from mulligan.records.job import FollowUp, JobFilter, Lease
from mulligan.records.limit import LimitBook, RetryBudget
from mulligan.records.pause import PauseRequest
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Claim
from mulligan.store.store import Store

OTHER = "other"
MANY = 5 * PASS


class LimitRules(Bench):
    """Places are taken by jobs that run or are ready to."""

    _is_limited = False

    @pytest.fixture(autouse=True)
    def _lifted(self, _arranged: None) -> Iterator[None]:
        yield
        if self._is_limited:
            self.lift_limits()

    def limit(self, *, stores: tuple[Store, ...] = (), **limits: Any) -> None:
        self._is_limited = True
        book = LimitBook(**limits)
        for store in stores or (self.store,):
            store.limit_by(lambda: book)

    def live(self, **wanted: Any) -> int:
        """How many hold a place."""
        found = [self.store.jobs(JobFilter(state=state, **wanted), limit=500).jobs for state in ("queued", "running")]
        return sum(map(len, found))

    def done(self, leases: list[Lease], *, store: Store | None = None) -> None:
        for lease in leases:
            self.settle(lease, Succeed("1"), store=store)

    # How many at once

    def test_no_more_of_a_kind_run_at_once_than_its_limit(self) -> None:
        self.limit(kinds={KIND: 2})
        jobs = self.store.enqueue([self.new() for _ in range(5)])
        assert {job.state for job in jobs} == {State.WAITING}
        assert {job.waiting_for for job in jobs} == {"limit"}
        first = self.claim()
        assert [lease.fence.id for lease in first] == [job.id for job in jobs[:2]]
        assert self.claim() == []
        self.done(first[:1])
        (third,) = self.claim()
        assert third.fence.id == jobs[2].id
        assert self.claim() == []

    @pytest.mark.parametrize(
        ("limits", "one", "another"),
        [
            ({"kinds": {KIND: 2}}, {}, {"kind": OTHER}),
            ({"queues": {"bulk": 2}}, {"queue": "bulk"}, {}),
            ({"owners": {"acme": 2}}, {"owner": "acme"}, {"owner": "else"}),
            ({"owners": {"*": 2}}, {"owner": "acme"}, {}),
        ],
    )
    def test_a_limit_concerns_those_it_names(
        self, limits: dict[str, Any], one: dict[str, Any], another: dict[str, Any]
    ) -> None:
        self.limit(**limits)
        for _ in range(5):
            self.enqueue(**one)
        others = [self.enqueue(**another) for _ in range(5)]
        assert {job.state for job in others} == {State.QUEUED}
        assert len(self.claim(KIND, OTHER)) == 7
        assert self.claim(KIND, OTHER) == []

    def test_each_owner_has_as_many_slots_as_every_other(self) -> None:
        self.limit(owners={"*": 1, "big": 3})
        self.store.enqueue([self.new(owner=owner) for owner in ("a", "b", "big", "") for _ in range(5)])
        owners = [lease.owner for lease in self.claim()]
        assert {owner: owners.count(owner) for owner in owners} == {"a": 1, "b": 1, "big": 3, "": 5}

    def test_a_job_needs_a_slot_under_each_of_its_limits(self) -> None:
        self.limit(kinds={KIND: 3}, queues={"bulk": 2}, owners={"*": 1})
        for owner in ("a", "b", "c"):
            self.store.enqueue([self.new(owner=owner, queue="bulk") for _ in range(3)])
        first = self.claim()
        assert [lease.owner for lease in first] == ["a", "b"], "the queue has two places"
        self.done(first[:1])
        (second,) = self.claim()
        assert second.owner == "a", "the older job of an owner who has a place again"
        self.done(first[1:])
        self.store.enqueue([self.new(owner="d")])
        assert sorted(lease.owner for lease in self.claim()) == ["b", "d"]
        assert self.claim() == [], "the kind has three places"

    def test_by_priority_then_by_age(self) -> None:
        self.limit(kinds={KIND: 1})
        normal = [self.enqueue(priority=50) for _ in range(2)]
        urgent = self.enqueue(priority=10)
        found = []
        while leases := self.claim():
            found += [lease.fence.id for lease in leases]
            self.done(leases)
        assert found == [urgent.id, normal[0].id, normal[1].id]

    @pytest.mark.usefixtures("small_passes")
    def test_a_full_limit_delays_no_other_job(self) -> None:
        self.limit(kinds={KIND: 4}, owners={"*": 1})
        self.store.enqueue([self.new(owner="big") for _ in range(MANY)])
        small = self.enqueue(owner="small")
        found = [lease for _ in range(5) for lease in self.claim()]
        assert small.id in [lease.fence.id for lease in found]
        assert [lease.owner for lease in found].count("big") == 1

    @pytest.mark.usefixtures("small_passes")
    def test_a_job_without_limits_waits_behind_no_blocked_one(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.enqueue([self.new() for _ in range(MANY)])
        self.claim()
        job = self.enqueue(OTHER)
        assert [lease.fence.id for lease in self.claim(OTHER, limit=1)] == [job.id]

    # How a place comes free

    def test_a_slot_is_free_once_its_job_is_over_or_waits(self) -> None:
        self.limit(kinds={KIND: 1})
        for decision in (Succeed("1"), failing(), retrying(HOUR), Postpone(HOUR, verdict("SNOOZED"), {})):
            self.store.enqueue([self.new(), self.new()])
            (lease,) = self.claim()
            assert self.claim() == []
            self.settle(lease, decision)
            (lease,) = self.claim()
            self.settle(lease, Succeed("1"))

    def test_a_released_job_keeps_its_place(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.enqueue([self.new(), self.new()])
        (lease,) = self.claim()
        self.settle(lease, Release({"because": "shutdown"}))
        (again,) = self.claim()
        assert again.fence.id == lease.fence.id

    def test_cancelling_and_expiring_a_ready_job_frees_its_place(self) -> None:
        self.limit(kinds={KIND: 1, OTHER: 1})
        cancelled, second = self.enqueue(), self.enqueue()
        expiring, third = self.enqueue(OTHER, deadline=MINUTE), self.enqueue(OTHER)
        self.claim("nothing")
        assert self.job(cancelled.id).state is State.QUEUED
        self.move(Move.MANUAL_CANCEL, cancelled.id)
        self.advance(HOUR)
        assert self.job(expiring.id).state is State.QUEUED
        self.store.expire(deadline_passed(), limit=10)
        assert {lease.fence.id for lease in self.claim(KIND, OTHER)} == {second.id, third.id}

    def test_a_lost_job_keeps_its_slot_until_it_is_reclaimed(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.enqueue([self.new(), self.new()])
        (lease,) = self.claim()
        self.advance(HOUR)
        assert self.claim(by="w2") == []
        self.settle(lease, failing(), by="w2")
        assert len(self.claim(by="w2")) == 1

    # Every way to `queued` passes the limits

    def test_retries_and_manual_moves_need_a_slot_too(self) -> None:
        self.limit(kinds={KIND: 1})
        over = self.in_state(State.FAILED)
        waiting = self.enqueue(delay=HOUR)
        self.leased()
        for move, job in ((Move.MANUAL_RETRY, over), (Move.RUN_NOW, waiting)):
            moved = self.move(move, job.id)
            assert (moved.state, moved.waiting_for) == (State.WAITING, "limit")
        self.advance(HOUR)
        assert self.claim() == []

    def test_a_duty_that_comes_before_the_first_claim_knows_the_limits(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.enqueue([self.new(delay=SECOND) for _ in range(3)])
        self.advance(MINUTE)
        self.store.promote("promote", limit=10)
        assert self.live() == 1

    def test_a_manual_move_promotes_at_once_when_there_is_a_slot(self) -> None:
        self.limit(kinds={KIND: 1})
        over = self.in_state(State.FAILED)
        assert self.move(Move.MANUAL_RETRY, over.id).state is State.QUEUED

    def test_what_follows_a_failure_needs_a_place(self) -> None:
        self.limit(kinds={OTHER: 1})
        follow_up = FollowUp(
            kind=OTHER,
            arguments="[]",
            service="",
            queue="default",
            priority=50,
            max_attempts=1,
            max_crashes=1,
            max_snoozes=1,
            deadline=None,
            timeout=None,
            cost=0,
        )
        for _ in range(2):
            self.settle(self.leased(on_failed=follow_up), failing())
        assert len(self.claim(OTHER)) == 1
        assert self.claim(OTHER) == []

    def test_a_store_that_knows_no_limits_holds_those_of_others(self) -> None:
        other = self.twin()
        self.limit(kinds={KIND: 1})
        self.leased()
        job, *_ = other.enqueue([self.new()])
        assert (job.state, job.waiting_for) == (State.WAITING, "limit")
        over = self.in_state(State.CANCELLED, delay=HOUR)
        assert self.move(Move.MANUAL_RETRY, over.id, store=other).state is State.WAITING
        assert self.claim(store=other) == []

    def test_the_limit_a_client_knows_holds_before_any_worker_came(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.enqueue([self.new() for _ in range(3)])
        self.store.limit_by(LimitBook)
        other = LimitBook(kinds={KIND: 1})
        self.store.limit_by(lambda: other)
        assert len(self.claim()) == 1

    def test_many_stores_claim_together_and_none_exceeds_the_limit(self) -> None:
        stores = (self.store, self.twin(), self.twin())
        self.limit(stores=stores, kinds={KIND: 4}, owners={"*": 2})
        self.store.enqueue([self.new(owner=f"o{n % 5}") for n in range(60)])
        numbers, most, done = count(10_000), 0, 0

        def work(store: Store) -> list[Lease]:
            wish = Claim(incarnation="w", number=next(numbers), kinds=(KIND,), limit=3, lease=MINUTE)
            return store.claim(wish).leases

        for _ in range(200):
            found = at_once([partial(work, store) for store in stores])
            leases = [lease for answer in found if isinstance(answer, list) for lease in answer]
            most = max(most, self.live())
            for owner in {lease.owner for lease in leases}:
                assert self.live(owner=owner) <= 2
            self.done(leases)
            done += len(leases)
            if done == 60:
                break
        assert (done, most) == (60, 4)

    # Other limits while all runs

    def test_a_lower_limit_admits_no_job_until_enough_have_ended(self) -> None:
        self.limit(kinds={KIND: 4})
        self.store.enqueue([self.new() for _ in range(10)])
        leases = self.claim()
        self.limit(kinds={KIND: 2})
        self.done(leases[:2])
        assert self.claim() == []
        self.done(leases[2:3])
        assert len(self.claim()) == 1

    def test_a_higher_limit_admits_more_jobs(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.enqueue([self.new() for _ in range(10)])
        self.claim()
        self.limit(kinds={KIND: 4})
        assert len(self.claim()) == 3

    def test_without_the_limit_all_pass(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.enqueue([self.new() for _ in range(10)])
        self.claim()
        self.limit()
        assert len(self.claim()) == 9
        assert self.enqueue().state is State.QUEUED

    @pytest.mark.usefixtures("small_passes")
    @pytest.mark.parametrize("limits", [{"kinds": {KIND: 3}}, {"queues": {"default": 3}}, {"owners": {"*": 3}}])
    def test_a_new_limit_counts_the_jobs_admitted_earlier(self, limits: dict[str, Any]) -> None:
        self.store.enqueue([self.new(owner="acme") for _ in range(5 * PASS // 2)])
        running = self.claim(limit=2)
        self.limit(**limits)
        found = [lease for _ in range(6) for lease in self.claim()]
        assert len(found) == 1
        self.done(running)
        assert len([lease for _ in range(3) for lease in self.claim()]) == 2

    def test_of_two_limits_the_one_taken_up_last_counts(self) -> None:
        other = self.twin()
        self.limit(kinds={KIND: 3})
        self.store.enqueue([self.new() for _ in range(10)])
        assert len(self.claim()) == 3
        self.advance(SECOND)
        self.limit(stores=(other,), kinds={KIND: 4})
        assert len(self.claim(store=other)) == 1
        self.advance(2 * MINUTE)
        self.beat(by="w1")
        assert self.claim() == [], "said again, but not changed"
        (limit,) = self.store.limits(["kind/" + KIND])
        assert (limit.most, limit.taken) == (4, 4)
        self.limit(stores=(other,))
        self.claim("nothing", store=other)

    def test_a_limit_that_no_worker_declares_any_more_is_removed(self) -> None:
        other = self.twin()
        self.limit(stores=(other,), kinds={KIND: 1})
        self.claim("nothing", store=other)
        self.limit(kinds={OTHER: 1})
        self.claim("nothing")
        assert {limit.name for limit in self.store.limits()} == {KIND, OTHER}
        self.advance(timedelta(minutes=11))
        self.beat()
        assert {limit.name for limit in self.store.limits()} == {OTHER}
        other.limit_by(LimitBook)

    def test_a_limit_is_also_removed_by_workers_without_limits(self) -> None:
        other = self.twin()
        self.limit(stores=(other,), kinds={KIND: 1})
        self.claim("nothing", store=other)
        waiting = self.store.enqueue([self.new(), self.new()])
        self.advance(timedelta(minutes=11))
        self.beat()
        assert self.store.limits() == []
        assert len(self.claim()) == len(waiting)
        other.limit_by(LimitBook)

    def test_a_limit_that_only_a_duty_or_a_move_had_declared_is_lifted(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.promote("promote", limit=10)
        self.enqueue()
        self.enqueue()
        self.limit()
        assert len(self.claim()) == 2
        assert self.store.limits() == []

    def test_an_owner_with_its_own_budget_has_the_slots_of_every_owner(self) -> None:
        running = self.leased(owner="acme")
        self.enqueue(owner="acme")
        self.limit(owners={"*": 1}, budgets={"acme": RetryBudget(per_day=1)})
        assert self.claim() == [], "one runs since before the limit came"
        self.done([running])
        assert len(self.claim()) == 1

    # A place belongs to a job that can run

    def force(self, name: str, to: str | None) -> None:
        self.store.force(ServiceRequest(id=self.ids(), name=name, to=to))

    def test_a_held_service_takes_no_places(self) -> None:
        self.limit(kinds={KIND: 2})
        self.force("dead", "open")
        dead = [self.enqueue(service="dead") for _ in range(4)]
        alive = [self.enqueue(service="alive") for _ in range(2)]
        assert [lease.fence.id for lease in self.claim()] == [job.id for job in alive]
        assert {self.job(job.id).state for job in dead} == {State.WAITING}
        self.force("dead", "closed")

    def test_jobs_promoted_before_their_service_was_held_give_their_slots_back(self) -> None:
        self.limit(kinds={KIND: 2})
        dead = [self.enqueue(service="dead") for _ in range(2)]
        self.claim("nothing")
        assert {self.job(job.id).state for job in dead} == {State.QUEUED}
        self.force("dead", "open")
        alive = [self.enqueue(service="alive") for _ in range(2)]
        running = self.claim()
        assert {lease.fence.id for lease in running} == {job.id for job in alive}
        assert self.types(dead[0].id) == ["job.enqueued", "job.queued", "job.parked"]
        self.done(running)
        assert self.claim() == []
        self.force("dead", "closed")
        assert {lease.fence.id for lease in self.claim()} == {job.id for job in dead}

    def test_a_paused_kind_gives_its_places_back_and_returns_when_it_goes_on(self) -> None:
        self.limit(queues={"default": 2})
        paused = [self.enqueue() for _ in range(2)]
        self.claim("nothing")
        self.store.pause(PauseRequest(id=self.ids(), what="kind", name=KIND, duration=HOUR))
        others = [self.enqueue(OTHER) for _ in range(2)]
        running = self.claim(KIND, OTHER)
        assert {lease.fence.id for lease in running} == {job.id for job in others}
        self.done(running)
        assert self.claim(KIND, OTHER) == []
        self.advance(2 * HOUR)
        assert {lease.fence.id for lease in self.claim(KIND, OTHER)} == {job.id for job in paused}

    # Thousands of limits

    def test_many_owners_cost_no_more_and_none_waits_forever(self) -> None:
        self.limit(owners={"*": 1})
        self.store.enqueue([self.new(owner=f"owner-{n:04}") for n in range(600) for _ in range(2)])
        first = [lease for _ in range(40) for lease in self.claim(limit=1_000)]
        assert len({lease.owner for lease in first}) == len(first) == 600
        # Settled by a worker that then stops: found by the next round.
        self.done(first, store=self.store)
        second = [lease for _ in range(40) for lease in self.claim(limit=1_000)]
        assert len({lease.owner for lease in second}) == len(second) == 600

    def test_a_slot_that_comes_free_here_is_given_at_once(self) -> None:
        self.limit(owners={"*": 1})
        self.store.enqueue([self.new(owner=f"owner-{n:04}") for n in range(300) for _ in range(2)])
        leases = [lease for _ in range(30) for lease in self.claim(limit=1_000)]
        last = max(leases, key=lambda lease: lease.owner)
        for lease in (last, min(leases, key=lambda lease: lease.owner)):
            self.done([lease])
            assert [found.owner for found in self.claim()] == [lease.owner]

    def test_the_use_of_limits_is_reported(self) -> None:
        self.limit(kinds={KIND: 2}, owners={"*": 5})
        self.store.enqueue([self.new(owner="acme") for _ in range(3)])
        self.claim(limit=1)
        found = self.store.limits([f"kind/{KIND}", "owner/acme", "queue/default"])
        told = {(limit.what, limit.name, limit.taken, limit.most) for limit in found}
        assert told == {("kind", KIND, 2, 2), ("owner", "acme", 2, 5)}

    def test_a_queue_with_a_job_that_waits_for_a_slot_is_not_idle(self) -> None:
        self.limit(kinds={KIND: 1})
        self.store.enqueue([self.new(), self.new()])
        (lease,) = self.claim()
        self.done([lease])
        assert self.store.is_busy([KIND])

    def test_a_job_that_waits_for_a_slot_and_whose_service_is_open_is_not_waited_for(self) -> None:
        self.limit(kinds={KIND: 1})
        self.force("dead", "open")
        self.enqueue(service="dead")
        assert not self.claim()
        assert not self.store.is_busy([KIND])
        self.force("dead", "closed")
        assert self.store.is_busy([KIND])
