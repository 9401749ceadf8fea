"""A failed call is charged to a failing service, else to the job. Jobs that wait for a service take turns."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, KIND, MINUTE, SECOND, Bench, failing, verdict
from mulligan.failure.decision import Decision, Fail, Park, Postpone, Retry, Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.job import RECOVERING, Job, Lease, ReportedCall
from mulligan.records.limit import LimitBook
from mulligan.records.pause import PauseRequest
from mulligan.service.charge import MOST_RETURNS
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import PROBE_KIND, ServiceRequest
from mulligan.store import probes
from mulligan.store.messages import Answers, Outcome, Settled

NAME = "gateway"
COOLDOWN = 30 * SECOND
BLAMING = verdict(blames_service=True)


def parking(*, least: timedelta = timedelta(0), returns: int = 1) -> Park:
    return Park(MINUTE, least, BLAMING, {"code": BLAMING.code}, returns)


def failed(**options: Any) -> Retry:
    """As `decide` says it of a call that the service is to blame for."""
    return Retry(MINUTE, BLAMING, {"failure": 1, "of": 4}, 4, parking(**options))


def exhausted() -> Fail:
    return Fail(BLAMING, {"because": "attempts exhausted"}, 4, parking())


def slowed_down() -> Postpone:
    return Postpone(MINUTE, BLAMING, {}, Park(MINUTE, MINUTE, BLAMING, {}))


class ChargeRules(Bench):
    # Who bears it

    def test_a_failed_probe_costs_its_job_no_attempt(self) -> None:
        lease = self._probing()
        answers = self._conclude(lease, failed())
        job = self.job(lease.fence.id)
        assert (answers[0], job.state, job.waiting_for) == (Settled.ACCEPTED, State.WAITING, "service")
        assert (job.attempt, job.failures, dict(job.code_failures)) == (1, 0, {})
        assert isinstance(answers.spared[0].decision, Park)

    def test_the_log_says_to_whom_it_was_charged(self) -> None:
        lease = self._probing()
        self._conclude(lease, failed())
        event = self.events(lease.fence.id)[-1]
        assert (event.type, event.code, event.data["waiting_for"]) == ("job.parked", "GW_5XX", "service")
        assert event.data["reasons"] == {
            "code": "GW_5XX",
            "service": NAME,
            "because": "charged to service gateway, which is open",
        }
        assert event.data["services"] == {NAME: {"ok": 0, "failed": 1}}

    @pytest.mark.parametrize(
        "decision",
        [exhausted(), Postpone(MINUTE, BLAMING, {}, Park(MINUTE, MINUTE, BLAMING, {}))],
        ids=["fail", "snooze"],
    )
    def test_the_last_attempt_of_a_job_is_not_used_up_by_a_probe(self, decision: Decision) -> None:
        lease = self._probing()
        self._conclude(lease, decision)
        job = self.job(lease.fence.id)
        assert (job.state, job.failures, job.snoozes) == (State.WAITING, 0, 0)

    def test_a_final_verdict_stays_final(self) -> None:
        lease = self._probing()
        self._conclude(lease, failing(blames_service=True))
        assert self.job(lease.fence.id).state is State.FAILED

    def test_the_failure_that_opens_a_service_is_charged_to_it_and_those_before_are_not(self) -> None:
        self._describe()
        leases = self._begin(4)
        for lease in leases:
            self._conclude(lease, failed())
        assert [self.job(lease.fence.id).failures for lease in leases] == [1, 1, 1, 0]

    def test_failures_settled_together_are_all_charged_to_the_service_that_they_open(self) -> None:
        self._describe()
        leases = self._begin(6)
        answers = self.store.settle([Outcome(lease, failed()) for lease in leases])
        assert set(answers.spared) == set(range(6))
        assert {self.job(lease.fence.id).failures for lease in leases} == {0}

    def test_a_call_that_the_outage_met_under_way_is_charged_to_the_service(self) -> None:
        self._describe()
        (early,) = self._begin(1)
        self._break()
        self._conclude(early, exhausted())
        assert self.job(early.fence.id).state is State.WAITING

    def test_a_call_that_outlived_the_outage_is_charged_to_the_service_and_waits_its_time(self) -> None:
        self._describe()
        (early,) = self._begin(1)
        self._break()
        self._force_it("closed")
        self._conclude(early, exhausted())
        job = self.job(early.fence.id)
        assert (job.state, job.failures, job.due_at, job.gate) == (State.WAITING, 0, self.now + MINUTE, None)
        assert "was not closed meanwhile" in self.events(job.id)[-1].data["reasons"]["because"]

    def test_while_a_service_recovers_a_failure_is_charged_to_it_and_waits_its_time(self) -> None:
        lease = self._begin_recovering()
        self._conclude(lease, failed())
        job = self.job(lease.fence.id)
        assert (job.state, job.failures, job.due_at) == (State.WAITING, 0, self.now + MINUTE)
        assert "is recovering" in self.events(job.id)[-1].data["reasons"]["because"]

    def test_a_job_that_was_handed_back_too_often_bears_what_happens_while_its_service_recovers(self) -> None:
        lease = self._begin_recovering()
        self._conclude(lease, failed(returns=MOST_RETURNS + 1))
        assert self.job(lease.fence.id).failures == 1

    def test_only_calls_of_a_closed_service_are_counted_so_that_no_outage_uses_them_up(self) -> None:
        lease = self._probing()
        self._conclude(lease, failed())
        assert dict(self.job(lease.fence.id).code_failures) == {}
        lease = self._begin_recovering()
        self._conclude(lease, failed())
        job = self.job(lease.fence.id)
        assert (job.failures, dict(job.code_failures)) == (0, {RECOVERING: 1})
        self.move(Move.MANUAL_RETRY, job.id)
        assert dict(self.job(job.id).code_failures) == {}

    def test_a_job_that_was_handed_back_too_often_is_still_spared_by_an_outage(self) -> None:
        lease = self._probing()
        self._conclude(lease, failed(returns=MOST_RETURNS + 1))
        assert self.job(lease.fence.id).failures == 0

    def test_what_fails_while_the_service_is_well_is_the_job_s(self) -> None:
        self._describe()
        one, two = self._begin(2)
        answers = self.store.settle([Outcome(one, failed()), Outcome(two, exhausted())])
        assert (self.job(one.fence.id).failures, self.job(two.fence.id).state) == (1, State.FAILED)
        assert answers.spared == {}

    def test_what_fails_at_a_service_forced_closed_is_the_job_s(self) -> None:
        self._break()
        self._force_it("closed")
        (lease,) = self._begin(1)
        self._conclude(lease, exhausted())
        assert self.job(lease.fence.id).state is State.FAILED

    def test_what_the_task_reports_of_its_service_goes_before_its_end(self) -> None:
        lease = self._probing()
        self.store.settle([Outcome(lease, exhausted(), calls=(ReportedCall(NAME, ok=True),))])
        assert self.job(lease.fence.id).state is State.FAILED

    def test_a_probe_of_the_service_s_own_never_waits_for_it(self) -> None:
        self._break()
        self.enqueue(PROBE_KIND, service=NAME)
        self.advance(COOLDOWN)
        (lease,) = self.claim(PROBE_KIND)
        self._conclude(lease, exhausted())
        assert self.job(lease.fence.id).state is State.FAILED

    # Told once

    def test_a_repeated_settle_is_a_repeat_and_its_call_is_recorded_once(self) -> None:
        lease = self._probing()
        epoch = self.store.services([NAME])[0].epoch
        answers = self.store.settle([Outcome(lease, failed()), Outcome(lease, failed())])
        assert answers == [Settled.ACCEPTED, Settled.REPEATED]
        assert self._conclude(lease, failed()) == [Settled.REPEATED]
        assert self.store.services([NAME])[0].epoch == epoch + 1
        assert self.types(lease.fence.id).count("job.parked") == 1

    def test_a_late_result_is_refused_and_records_no_call(self) -> None:
        self._describe(min_calls=1)
        job = self._add()
        assert self._conclude(self.lease_of(job, attempt=1), failed()) == [Settled.REFUSED]
        assert self.store.services() == []

    def test_what_cannot_be_stored_loses_no_other_outcome(self) -> None:
        self._describe(min_calls=2)
        one, two, three = self._begin(3)
        ends: list[tuple[Lease, Decision]] = [(one, failed()), (two, Succeed('"\ud800"')), (three, failed())]
        answers = self.store.settle([Outcome(lease, decision) for lease, decision in ends])
        assert answers == [Settled.ACCEPTED, Settled.UNSTORABLE, Settled.ACCEPTED]
        assert self.job(three.fence.id).state is State.WAITING

    def test_a_wish_to_cancel_wins(self) -> None:
        lease = self._probing()
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        self._conclude(lease, failed())
        assert self.job(lease.fence.id).state is State.CANCELLED

    # Probes go round

    def test_the_next_probe_is_another_job_until_all_had_their_turn(self) -> None:
        jobs = [job.id for job in self._break_with(5)]
        assert [self._probe_in_vain() for _ in range(12)] == [*jobs, *jobs, *jobs[:2]]

    def test_a_job_that_comes_meanwhile_is_probed_before_the_others_come_back(self) -> None:
        jobs = [job.id for job in self._break_with(2)]
        assert [self._probe_in_vain(), self._probe_in_vain()] == jobs
        late = self._add().id
        assert [self._probe_in_vain(), self._probe_in_vain()] == [late, jobs[0]]

    def test_one_bad_job_does_not_keep_a_service_open(self) -> None:
        bad, *good = (job.id for job in self._break_with(3))
        assert self._probe_in_vain() == bad
        self.advance(COOLDOWN)
        (probe,) = self.claim()
        self._conclude(probe, Succeed("null"))
        assert (probe.fence.id, self._stands()) == (good[0], "closed")
        assert [self._claim_at_pace(), self._claim_at_pace()] == [bad, good[1]], "in their old order"

    def test_when_the_service_is_closed_all_come_back_in_their_old_order(self) -> None:
        jobs = [job.id for job in self._break_with(6)]
        for _ in range(4):
            self._probe_in_vain()
        self._force_it("closed")
        assert [lease.fence.id for lease in self.claim(limit=3)] == jobs[:3]
        assert [lease.fence.id for lease in self.claim()] == jobs[3:]

    @pytest.mark.usefixtures("small_passes")
    def test_more_than_a_pass_come_back(self) -> None:
        self._describe()
        leases = self._begin(110)
        self.store.settle([Outcome(lease, failed()) for lease in leases])
        self._force_it("closed")
        taken = [lease for _ in range(3) for lease in self.claim(limit=100)]
        assert {lease.fence.id for lease in taken} == {lease.fence.id for lease in leases}

    def test_what_a_service_asked_to_wait_for_is_waited_for_though_it_is_closed(self) -> None:
        lease = self._probing()
        self._conclude(lease, failed(least=HOUR))
        self._force_it("closed")
        assert self.claim() == []
        self.advance(HOUR)
        assert [lease.fence.id for lease in self.claim()] == [lease.fence.id]

    def test_a_worker_that_cannot_run_them_returns_no_job(self) -> None:
        one, two = (job.id for job in self._break_with(2))
        assert self._probe_in_vain() == one
        self.advance(COOLDOWN)
        assert self.claim("another kind") == []
        assert self.claim(queues=["another"]) == []
        assert [lease.fence.id for lease in self.claim()] == [two]

    def test_a_job_that_no_worker_can_run_does_not_keep_the_others_from_a_new_round(self) -> None:
        (job,) = self._break_with(1)
        self._add("unknown")
        assert [self._probe_in_vain(), self._probe_in_vain()] == [job.id, job.id]

    @pytest.mark.parametrize(("what", "name"), [("kind", "paused"), ("queue", "paused")])
    def test_a_paused_job_does_not_keep_the_others_from_a_new_round(self, what: str, name: str) -> None:
        (job,) = self._break_with(1)
        self._add(**{"kind": KIND, "queue": "default", what: name})
        self.store.pause(PauseRequest(id=self.ids(), what=what, name=name))
        assert [self._probe_in_vain(KIND, "paused"), self._probe_in_vain(KIND, "paused")] == [job.id, job.id]

    def test_a_paused_service_is_not_probed_and_goes_on_then(self) -> None:
        (job,) = self._break_with(1)
        self._probe_in_vain()
        self.store.pause(PauseRequest(id=self.ids(), what="service", name=NAME))
        self.advance(COOLDOWN)
        assert self.claim() == []
        self.store.resume(PauseRequest(id=self.ids(), what="service", name=NAME))
        assert [lease.fence.id for lease in self.claim()] == [job.id]

    def test_probes_go_round_under_a_limit(self) -> None:
        self._break()
        self.store.limit_by(lambda: LimitBook(kinds={KIND: 1}))
        jobs = [self._add().id for _ in range(3)]
        assert [self._probe_in_vain() for _ in range(6)] == [*jobs, *jobs]
        self.lift_limits()

    def test_many_services_are_probed_at_once_and_no_claim_comes_in_vain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probes, "GATES", 4)
        names = [f"site:{number}" for number in range(4)]
        self.book = ServiceBook([Service("site:*", window=2, min_calls=2, cooldown=COOLDOWN)])
        self.store.enqueue([self.new(service=name) for name in names for _ in range(2)])
        self.store.settle([Outcome(lease, failed()) for lease in self.claim(limit=8)])
        self.advance(COOLDOWN)
        tried = [lease for _ in range(2) for lease in self.claim(limit=2, lease=DAY)]
        assert sorted(lease.service for lease in tried) == names
        assert self.claim(limit=2) == []

    def test_probes_go_round_by_lanes_and_services(self) -> None:
        self._break()
        jobs = [self._add(kind, queue=queue).id for kind, queue in (("a", "x"), ("b", "y"), ("a", "y"))]
        assert [self._probe_in_vain("a", "b") for _ in range(6)] == [*jobs, *jobs]

    def test_an_open_service_that_fails_fast_blocks_no_job(self) -> None:
        self._break(mode="fail_fast")
        self.advance(COOLDOWN)
        self._add()
        (probe,) = self.claim()
        self._conclude(probe, failed())
        (again,) = self.claim()
        assert (again.fence.id, again.is_refused) == (probe.fence.id, True)

    def test_a_job_that_waits_for_a_service_is_counted_with_it(self) -> None:
        self._break_with(3)
        self._probe_in_vain()
        (demand,) = self.store.demands(limit=100)
        assert (demand.service, demand.ready, demand.parked) == (NAME, 3, 0)

    # No job is forgotten there

    @pytest.mark.parametrize("move", [Move.RUN_NOW, Move.MANUAL_RETRY])
    def test_it_can_be_started_manually(self, move: Move) -> None:
        parked = self._park_one()
        self.move(move, parked)
        assert self.job(parked).state is State.QUEUED
        self.advance(COOLDOWN)
        assert [lease.fence.id for lease in self.claim()] == [parked]

    def test_it_can_be_put_off_and_cancelled_manually(self) -> None:
        self._break_with(2)
        one, two = self._probe_in_vain(), self._probe_in_vain()
        self.move(Move.MANUAL_SNOOZE, one, delay=HOUR)
        self.move(Move.MANUAL_CANCEL, two)
        self._force_it("closed")
        assert self.claim() == []
        self.advance(HOUR)
        assert [lease.fence.id for lease in self.claim()] == [one]

    def test_its_deadline_goes_on_counting(self) -> None:
        self._break()
        job = self._add(deadline=HOUR)
        assert self._probe_in_vain() == job.id
        self.advance(HOUR)
        assert self.store.expire(verdict("DEADLINE"), limit=10) == 1
        assert self.job(job.id).error_code == "DEADLINE"

    def test_a_service_that_was_forgotten_blocks_no_job(self) -> None:
        parked = self._park_one()
        self._force_it("closed")
        self._force_it(None)
        self.advance(30 * DAY)
        self.beat()
        self.advance(DAY)
        self.beat()
        assert self.store.services() == []
        assert [lease.fence.id for lease in self.claim()] == [parked]

    def test_it_is_waited_for_once_it_may_be_tried(self) -> None:
        self._park_one()
        assert self.store.is_busy([KIND]) is False, "it is not waited for while its service is open"
        self.advance(COOLDOWN)
        assert self.store.is_busy([KIND]) is True

    def test_a_long_outage_costs_no_job_an_attempt_and_tries_all_alike(self) -> None:
        jobs = self._break_with(5)
        tried = [self._probe_in_vain() for _ in range(25)]
        assert {self.job(job.id).failures for job in jobs} == {0}
        assert {tried.count(job.id) for job in jobs} == {5}

    # Words of this file

    def _describe(self, **options: Any) -> None:
        self.book = ServiceBook([Service(NAME, **{"window": 4, "min_calls": 4, "cooldown": COOLDOWN, **options})])

    def _add(self, kind: str = KIND, **options: Any) -> Job[Any]:
        return self.enqueue(kind, service=NAME, **options)

    def _begin(self, number: int) -> list[Lease]:
        self.store.enqueue([self.new(service=NAME) for _ in range(number)])
        return self.claim(limit=number)

    def _conclude(self, lease: Lease, decision: Decision) -> Answers:
        return self.store.settle([Outcome(lease, decision)])

    def _break(self, **options: Any) -> None:
        self._describe(**options)
        final = Fail(BLAMING, {})
        leases: Sequence[Lease] = self._begin(4)
        self.store.settle([Outcome(lease, final) for lease in leases])
        assert self._stands() == "open"

    def _break_with(self, number: int) -> list[Job[Any]]:
        self._break()
        return [self._add() for _ in range(number)]

    def _probing(self) -> Lease:
        """Of a service that is half-open now."""
        self._break_with(1)
        self.advance(COOLDOWN)
        (probe,) = self.claim()
        return probe

    def _probe_in_vain(self, *kinds: str) -> str:
        """The job that was tried after a cooldown, in vain."""
        self.advance(COOLDOWN)
        (probe,) = self.claim(*kinds, lease=DAY)
        self._conclude(probe, failed())
        assert self._stands() == "open"
        return probe.fence.id

    def _claim_at_pace(self) -> str:
        self.advance(10 * SECOND)
        (lease,) = self.claim()
        return lease.fence.id

    def _park_one(self) -> str:
        self._break_with(1)
        return self._probe_in_vain()

    def _begin_recovering(self) -> Lease:
        self._conclude(self._probing(), Succeed("null"))
        self.advance(SECOND)
        (lease,) = self._begin(1)
        return lease

    def _force_it(self, to: str | None) -> None:
        self.store.force(ServiceRequest(id=self.ids(), name=NAME, to=to))

    def _stands(self) -> str:
        return self.store.services([NAME])[0].state
