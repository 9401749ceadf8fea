"""The fence: an outcome is written once, by the newest claim only, and a late one is logged."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from conformance.bench import HOUR, WORKER, Bench, at_once, failing, retrying, verdict
from mulligan.failure.decision import Cancel, Decision, Postpone, Release, Succeed
from mulligan.lifecycle import REFUSED, State
from mulligan.records.job import ONCE, Lease
from mulligan.store.messages import Outcome, Settled

DECISIONS: list[Decision] = [
    Succeed('{"a":1}'),
    retrying(),
    failing(),
    Postpone(HOUR, verdict("SNOOZED"), {"snooze": 1}),
    Release({"why": "shutdown"}),
    Cancel({"why": "cancelled by hand"}),
]
EACH_DECISION = pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: type(decision).__name__)
WRONG = [{"attempt": 1}, {"attempt": 3}, {"incarnation": "another"}, {"claim": 999}]


def mistaken(lease: Lease, **fence: Any) -> Lease:
    return replace(lease, fence=lease.fence._replace(**fence))


class FenceRules(Bench):
    @pytest.mark.parametrize("wrong", WRONG, ids=str)
    @EACH_DECISION
    def test_a_worker_without_the_lease_changes_nothing(self, wrong: dict[str, Any], decision: Decision) -> None:
        lease = self._second_attempt()
        before = self.job(lease.fence.id)
        stale = mistaken(lease, **wrong)
        assert self.settle(stale, decision) is Settled.REFUSED
        assert self.job(before.id) == before
        assert self.settle(lease, decision) is Settled.ACCEPTED

    def test_a_refused_outcome_is_in_the_log_once(self) -> None:
        lease = self._second_attempt(owner="acme")
        stale = mistaken(lease, incarnation="another")
        for _ in range(3):
            assert self.settle(stale, failing("GW_4XX")) is Settled.REFUSED
        refused = [event for event in self.events(lease.fence.id) if event.type == REFUSED]
        (event,) = refused
        assert (event.attempt, event.owner, event.code, event.at) == (2, "acme", "GW_4XX", self.now)
        assert (event.data["decision"], event.data["worker"]) == ("fail", "another")

    def test_two_late_results_are_both_in_the_log(self) -> None:
        lease = self._second_attempt()
        for worker in ("another", "one more"):
            self.settle(mistaken(lease, incarnation=worker), Succeed(None))
        assert self.types(lease.fence.id).count(REFUSED) == 2

    def test_an_outcome_for_a_job_that_is_not_there_is_refused(self) -> None:
        lease = self.leased()
        assert self.settle(mistaken(lease, id=self.ids()), Succeed(None)) is Settled.REFUSED

    @pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
    def test_a_job_that_does_not_run_cannot_be_settled(self, state: State) -> None:
        before = self.in_state(state)
        assert self.settle(self.lease_of(before), Succeed("1")) is Settled.REFUSED
        assert self.job(before.id) == before

    # For people's own statements

    def test_a_claim_that_holds_can_be_secured_again_and_again_and_nothing_changes(self) -> None:
        lease = self._second_attempt()
        before, written = self.job(lease.fence.id), self.events()
        assert [self.store.secure(lease.fence) for _ in range(2)] == [True, True]
        assert self.twin().secure(lease.fence)
        assert (self.job(lease.fence.id), self.events()) == (before, written)

    @pytest.mark.parametrize("wrong", WRONG, ids=str)
    def test_a_worker_without_the_lease_secures_nothing(self, wrong: dict[str, Any]) -> None:
        lease = self._second_attempt()
        assert not self.store.secure(mistaken(lease, **wrong).fence)

    def test_an_expired_lease_that_was_not_reclaimed_is_still_its_holders(self) -> None:
        lease = self.leased()
        self.advance(HOUR)
        assert self.store.secure(lease.fence)

    @EACH_DECISION
    def test_a_settled_attempt_is_not_secured_any_more(self, decision: Decision) -> None:
        lease = self.leased()
        self.settle(lease, decision)
        assert not self.store.secure(lease.fence)
        assert not self.store.secure(mistaken(lease, id=self.ids()).fence)

    # What runs at most once

    def test_an_attempt_begins_once_and_its_expired_lease_says_so(self) -> None:
        once: dict[str, Any] = ONCE
        lease = self.leased(**once)
        assert lease.at_most_once
        self.advance(HOUR)
        assert not self._expired().has_begun
        before, written = self.job(lease.fence.id), self.events()
        assert [self.store.begin(lease.fence), self.twin().begin(lease.fence)] == [True, False]
        assert (self.job(lease.fence.id), self.events()) == (before, written)
        assert self._expired().has_begun
        self.settle(lease, Release({}))
        (again,) = self.claim()
        self.advance(HOUR)
        assert not self._expired().has_begun, "the next attempt is another one"
        assert self.store.begin(again.fence)

    def _expired(self) -> Lease:
        (expired,) = self.store.overdue(besides="another", limit=10)
        return expired

    @pytest.mark.parametrize("wrong", WRONG, ids=str)
    def test_an_attempt_whose_lease_is_lost_does_not_begin(self, wrong: dict[str, Any]) -> None:
        lease = self._second_attempt()
        assert not self.store.begin(mistaken(lease, **wrong).fence)
        self.settle(lease, Succeed(None))
        assert not self.store.begin(lease.fence)

    def test_of_a_job_that_may_run_again_it_is_not_known_whether_it_began(self) -> None:
        lease = self.leased()
        assert lease.has_begun and not lease.at_most_once

    # Repeating

    @EACH_DECISION
    def test_a_settle_can_be_repeated(self, decision: Decision) -> None:
        lease = self.leased()
        assert self.settle(lease, decision) is Settled.ACCEPTED
        after, written = self.job(lease.fence.id), self.events()
        self.advance(HOUR)
        assert self.settle(lease, decision) is Settled.REPEATED
        assert (self.job(lease.fence.id), self.events()) == (after, written)

    def test_a_settle_is_repeated_on_another_connection(self) -> None:
        lease = self.leased()
        twin = self.twin()
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED
        assert self.settle(lease, Succeed("1"), store=twin) is Settled.REPEATED

    @pytest.mark.parametrize("decision", [retrying(), DECISIONS[3], DECISIONS[4]], ids=["Retry", "Postpone", "Release"])
    def test_a_settle_is_repeated_when_the_job_was_claimed_again(self, decision: Decision) -> None:
        lease = self.leased()
        self.settle(lease, decision)
        self.advance(HOUR)
        (again,) = self.claim()
        assert self.settle(lease, decision) is Settled.REPEATED
        assert self.job(again.fence.id).state is State.RUNNING
        assert self.settle(again, Succeed(None)) is Settled.ACCEPTED
        assert self.settle(lease, decision) is Settled.REPEATED
        assert REFUSED not in self.types(lease.fence.id)

    def test_every_attempt_can_be_repeated_forever(self) -> None:
        leases = [self.leased()]
        for _ in range(4):
            self.settle(leases[-1], retrying())
            self.advance(HOUR)
            leases += self.claim()
        self.settle(leases[-1], failing())
        repeats = [retrying()] * 4 + [failing()]
        assert [self.settle(*pair) for pair in zip(leases, repeats, strict=True)] == [Settled.REPEATED] * 5

    def test_a_worker_that_claims_its_own_job_again_is_fenced_by_the_attempt(self) -> None:
        first = self.leased(by=WORKER)
        self.settle(first, Release({"why": "shutdown"}), by=None)
        (second,) = self.claim(by=WORKER)
        assert self.settle(first, Succeed("1")) is Settled.REPEATED
        assert self.job(second.fence.id).state is State.RUNNING

    def test_two_attempts_under_one_claim_number_are_distinguished(self) -> None:
        self.enqueue()
        (first,) = self.claim(number=7)
        self.settle(first, Release({"why": "shutdown"}))
        (second,) = self.claim(number=7)
        self.advance(HOUR)
        self.settle(second, Release({"loss": 1}), by="the-reclaimer")
        (third,) = self.claim(by="another")
        self.settle(third, Succeed("3"))
        assert (first.fence.claim, first.fence.attempt) == (second.fence.claim, second.fence.attempt - 1)
        assert self.settle(first, Release({"why": "shutdown"})) is Settled.REPEATED
        assert self.settle(second, Succeed("2")) is Settled.REFUSED

    # Batches

    def test_answers_come_in_order_and_each_for_itself(self) -> None:
        fresh, stale, done = self.leased(), self.leased(), self.leased()
        self.settle(done, Succeed("1"))
        outcomes = [
            Outcome(mistaken(stale, claim=999), Succeed("2")),
            Outcome(fresh, Succeed("3")),
            Outcome(done, Succeed("1")),
            Outcome(fresh, Succeed("3")),
        ]
        answers = [Settled.REFUSED, Settled.ACCEPTED, Settled.REPEATED, Settled.REPEATED]
        assert self.store.settle(outcomes) == answers
        assert self.job(stale.fence.id).state is State.RUNNING
        assert self.job(fresh.fence.id).result == 3

    def test_settling_none_is_nothing(self) -> None:
        assert self.store.settle([]) == []

    def test_of_many_that_settle_at_once_one_is_accepted(self) -> None:
        lease = self.leased()
        stores = [self.store, self.twin()]
        answers = at_once([partial(self.settle, lease, Succeed("1"), store=stores[number % 2]) for number in range(8)])
        assert sorted(map(str, answers)) == ["accepted", *["repeated"] * 7]
        assert self.types(lease.fence.id).count("job.succeeded") == 1

    def _second_attempt(self, **options: Any) -> Lease:
        """An attempt that is not the first; the first was another's, and reclaimed."""
        first = self.leased(by="the-first", **options)
        self.advance(HOUR)
        assert self.settle(first, Release({"loss": 1}), by="the-reclaimer") is Settled.ACCEPTED
        (second,) = self.claim()
        return second
