"""Retries: they are settled many at once, and one that may start at once is queued by the settle itself.

Whatever is not plain goes another way through a store. Both ways must write the same.
"""

from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import msgspec
import pytest

from conformance.bench import HOUR, MINUTE, SECOND, WORKER, Bench, failing, retrying, verdict
from mulligan.failure.decision import Decision, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.verdict import Failure, Ledger
from mulligan.lifecycle import Move, State
from mulligan.records.batch import NewBatch
from mulligan.records.job import Job, Lease, ReportedCall
from mulligan.records.limit import LimitBook, RetryBudget
from mulligan.records.pause import PauseRequest
from mulligan.service.config import Service, ServiceBook
from mulligan.store.messages import Outcome, ReportedProgress, Settled

NOW = timedelta(0)
SEEN = verdict(
    failure=Failure(type="http.Error", message="502 Bad Gateway\nupstream"), detail='Traceback:\n  "a"\t\\ é \x1e\n'
)
DECISIONS: dict[str, Retry] = {
    "at once": retrying(NOW),
    "later": retrying(MINUTE),
    "in a while": retrying(timedelta(seconds=0.000001)),
    "in the past": retrying(-MINUTE),
    "of a failure": Retry(NOW, SEEN, {"rule": "http.5xx", "notes": ["a\nb"], "of": 3}),
    "without reasons": Retry(MINUTE, verdict(), {}),
    "with a limit": replace(retrying(NOW), max_attempts=9),
    "charged to no service": replace(retrying(NOW), spared=Park(MINUTE, MINUTE, verdict(), {})),
    "of an empty text": Retry(NOW, verdict(message="", group=""), {}),
    "rate limited": Retry(NOW, verdict("BUSY", ErrorClass.RATE_LIMITED), {}),
    "snoozed": Retry(NOW, verdict("SNOOZED"), {}),
    "of a loss": Retry(NOW, verdict("WORKER_LOST", ledger=Ledger.LOSSES), {}),
}
EACH_DECISION = pytest.mark.parametrize("decision", DECISIONS.values(), ids=DECISIONS)
# How an attempt may end, the state after it, and the code of the last failure.
OUTCOMES: dict[str, tuple[Decision, State, str | None]] = {
    "retry": (retrying(NOW), State.QUEUED, "GW_5XX"),
    "snooze": (Retry(NOW, verdict("SNOOZED"), {}), State.QUEUED, None),
    "success": (Succeed("1"), State.SUCCEEDED, None),
    "failure": (failing(), State.FAILED, "GW_4XX"),
}
# What differs between two jobs, whichever worker settles them.
ITS_OWN = {"id", "submitted_at", "enqueued_at"}


class GeneralSettle(Bench):
    """A store that writes every outcome by its general statement. Each rule about settles holds for it too."""

    @pytest.fixture(autouse=True)
    def _nothing_is_plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for store in ("postgres", "sqlite"):
            for is_plain in ("has_succeeded", "is_plain_retry"):
                monkeypatch.setattr(f"mulligan.store.{store}.settle.{is_plain}", lambda _outcome: False)


class RetryRules(Bench):
    # Both ways

    @EACH_DECISION
    @pytest.mark.parametrize("is_troubled", [False, True], ids=["first attempt", "after trouble"])
    def test_both_ways_write_the_same(self, decision: Retry, is_troubled: bool) -> None:
        plain, general = (self._lease_to_retry(is_troubled=is_troubled) for _ in range(2))
        assert self.store.settle([Outcome(plain, decision, 0.25)]) == [Settled.ACCEPTED]
        # An outcome with an actor is never plain.
        assert self.store.settle([Outcome(general, decision, 0.25, actor="ann")]) == [Settled.ACCEPTED]
        assert self._row_of(plain) == self._row_of(general)
        assert self._log_of(plain) == self._log_of(general)

    @EACH_DECISION
    def test_a_crowd_is_written_as_one_alone(self, decision: Retry) -> None:
        leases = [self._lease_to_retry() for _ in range(4)]
        done = self.leased()
        self.store.settle([Outcome(lease, decision, 0.25) for lease in leases[:1]])
        beside = [Outcome(done, Succeed("1"), 0.25), *(Outcome(lease, decision, 0.25) for lease in leases[1:])]
        assert self.store.settle(beside) == [Settled.ACCEPTED] * 4
        assert self.job(done.fence.id).state is State.SUCCEEDED
        first, *others = (self._row_of(lease) for lease in leases)
        assert others == [first] * 3
        first, *others = (self._log_of(lease) for lease in leases)  # type: ignore[assignment]
        assert others == [first] * 3

    def test_each_outcome_of_a_mixed_crowd_is_settled_as_it_should(self) -> None:
        decisions: list[Decision] = [
            retrying(NOW),
            Succeed("1"),
            retrying(MINUTE),
            failing(),
            Release({}),
            Postpone(NOW, verdict("SNOOZED"), {}),
            retrying(NOW),
        ]
        leases = [self.leased() for _ in decisions]
        outcomes = [Outcome(lease, one) for lease, one in zip(leases, decisions, strict=True)]
        assert self.store.settle(outcomes) == [Settled.ACCEPTED] * 7
        assert self.store.settle(outcomes) == [Settled.REPEATED] * 7
        assert [self.job(lease.fence.id).state.value for lease in leases] == [
            *("queued", "succeeded", "waiting", "failed", "queued", "waiting", "queued")
        ]

    # Straight to the queue

    def test_a_retry_without_delay_is_queued_by_the_settle(self) -> None:
        lease = self.leased()
        self.advance(SECOND)
        job = self._retried(lease, retrying(NOW))
        assert (job.state, job.waiting_for, job.gate) == (State.QUEUED, None, None)
        assert (job.queued_at, job.due_at, job.updated_at) == (self.now, self.now, self.now)
        assert (job.failures, job.trigger, job.previous_delay) == (1, "automatic", NOW)
        retried, queued = self.events(job.id)[-2:]
        assert (retried.type, queued.type) == ("job.retried", "job.queued")
        assert (queued.attempt, queued.at, queued.code, queued.actor, queued.data) == (1, self.now, None, None, {})
        assert [taken.fence.attempt for taken in self.claim()] == [2]
        assert self.types(job.id)[-1] == "job.started"

    def test_what_a_promotion_would_have_written_is_written(self) -> None:
        straight, promoted = self.leased(), self.leased()
        self.store.settle([Outcome(straight, retrying(NOW))])
        # Reclaimers do not promote.
        self.advance(2 * MINUTE)
        self.settle(promoted, retrying(NOW), by="reclaimer")
        assert self.job(promoted.fence.id).state is State.WAITING
        self.claim("nothing")
        found = self._row_of(promoted)
        times = dict.fromkeys(("queued_at", "due_at", "updated_at"))
        assert self._row_of(straight) | times == found | times
        assert self.types(straight.fence.id) == self.types(promoted.fence.id)

    def test_a_retry_with_a_delay_waits(self) -> None:
        job = self._retried(self.leased(), retrying(timedelta(microseconds=1)))
        assert (job.state, job.waiting_for) == (State.WAITING, "retry")

    def test_a_retry_waits_while_its_duty_is_paused(self) -> None:
        lease = self.leased()
        self._pause_duty("retry", MINUTE)
        job = self._retried(lease, retrying(NOW))
        assert (job.state, job.waiting_for) == (State.WAITING, "retry")
        assert self.claim() == []
        self.advance(MINUTE)
        (lease,) = self.claim()
        assert self._retried(lease, retrying(NOW)).state is State.QUEUED, "the pause is over"

    def test_a_pause_of_another_duty_does_not_matter(self) -> None:
        lease = self.leased()
        self._pause_duty("promote", None)
        assert self._retried(lease, retrying(NOW)).state is State.QUEUED

    @pytest.mark.parametrize("is_told", [True, False], ids=["stored", "not stored yet"])
    def test_a_retry_waits_for_its_turn_under_a_limit(self, is_told: bool) -> None:
        first, second = self.leased(), self.enqueue()
        self.store.limit_by(lambda: LimitBook(kinds={first.kind: 1}))
        if is_told:
            self.claim("nothing")
        assert self._retried(first, retrying(NOW)).state is State.WAITING
        (taken,) = self.claim()
        assert taken.fence.id in (first.fence.id, second.id)
        self.lift_limits()

    def test_a_retry_waits_for_the_budget_of_its_owner(self) -> None:
        lease = self.leased(owner="acme")
        self.store.limit_by(lambda: LimitBook(budgets={"acme": RetryBudget(per_day=0)}))
        self.claim("nothing")
        assert self._retried(lease, retrying(NOW)).state is State.WAITING
        assert self.claim() == []
        self.lift_limits()

    def test_a_job_that_holds_a_slot_gives_it_back_before_it_is_queued_again(self) -> None:
        self.store.limit_by(lambda: LimitBook(kinds={"send": 1}))
        self.enqueue()
        (lease,) = self.claim()
        self.store.limit_by(LimitBook)
        self.claim("nothing")
        assert self._retried(lease, retrying(NOW)).state is State.WAITING
        assert [taken.fence.attempt for taken in self.claim()] == [2]

    def test_the_retry_of_a_job_with_a_service_waits_for_what_the_service_allows(self) -> None:
        self.book = ServiceBook([Service("gateway")])
        job = self._retried(self.leased(service="gateway"), retrying(NOW))
        assert (job.state, job.waiting_for) == (State.WAITING, "retry")
        assert [taken.fence.attempt for taken in self.claim()] == [2]

    def test_a_retry_that_reports_calls_is_queued_too(self) -> None:
        self.book = ServiceBook([Service("gateway")])
        lease, call = self.leased(), ReportedCall("gateway", ok=False, status=503)
        assert self.store.settle([Outcome(lease, retrying(NOW), calls=(call,))]) == [Settled.ACCEPTED]
        assert self.job(lease.fence.id).state is State.QUEUED
        (event,) = [one for one in self.events(lease.fence.id) if one.type == "job.retried"]
        assert event.data["calls"][0]["service"] == "gateway"

    def test_a_stuck_job_that_is_taken_back_waits(self) -> None:
        lease = self.leased(timeout=SECOND)
        self.advance(HOUR)
        first = Outcome(lease, retrying(NOW), reclaimed_by="by hand", stuck_after=SECOND)
        assert self.move(Move.MANUAL_RETRY, lease.fence.id, first=first).state is State.QUEUED
        assert self.types(lease.fence.id)[-3:] == ["job.retried", "job.retry_requested", "job.queued"]

    def test_a_wish_to_cancel_is_answered_in_a_crowd(self) -> None:
        leases = [self.leased() for _ in range(3)]
        self.move(Move.MANUAL_CANCEL, leases[1].fence.id)
        outcomes = [Outcome(lease, retrying(NOW)) for lease in leases]
        assert self.store.settle(outcomes) == [Settled.ACCEPTED] * 3
        states = [self.job(lease.fence.id).state for lease in leases]
        assert states == [State.QUEUED, State.CANCELLED, State.QUEUED]
        assert self.types(leases[1].fence.id)[-1] == "job.cancelled"

    def test_a_member_of_a_batch_is_retried_and_counted_once(self) -> None:
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="spring")).id
        job = self.enqueue(batch=batch)
        self.store.publish(batch)
        (lease,) = self.claim()
        assert self._retried(lease, retrying(NOW)).state is State.QUEUED
        (lease,) = self.claim()
        self.move(Move.MANUAL_CANCEL, job.id)
        assert self._retried(lease, retrying(NOW)).state is State.CANCELLED
        assert self.store.batch(batch).cancelled == 1

    # The fence

    def test_a_lost_lease_is_refused_in_a_crowd(self) -> None:
        leases = [self.leased(lease=SECOND) for _ in range(3)]
        self.advance(MINUTE)
        self.settle(leases[1], Release({}, ledger=Ledger.LOSSES), by="reclaimer")
        answers = self.store.settle([Outcome(lease, retrying(NOW)) for lease in leases])
        assert answers == [Settled.ACCEPTED, Settled.REFUSED, Settled.ACCEPTED]
        assert self.types(leases[1].fence.id)[-1] == "job.refused"
        assert self.job(leases[1].fence.id).failures == 0

    def test_a_repeated_crowd_changes_nothing(self) -> None:
        outcomes = [Outcome(self.leased(), retrying(NOW)) for _ in range(3)]
        self.store.settle(outcomes)
        before = [self._log_of(outcome.lease) for outcome in outcomes]
        assert self.store.settle(outcomes) == [Settled.REPEATED] * 3
        again = self.claim()
        assert self.store.settle(outcomes) == [Settled.REPEATED] * 3, "also while the next attempt runs"
        assert [self._log_of(outcome.lease)[:-1] for outcome in outcomes] == before
        assert {self.job(lease.fence.id).state for lease in again} == {State.RUNNING}

    @pytest.mark.parametrize("order", list(permutations(OUTCOMES, 3)), ids=" then ".join)
    def test_of_several_outcomes_of_one_lease_the_first_counts(self, order: tuple[str, ...]) -> None:
        lease = self.leased()
        answers = self.store.settle([Outcome(lease, OUTCOMES[name][0]) for name in order])
        assert answers == [Settled.ACCEPTED, Settled.REPEATED, Settled.REPEATED]
        job = self.job(lease.fence.id)
        assert (job.state, job.last_code) == OUTCOMES[order[0]][1:]

    def test_a_retry_beside_one_that_cannot_be_stored_is_settled(self) -> None:
        leases = [self.leased() for _ in range(3)]
        bad = Retry(NOW, verdict(), {"why": object()})
        outcomes = [Outcome(leases[0], retrying(NOW)), Outcome(leases[1], bad), Outcome(leases[2], retrying(MINUTE))]
        assert self.store.settle(outcomes) == [Settled.ACCEPTED, Settled.UNSTORABLE, Settled.ACCEPTED]
        states = [self.job(lease.fence.id).state.value for lease in leases]
        assert states == ["queued", "failed", "waiting"]

    def test_another_worker_may_take_what_was_queued(self) -> None:
        lease = self.leased()
        self.settle(lease, retrying(NOW))
        (other,) = self.claim(by="worker-2")
        assert (other.fence.id, other.fence.attempt) == (lease.fence.id, 2)
        assert self.settle(lease, Fail(verdict(), {})) is Settled.REPEATED

    # Words

    def _lease_to_retry(self, *, is_troubled: bool = False) -> Lease:
        lease = self.leased(owner="acme", tags=("eu",), max_attempts=5)
        if is_troubled:
            self.settle(lease, Release({}, ledger=Ledger.LOSSES))
            (lease,) = self.claim()
            self.settle(lease, Retry(NOW, replace(SEEN, code="OTHER"), {}))
            (lease,) = self.claim()
            self.settle(lease, Release({}, ledger=Ledger.CRASHES))
            (lease,) = self.claim()
        self.beat(progress=[ReportedProgress(lease.fence, 0.5, "half way")], by=WORKER)
        return lease

    def _pause_duty(self, name: str, length: timedelta | None) -> None:
        self.store.pause(PauseRequest(id=self.ids(), what="duty", name=name, duration=length))

    def _retried(self, lease: Lease, decision: Retry) -> Job[Any]:
        assert self.settle(lease, decision) is Settled.ACCEPTED
        return self.job(lease.fence.id)

    def _row_of(self, lease: Lease) -> dict[str, Any]:
        job = self.job(lease.fence.id)
        return {each.name: getattr(job, each.name) for each in msgspec.structs.fields(job) if each.name not in ITS_OWN}

    def _log_of(self, lease: Lease) -> list[tuple[Any, ...]]:
        events = self.events(lease.fence.id)
        told = [{name: value for name, value in event.data.items() if name != "by"} for event in events]
        return [(one.type, one.attempt, one.at, one.code, data) for one, data in zip(events, told, strict=True)]
