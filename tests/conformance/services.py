"""Services: one breaker for all workers, kept by the store. Held jobs delay no others, and are released again."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from conformance.bench import (
    DAY,
    HOUR,
    INSTANT,
    KIND,
    MINUTE,
    SECOND,
    WORKER,
    Bench,
    at_once,
    failing,
    verdict,
)
from mulligan.failure.decision import Fail, Postpone, Release, Retry, Succeed
from mulligan.lifecycle import SERVICE_EVENTS, Move, State
from mulligan.records.event import Event
from mulligan.records.job import Job, Lease, ReportedCall
from mulligan.records.pause import PauseRequest
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import PROBE_KIND, ServiceRecord, ServiceRequest
from mulligan.store.messages import Answers, Outcome, Settled
from mulligan.testing.virtual import VirtualClock

NAME = "gateway"
OTHER = "archive"
COOLDOWN = 30 * SECOND


def blaming(delay: timedelta = HOUR) -> Retry:
    return Retry(delay, verdict(blames_service=True), {"failure": 1, "of": 4})


def blameless() -> Fail:
    return failing(blames_service=False)


def unknowing() -> Fail:
    return failing("UNKNOWN", blames_service=None)


def snoozing() -> Postpone:
    return Postpone(HOUR, verdict("SNOOZED"), {})


def unstorable() -> Succeed:
    """No store can keep half of a character."""
    return Succeed('"\ud800"')


def asked_for_quiet(length: timedelta) -> Postpone:
    told = verdict("RATE_LIMITED", blames_service=True, holds_service=True, retry_after=length)
    return Postpone(length, told, {})


class ServiceRules(Bench):
    # Opening

    def test_a_service_opens_when_enough_of_its_calls_failed(self) -> None:
        self._serves(window=4, min_calls=4, open_at=0.5)
        self._hear(Succeed("null"), Succeed("null"), blaming())
        assert self._state() == "closed"
        self._hear(blaming())
        assert self._state() == "open"
        (opened,) = self._told_of()
        assert (opened.type, opened.job, opened.at) == ("service.opened", "", self.now)
        assert opened.data == {
            "service": NAME,
            "because": "share",
            "calls": 4,
            "failures": 2,
            "share": 0.5,
            "in_a_row": 2,
            "window": 4,
            "cooldown": 30.0,
            "rate_before": opened.data["rate_before"],
        }

    def test_a_service_opens_after_failures_in_a_row_whatever_was_before(self) -> None:
        self._serves(window=100, min_calls=3, open_at=1.0)
        self._hear(*[Succeed("null")] * 20, blaming(), blaming())
        assert self._state() == "closed"
        self._hear(blaming())
        assert self._state() == "open"
        assert self._told_of()[0].data["because"] == "in_a_row"

    def test_fewer_calls_than_the_minimum_open_nothing_though_all_failed(self) -> None:
        self._serves(window=20, min_calls=10)
        self._hear(*[blaming()] * 9)
        assert self._state() == "closed"
        self._hear(blaming())
        assert self._state() == "open"

    def test_a_window_of_time_counts_what_it_still_holds(self) -> None:
        self._serves(window="2m", min_calls=6, open_at=0.5)
        self._hear(*[Succeed("null"), blaming()] * 2, blaming())
        self.advance(3 * MINUTE)
        self._hear(*[Succeed("null"), blaming()] * 2, blaming())
        assert self._state() == "closed", "five calls in two minutes"
        self.advance(MINUTE)
        self._hear(blaming())
        assert self._state() == "open"
        (opened,) = self._told_of()
        assert (opened.data["calls"], opened.data["failures"], opened.data["window"]) == (6, 4, "120s")

    def test_the_call_results_of_several_workers_are_added_up(self) -> None:
        self._serves(window=4, min_calls=4)
        for worker in ("a", "b", "c", "d"):
            assert self._state() == "closed"
            self._hear(blaming(), by=worker)
        assert self._state() == "open"

    @pytest.mark.parametrize("decision", [blameless(), unknowing(), failing(), Release({}), snoozing()])
    def test_what_does_not_blame_the_service_does_not_open_it(self, decision: Any) -> None:
        self._serves(window=4, min_calls=2)
        self._hear(*[decision] * 8)
        assert self._state() == "closed"

    def test_what_another_service_did_is_another_matter(self) -> None:
        self._serves(window=4, min_calls=2)
        self._hear(blaming(), blaming(), blaming(), service=OTHER)
        assert (self._state(), self._state(OTHER)) == ("closed", "open")
        assert len(self._claiming(service=NAME)) == 1

    def test_jobs_without_a_service_record_no_call(self) -> None:
        self._hear(*[blaming()] * 30, service="")
        assert self.store.services() == []

    def test_the_calls_a_task_reports_are_recorded_instead_of_its_result(self) -> None:
        self._serves(window=4, min_calls=2)
        lease = self._running()
        self._end(
            [(lease, Succeed("null"))],
            calls=[ReportedCall(NAME, ok=False), ReportedCall(NAME, ok=False), ReportedCall(OTHER, ok=True)],
        )
        assert self._state() == "open"

    def test_an_answer_names_the_services_that_are_not_closed(self) -> None:
        self._serves(window=4, min_calls=2)
        first, second, third = (self._running() for _ in range(3))
        assert self._end([(first, blaming())]).not_closed == {}
        opened = self._end([(second, blaming())])
        assert (opened.not_closed, opened.breakers) == ({NAME: 1}, {NAME: "open"})
        assert self._end([(third, Succeed("null"))]).not_closed == {NAME: 1}, "also for later calls"

    # Held

    def test_jobs_of_an_open_service_are_not_claimed_and_others_are(self) -> None:
        self._outage()
        held, free, other = self._new(priority=-10), self.enqueue(), self._new(service=OTHER)
        assert self._taken() == [free.id, other.id]
        assert self.job(held.id).state is State.QUEUED
        self.advance(COOLDOWN - INSTANT)
        assert self._taken() == []

    def test_all_lanes_of_an_open_service_are_held(self) -> None:
        self._outage()
        for queue, kind, priority in (("x", "a", 0), ("y", "a", -10), ("x", "b", 10)):
            self._new(kind, queue=queue, priority=priority)
        assert self._taken("a", "b") == []

    def test_a_service_that_asks_for_quiet_is_held_for_so_long(self) -> None:
        self._serves()
        self._hear(asked_for_quiet(7 * MINUTE))
        (opened,) = self._told_of()
        assert (opened.data["because"], opened.data["cooldown"]) == ("asked", 420.0)
        job = self._new()
        self.advance(7 * MINUTE - INSTANT)
        assert self._taken() == []
        self.advance(INSTANT)
        assert len(self._taken()) == 1
        assert self.job(job.id).state in (State.RUNNING, State.QUEUED)

    def test_more_quiet_is_asked_for_while_it_is_held_and_less_changes_nothing(self) -> None:
        self._serves()
        leases = [self._running() for _ in range(3)]
        for lease, quiet in zip(leases, (MINUTE, 5 * MINUTE, SECOND), strict=True):
            self._end([(lease, asked_for_quiet(quiet))])
        assert self._record().open_until == self.now + 5 * MINUTE

    # Half-open

    def test_after_its_cooldown_a_service_gets_one_probe(self) -> None:
        self._outage()
        for _ in range(5):
            self._new()
        self.advance(COOLDOWN)
        assert len(self._claiming()) == 1
        assert self._state() == "half_open"
        for worker in (WORKER, "another", "a third"):
            assert self._claiming(by=worker) == []
        assert [event.type for event in self._told_of()] == ["service.opened", "service.half_opened"]
        assert self._told_of()[1].data == {"service": NAME, "probes": 1, "open_for": 30.0}

    def test_a_probe_is_of_the_new_epoch(self) -> None:
        (probe,) = self._probes(1)
        assert probe.service_epoch == self._record().epoch == 2

    @pytest.mark.parametrize("probes", [1, 3])
    def test_there_are_never_more_probes_than_permits(self, probes: int) -> None:
        self._outage(probes=probes)
        for number in range(10):
            self._new(("a", "b")[number % 2], queue=("x", "y", "z")[number % 3])
        self.advance(COOLDOWN)
        taken = [
            *self._claiming("a", limit=2),
            *self._claiming("b", by="two", limit=2),
            *self._claiming("a", "b", by="three"),
        ]
        assert len(taken) == probes

    def test_a_permit_is_used_although_the_lease_has_expired(self) -> None:
        self._probes(1, waiting=3)
        self.advance(HOUR)
        assert self._claiming(by="another") == []

    @pytest.mark.parametrize("way", ["settled", "released", "reclaimed", "cancelled", "snoozed"])
    def test_a_permit_comes_back(self, way: str) -> None:
        (probe,) = self._probes(1, waiting=3)
        match way:
            case "settled":
                self._end([(probe, unknowing())])
            case "released":
                self._end([(probe, Release({}))])
            case "snoozed":
                self._end([(probe, snoozing())])
            case "reclaimed":
                self.advance(HOUR)
                lost = Release({}, ledger=None)
                self.store.settle([Outcome(probe, lost, reclaimed_by="another")])
            case "cancelled":
                self.move(Move.MANUAL_CANCEL, probe.fence.id)
                self._end([(probe, Release({}))])
        assert self._state() == "half_open"
        assert len(self._claiming(by="another")) == 1

    def test_a_repeated_claim_returns_its_probe_and_takes_no_other(self) -> None:
        self._outage(probes=2)
        for _ in range(5):
            self._new()
        self.advance(COOLDOWN)
        first = self._claiming(number=7, limit=1)
        again = self._claiming(number=7, limit=5)
        assert [lease.fence for lease in again] == [lease.fence for lease in first]
        assert len(self._claiming(by="another")) == 1

    def test_a_probe_that_succeeds_closes_the_service_at_a_pace(self) -> None:
        (probe,) = self._probes(1, waiting=10)
        self._end([(probe, Succeed("null"))])
        record = self._record()
        assert (record.state, record.pace) == ("closed", 1.0)
        assert self._told_of()[-1].type == "service.closed"
        assert len(self._claiming()) == 1, "not all that wait"

    def test_a_probe_that_fails_opens_the_service_for_another_cooldown(self) -> None:
        (probe,) = self._probes(1, waiting=10)
        self.advance(5 * SECOND)
        self._end([(probe, blaming())])
        assert (self._state(), self._record().open_until) == ("open", self.now + COOLDOWN)
        assert self._told_of()[-1].data["because"] == "probe"
        self.advance(COOLDOWN - INSTANT)
        assert self._claiming() == []
        self.advance(INSTANT)
        assert len(self._claiming()) == 1

    def test_a_probe_whose_result_cannot_be_stored_has_reached_the_service(self) -> None:
        (probe,) = self._probes(1)
        assert self._end([(probe, unstorable())]) == [Settled.UNSTORABLE]
        assert self._state() == "closed"

    def test_all_probes_must_succeed(self) -> None:
        one, two, three = self._probes(3, waiting=10)
        self._end([(one, Succeed("null"))])
        assert (self._state(), self._claiming()) == ("half_open", []), "a probe that succeeded needs no successor"
        self._end([(two, Succeed("null"))])
        self._end([(three, Succeed("null"))])
        assert self._state() == "closed"

    def test_a_service_with_a_probe_of_its_own_is_tried_by_nothing_else(self) -> None:
        self._outage(probe=lambda: None)
        self._new()
        probe = self._new(PROBE_KIND)
        self.advance(COOLDOWN)
        assert self._taken(KIND, PROBE_KIND) == [probe.id]

    def test_a_probe_of_its_own_that_came_to_no_answer_opens_the_service_again(self) -> None:
        self._outage(probe=lambda: True)
        self.advance(COOLDOWN)
        self._new(PROBE_KIND)
        (lease,) = self._claiming(PROBE_KIND)
        self._end([(lease, unknowing())])
        assert self._state() == "open"
        assert self._told_of()[-1].data["because"] == "probe"

    def test_a_probe_claimed_by_a_worker_that_cannot_run_the_others_leaves_them_where_they_are(self) -> None:
        self._outage(probes=2)
        self._new("a")
        self._new("b")
        self.advance(COOLDOWN)
        assert len(self._claiming("a")) == 1
        assert len(self._claiming("b")) == 1

    # Earlier results

    @pytest.mark.parametrize("late", [Succeed("null"), blaming(), asked_for_quiet(HOUR)])
    def test_what_was_claimed_before_the_opening_moves_a_half_open_service_nowhere(self, late: Any) -> None:
        self._serves()
        stale = self._running()
        (probe,) = self._probes(1, waiting=5)
        self._end([(stale, late)])
        assert (self._state(), self._record().epoch, self._claiming()) == ("half_open", 2, [])
        self._end([(probe, Succeed("null"))])
        assert self._state() == "closed"

    def test_what_was_claimed_before_the_opening_opens_a_closed_service_not_again(self) -> None:
        self._serves()
        stale = [self._running() for _ in range(8)]
        (probe,) = self._probes(1)
        self._end([(probe, Succeed("null"))])
        self._end([(lease, blaming()) for lease in stale])
        assert self._state() == "closed"

    def test_an_earlier_success_does_not_close_an_open_service(self) -> None:
        self._serves()
        stale = self._running()
        self._outage()
        self._end([(stale, Succeed("null"))])
        assert self._state() == "open"

    # Pace and rate

    def test_a_rate_limits_claims_by_the_clock(self) -> None:
        self._serves(rate="10/s")
        for _ in range(100):
            self._new()
        taken = len(self._claiming())
        for _ in range(40):
            self.advance(100 * timedelta(milliseconds=1))
            taken += len(self._claiming(by=f"worker {taken}"))
        assert 38 <= taken <= 43

    def test_a_rate_counts_for_all_lanes_of_the_service_together_and_for_no_other(self) -> None:
        self._serves(rate="1/s")
        self.advance(HOUR)
        for number in range(6):
            self._new(("a", "b")[number % 2], queue=("x", "y")[number // 3])
        free = [self.enqueue("a").id, self._new("b", service=OTHER).id]
        taken = self._taken("a", "b")
        assert len(taken) == 3
        assert set(free) <= set(taken)

    def test_the_answer_says_when_there_is_more_to_take(self) -> None:
        self._serves(rate="1/s")
        for _ in range(5):
            self._new()
        first = self.claimed()
        assert len(first.leases) == 1
        assert first.next_due is not None
        assert timedelta(0) < first.next_due <= 1.2 * SECOND
        self.advance(first.next_due)
        assert len(self._claiming()) == 1

    def test_what_was_allowed_and_not_found_is_not_used_up(self) -> None:
        self._serves(rate="1/m")
        self._new("another kind")
        for _ in range(5):
            assert self._claiming() == []
        self._new()
        assert len(self._claiming()) == 1

    def test_a_repeated_claim_is_not_counted_twice_by_the_rate(self) -> None:
        self._serves(rate="1/s")
        for _ in range(5):
            self._new()
        self._claiming(number=7)
        self.advance(SECOND)
        assert len(self._claiming(number=7)) == 1
        assert len(self._claiming(number=8)) == 1

    def test_a_rate_set_later_holds_for_a_service_that_is_known(self) -> None:
        self._known()
        self._serves(rate="1/s")
        for _ in range(5):
            self._new()
        assert len(self._claiming()) == 1

    def test_a_removed_rate_blocks_no_job(self) -> None:
        self._serves(rate="1/s")
        for _ in range(5):
            self._new()
        assert len(self._claiming()) == 1
        self._serves()
        assert len(self._claiming()) == 4

    def test_after_an_outage_the_pace_grows_until_nothing_is_held_back(self) -> None:
        (probe,) = self._probes(1)
        self._end([(probe, Succeed("null"))])
        for _ in range(400):
            self.advance(SECOND)
            if (pace := self._record().pace) is None:
                break
            for _ in range(5):
                self._new()
            leases = self._claiming()
            assert len(leases) <= 1 + 1.1 * pace + 5
            self._end([(lease, Succeed("null")) for lease in leases])
        assert self._record().pace is None
        assert "service.paced" in [event.type for event in self._told_of()]

    # Fail-fast

    def test_jobs_of_an_open_service_that_fails_fast_are_handed_out_refused(self) -> None:
        self._outage(mode="fail_fast")
        jobs = [self._new() for _ in range(3)]
        free = self.enqueue()
        leases = self._claiming()
        assert {lease.fence.id: lease.is_refused for lease in leases} == {
            **{job.id: True for job in jobs},
            free.id: False,
        }

    def test_a_lost_reply_does_not_start_refused_jobs(self) -> None:
        self._outage(mode="fail_fast")
        self._new()
        self._claiming(number=7)
        assert [lease.is_refused for lease in self._claiming(number=7)] == [True]
        assert [lease.is_refused for lease in self.store.adopt(WORKER, before=1_000, held=())] == [True]

    def test_a_lost_reply_starts_no_refused_job_because_the_cooldown_has_ended(self) -> None:
        self._outage(mode="fail_fast")
        self._new()
        self._claiming(number=7)
        self.advance(COOLDOWN)
        assert [lease.is_refused for lease in self._claiming(number=7)] == [True]
        assert [lease.is_refused for lease in self.store.adopt(WORKER, before=1_000, held=())] == [True]

    def test_a_lost_reply_starts_no_refused_job_beside_a_probe(self) -> None:
        self._outage(mode="fail_fast")
        self._new()
        self._claiming(number=7)
        self.advance(COOLDOWN)
        self._new()
        self._claiming(number=8)
        assert self._record().state == "half_open"
        assert [lease.is_refused for lease in self._claiming(number=7)] == [True]
        assert [lease.is_refused for lease in self._claiming(number=8)] == [False], "the reply to the probe was lost"

    def test_after_a_lost_reply_a_refused_job_runs_once_its_service_is_closed(self) -> None:
        self._outage(mode="fail_fast")
        self._new()
        self._claiming(number=7)
        self._force("closed")
        assert [lease.is_refused for lease in self._claiming(number=7)] == [False]

    def test_a_refused_job_records_no_call(self) -> None:
        self._outage(mode="fail_fast")
        for _ in range(5):
            self._new()
        self._end([(lease, unknowing()) for lease in self._claiming()])
        before = self._record()
        assert (before.state, before.calls) == ("open", 0)

    def test_a_service_that_fails_fast_is_probed_by_a_job_that_runs(self) -> None:
        self._outage(mode="fail_fast")
        for _ in range(3):
            self._new()
        self.advance(COOLDOWN)
        assert [lease.is_refused for lease in self._claiming()] == [False]

    # Retries and their budget

    def test_while_a_service_is_failing_retries_are_promoted_within_its_budget(self) -> None:
        retried = self._failing(retries=30)
        leases = [lease for lease in self._claiming(limit=1_000) if lease.fence.id in retried]
        assert 0 < len(leases) <= 10
        waiting = [job for job in map(self.job, retried) if job.state is State.WAITING]
        assert len(waiting) == 30 - len(leases)
        assert {job.waiting_for for job in waiting} == {"retry"}

    def test_first_tries_pass_while_retries_wait_for_their_budget(self) -> None:
        retried = self._failing(retries=30)
        self._claiming(limit=1_000)
        first = self._new()
        assert first.id in self._taken()
        assert any(self.job(job).state is State.WAITING for job in retried)

    def test_a_retry_that_the_budget_allows_passes_with_the_claim_that_finds_it_due(self) -> None:
        retried = self._failing(retries=1)
        assert set(self._taken()) == set(retried)

    def test_when_a_service_is_well_again_all_its_retries_pass(self) -> None:
        retried = self._failing(retries=30)
        taken = self._claiming(limit=1_000)
        self._end([(lease, Succeed("null")) for lease in taken])
        self._hear(*[Succeed("null")] * 40)
        assert not self._record().is_failing
        left = {job for job in retried if self.job(job).state is State.WAITING}
        assert left
        assert {lease.fence.id for lease in self._claiming(limit=1_000)} == left

    @pytest.mark.usefixtures("small_passes")
    def test_more_retries_than_a_pass_come_back_claim_by_claim(self) -> None:
        retried = self._failing(retries=110)
        taken = self._claiming(limit=200)
        self._force("closed")
        for _ in range(3):
            taken += self._claiming(limit=200)
        assert {lease.fence.id for lease in taken} == set(retried)

    def test_a_service_without_a_budget_admits_all_retries(self) -> None:
        retried = self._failing(retries=30, budget=None)
        assert {lease.fence.id for lease in self._claiming(limit=1_000)} == set(retried)

    @pytest.mark.parametrize("move", [Move.RUN_NOW, Move.MANUAL_RETRY])
    def test_a_manual_request_passes(self, move: Move) -> None:
        retried = self._failing(retries=30)
        self._claiming(limit=1_000)
        parked = next(job for job in retried if self.job(job).state is State.WAITING)
        self.move(move, parked)
        assert self.job(parked).state is State.QUEUED
        assert self._taken() == [parked]

    def test_a_blocked_retry_can_be_cancelled_and_snoozed(self) -> None:
        retried = self._failing(retries=30)
        self._claiming(limit=1_000)
        one, two, *_ = (job for job in retried if self.job(job).state is State.WAITING)
        self.move(Move.MANUAL_CANCEL, one)
        self.move(Move.MANUAL_SNOOZE, two, delay=MINUTE)
        assert (self.job(one).state, self.job(two).due_at) == (State.CANCELLED, self.now + MINUTE)
        self._force("closed")
        taken = self._taken(limit=1_000)
        assert one not in taken
        assert two not in taken

    def test_retries_of_a_service_stand_in_no_other_retry_s_way(self) -> None:
        other = self.leased()
        self.settle(other, Retry(MINUTE, verdict(), {}))
        self._failing(retries=30)
        assert other.fence.id in self._taken()

    # Manually

    def test_a_service_forced_open_stays_open_until_it_is_released(self) -> None:
        self._serves()
        record = self._force("open", actor="ann", reason="maintenance")
        assert (record.state, record.forced, record.actor, record.reason) == ("open", "open", "ann", "maintenance")
        assert record == self._record()
        self._new()
        self.advance(400 * DAY)
        assert self._claiming() == []
        assert self._force(None).state == "half_open"
        assert len(self._claiming()) == 1

    def test_a_service_forced_closed_does_not_open(self) -> None:
        self._outage()
        self._force("closed")
        self._hear(*[blaming()] * 20)
        assert self._state() == "closed"
        assert self._force(None).forced is None
        self._hear(*[blaming()] * 20)
        assert self._state() == "open"

    def test_forcing_is_in_the_log_with_actor_and_reason(self) -> None:
        self._force("open", actor="ann", reason="maintenance")
        self._force(None, actor="bob")
        opened, let_go = self._told_of()
        assert (opened.type, opened.actor, opened.data) == (
            "service.forced",
            "ann",
            {"service": NAME, "to": "open", "from": "closed", "actor": "ann", "reason": "maintenance"},
        )
        assert (let_go.actor, let_go.data["to"]) == ("bob", "auto")

    def test_the_same_request_to_force_changes_nothing_more(self) -> None:
        request = ServiceRequest(id=self.ids(), name=NAME, to="open")
        first = self.store.force(request)
        self.advance(MINUTE)
        assert self.store.force(request) == first
        self._force("closed")
        assert self.store.force(request).state == "closed", "what came later stays"
        assert len(self._told_of()) == 2

    def test_services_can_be_asked_for_by_name(self) -> None:
        for name in ("a", "b", "c"):
            self._force("open", name=name)
        assert [record.name for record in self.store.services()] == ["a", "b", "c"]
        assert [record.name for record in self.store.services(["c", "a", "unknown"])] == ["a", "c"]
        assert self.store.services([]) == []

    def test_releasing_a_service_that_was_not_forced_does_nothing(self) -> None:
        self._force(None)
        assert self._told_of() == []

    # Pauses

    @pytest.mark.parametrize(("what", "name"), [("queue", "default"), ("kind", KIND), ("service", NAME)])
    def test_a_paused_lane_takes_no_permit_and_no_token(self, what: str, name: str) -> None:
        self._outage()
        self._new()
        self.advance(COOLDOWN)
        self.store.pause(PauseRequest(id=self.ids(), what=what, name=name))
        assert self._claiming() == []
        assert self._state() == "open", "no worker could have probed it"
        self.store.resume(PauseRequest(id=self.ids(), what=what, name=name))
        assert len(self._claiming()) == 1

    # Repeats

    def test_a_lost_reply_of_a_settle_does_not_count_a_call_twice(self) -> None:
        self._serves(window=4, min_calls=2)
        lease = self._running()
        for _ in range(5):
            self._end([(lease, blaming())])
        assert self._state() == "closed"
        self._hear(blaming())
        assert self._told_of()[0].data["calls"] == 2

    def test_a_refused_settle_records_no_call(self) -> None:
        self._serves(window=4, min_calls=1)
        job = self._new()
        assert self._end([(self.lease_of(job, attempt=1), blaming())]) == [Settled.REFUSED]
        assert self.store.services() == []

    def test_one_outcome_that_cannot_be_stored_loses_no_other_call(self) -> None:
        self._serves(window=4, min_calls=2)
        one, two, three = (self._running() for _ in range(3))
        answers = self._end([(one, blaming()), (two, unstorable()), (three, blaming())])
        assert answers == [Settled.ACCEPTED, Settled.UNSTORABLE, Settled.ACCEPTED]
        assert self._state() == "open"
        assert answers.not_closed == {NAME: 1}

    # Time

    def test_a_clock_set_back_holds_nothing_for_longer_than_a_cooldown(self) -> None:
        self._outage()
        self.clock = VirtualClock(self.now - DAY)
        self._new()
        assert len(self._claiming()) == 1

    def test_a_clock_set_back_neither_stops_a_rate_nor_frees_it(self) -> None:
        self._serves(rate="1/s")
        self._running()
        self.clock = VirtualClock(self.now - DAY)
        for _ in range(20):
            self._new()
        assert len(self._claiming()) <= 1
        self.advance(2 * SECOND)
        assert 1 <= len(self._claiming()) <= 2

    def test_a_clock_set_back_leaves_the_breaker_its_ears(self) -> None:
        self._serves(window=4, min_calls=4)
        self._hear(*[Succeed("null")] * 4)
        self.clock = VirtualClock(self.now - DAY)
        self._hear(*[blaming()] * 4)
        assert self._state() == "open"

    # What is forgotten

    def test_tallies_are_forgotten_and_the_service_too_when_there_is_nothing_to_know(self) -> None:
        self._known()
        self._hear(Succeed("null"), blaming())
        assert self._record().calls == 2
        self.advance(4 * HOUR)
        self.beat()
        assert self._record().calls == 0
        self.advance(2 * DAY)
        self.beat()
        assert self.store.services() == []

    def test_what_is_held_failing_or_forced_is_not_forgotten(self) -> None:
        self._outage()
        self._force("open", name=OTHER)
        self.advance(30 * DAY)
        self.beat()
        assert {record.name for record in self.store.services()} == {NAME, OTHER}

    def test_a_service_that_was_forgotten_opens_again_for_workers_that_knew_it(self) -> None:
        (probe,) = self._probes(1)
        self._end([(probe, Succeed("null"))])
        self._force("closed")
        self._force(None)
        for _ in range(30):
            self.advance(HOUR)
            self._hear(Succeed("null"))
            self.beat()
        self._hear(*[blaming()] * 20)
        assert self._state() == "open"

    def test_a_job_that_ran_while_its_service_was_forgotten_blocks_no_later_call_result(self) -> None:
        (probe,) = self._probes(1)
        self._end([(probe, Succeed("null"))])
        self._force("closed")
        self._force(None)
        lengthy = self._running()
        self.advance(3 * DAY)
        self.beat()
        self._end([(lengthy, Succeed("null"))])
        self._hear(*[blaming()] * 20)
        assert self._state() == "open"

    # Many workers

    def test_many_claims_at_once_take_one_permit(self) -> None:
        self._share_permits([self.store])

    def test_many_claims_at_once_take_one_permit_on_two_connections(self) -> None:
        self._share_permits([self.store, self.twin()])

    def _share_permits(self, stores: list[Any]) -> None:
        self._outage(probes=3)
        for _ in range(20):
            self._new()
        self.advance(COOLDOWN)
        answers = at_once(
            [
                partial(self._claiming, by=f"w{number}", number=1, store=stores[number % len(stores)])
                for number in range(6)
            ]
        )
        leases = [lease for answer in answers if not isinstance(answer, Exception) for lease in answer]
        assert [answer for answer in answers if isinstance(answer, Exception)] == []
        assert len(leases) == 3

    # Words of this file

    def _serves(self, **options: Any) -> None:
        options = {"window": 4, "min_calls": 4, "cooldown": COOLDOWN, **options}
        self.book = ServiceBook([Service(NAME, **options), Service(OTHER, window=4, min_calls=2)])

    def _new(self, kind: str = KIND, *, service: str = NAME, **options: Any) -> Job[Any]:
        return self.enqueue(kind, service=service, **options)

    def _claiming(self, *kinds: str, service: str | None = None, **options: Any) -> list[Lease]:
        if service is not None:
            self._new(service=service)
        return self.claim(*kinds, **options)

    def _taken(self, *kinds: str, **options: Any) -> list[str]:
        return [lease.fence.id for lease in self._claiming(*kinds, **options)]

    def _running(self, *, service: str = NAME, by: str = WORKER) -> Lease:
        return self.leased(service=service, by=by)

    def _end(self, ends: Sequence[tuple[Lease, Any]], *, calls: Sequence[ReportedCall] = ()) -> Answers:
        return self.store.settle([Outcome(lease, decision, calls=tuple(calls)) for lease, decision in ends])

    def _hear(self, *decisions: Any, service: str = NAME, by: str = WORKER) -> None:
        """Jobs that end so, one after the other; they are running before the first of them ends."""
        jobs = self.store.enqueue([self.new(service=service) for _ in decisions])
        found = {lease.fence.id: lease for lease in self.claim(by=by, limit=1_000)}
        for job, decision in zip(jobs, decisions, strict=True):
            self._end([(found[job.id], decision)])

    def _known(self) -> None:
        """A service of which there is a row, and nothing to say."""
        self._serves()
        self._force("closed")
        self._force(None)
        assert self._record().state == "closed"

    def _outage(self, **options: Any) -> None:
        self._serves(**options)
        self._hear(*[blaming(400 * DAY)] * 4)
        assert self._state() == "open"

    def _probes(self, number: int, *, waiting: int = 0) -> list[Lease]:
        """Of a service that is half-open now."""
        self._outage(probes=number)
        for _ in range(number + waiting):
            self._new()
        self.advance(COOLDOWN)
        probes = self._claiming(limit=number)
        assert len(probes) == number
        return probes

    def _failing(self, *, retries: int, **options: Any) -> list[str]:
        """A service that fails too often and not enough to open, and so many of its retries, due."""
        self._serves(window=20, min_calls=10, open_at=1.0, **options)
        jobs = self.store.enqueue([self.new(service=NAME) for _ in range(retries)])
        leases = self.claim(limit=retries)
        self._hear(*[Succeed("null"), blaming(400 * DAY)] * 10)
        self._end([(lease, Retry(MINUTE, verdict(), {})) for lease in leases])
        is_failing = any(record.is_failing for record in self.store.services())
        assert is_failing is (options.get("budget", 0.1) is not None)
        self.advance(2 * MINUTE)
        return [job.id for job in jobs]

    def _force(self, to: str | None, *, name: str = NAME, **options: Any) -> ServiceRecord:
        return self.store.force(ServiceRequest(id=self.ids(), name=name, to=to, **options))

    def _record(self, name: str = NAME) -> ServiceRecord:
        (record,) = [record for record in self.store.services() if record.name == name]
        return record

    def _state(self, name: str = NAME) -> str:
        return next((record.state for record in self.store.services() if record.name == name), "closed")

    def _told_of(self) -> list[Event]:
        return [event for event in self.events() if event.type in SERVICE_EVENTS]
