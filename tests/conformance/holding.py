"""Blocked jobs as callers see them: how many wait for a service, what is worth waiting for, what changed."""

from typing import Any

import pytest

from conformance.bench import MINUTE, SECOND, Bench, verdict
from mulligan.failure.decision import Retry, Succeed
from mulligan.lifecycle import pause_events
from mulligan.records.job import ReportedCall
from mulligan.records.pause import PauseRequest
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import Demand, ServiceRequest
from mulligan.store.messages import Answers, Outcome

LANES = [("queue", "bulk"), ("kind", "send"), ("service", "gateway")]


class HoldingRules(Bench):
    def test_ready_jobs_and_blocked_retries_are_counted_by_service(self) -> None:
        self._serve(window=20, min_calls=2, open_at=1.0)
        for queue in ("bulk", "default"):
            self.enqueue("send", service="gateway", queue=queue)
            self.enqueue("read", service="gateway", queue=queue)
        self.enqueue("send", service="archive")
        self.enqueue("send")
        assert self.store.demands(limit=10) == [Demand("archive", 1, 0), Demand("gateway", 4, 0)]

    def test_counting_what_waits_for_a_service_ends_at_a_limit(self) -> None:
        for _ in range(5):
            self.enqueue("send", service="gateway")
        assert self.store.demands(limit=3) == [Demand("gateway", 3, 0)]

    def test_a_retry_that_waits_for_its_budget_says_so_and_is_counted(self) -> None:
        self._serve(window=20, min_calls=10, open_at=1.0)
        retried, failed = Retry(SECOND, verdict(blames_service=True), {}), []
        for _ in range(14):
            self._ran(Succeed("null"))
            failed.append(self._ran(retried))
        self.advance(SECOND)
        self.claim("nothing")
        parked = [job for job in failed if self.job(job).gate == "budget/gateway"]
        assert parked
        assert self.store.demands(limit=100)[0].parked == len(parked)
        assert {self.job(job).gate for job in failed} == {"budget/gateway", None}
        for lease in self.claim("send", limit=50):
            self.store.settle([Outcome(lease, Succeed("null"))])
        assert not self.store.is_busy(["send"])
        assert self.store.is_busy(["send"], waiting_for=["retry"])

    @pytest.mark.parametrize(("what", "name"), LANES)
    def test_what_is_paused_is_not_waited_for(self, what: str, name: str) -> None:
        self.enqueue("send", queue="bulk", service="gateway")
        assert self.store.is_busy(["send"])
        self.store.pause(PauseRequest(id="p", what=what, name=name, duration=MINUTE))
        assert not self.store.is_busy(["send"])
        self.enqueue("send", queue="other", service="other") if what != "kind" else self.enqueue("read")
        assert self.store.is_busy(["send", "read"])
        self.advance(MINUTE)
        assert self.store.is_busy(["send"])

    def test_what_an_open_service_holds_is_not_waited_for(self) -> None:
        self._begin_outage()
        self.enqueue("send", service="gateway")
        assert not self.store.is_busy(["send"])
        self.enqueue("send", service="archive")
        assert self.store.is_busy(["send"])
        self.claim("send")
        self.advance(30 * SECOND)
        assert self.store.is_busy(["send"])

    def test_what_a_service_forced_open_holds_is_not_waited_for(self) -> None:
        self.enqueue("send", service="gateway")
        self.store.force(ServiceRequest(id="f", name="gateway", to="open"))
        assert not self.store.is_busy(["send"])

    @pytest.mark.parametrize(("what", "name"), LANES)
    def test_pauses_of_lanes_are_in_the_log_by_their_sort(self, what: str, name: str) -> None:
        self.store.pause(PauseRequest(id="p", what=what, name=name, actor="ann", reason="a move"))
        self.store.resume(PauseRequest(id="r", what=what, name=name, actor="bob"))
        paused, resumed = self.store.events()
        assert (paused.type, resumed.type) == pause_events(what) == (f"{what}.paused", f"{what}.resumed")
        assert (paused.actor, paused.data) == ("ann", {"what": what, "name": name, "reason": "a move"})

    def test_each_change_of_a_service_is_reported_once(self) -> None:
        (opened,) = self._begin_outage().changes
        assert (opened.service, opened.event, opened.data["failures"]) == ("gateway", "service.opened", 2)
        for _ in range(3):
            self.enqueue("send", service="gateway")
        self.advance(30 * SECOND)
        claimed = self.claimed("send")
        assert [change.event for change in claimed.changes] == ["service.half_opened"]
        assert self.claimed("send").changes == []
        closing = self.store.settle([Outcome(lease, Succeed("null")) for lease in claimed.leases])
        assert [change.event for change in closing.changes] == ["service.closed"]

    def test_why_a_service_is_open_is_kept_until_it_is_closed(self) -> None:
        self._begin_outage()
        trouble = self._gateway().trouble
        assert trouble is not None
        assert (trouble["because"], trouble["calls"], trouble["failures"]) == ("share", 2, 2)
        self.enqueue("send", service="gateway")
        self.advance(30 * SECOND)
        (probe,) = self.claim("send")
        assert (self._gateway().state, self._gateway().trouble) == ("half_open", trouble)
        self.store.settle([Outcome(probe, Succeed("null"))])
        assert self._gateway().trouble is None

    def test_a_failure_s_event_says_what_it_meant_for_services(self) -> None:
        self.enqueue("send", service="gateway")
        (lease,) = self.claim("send")
        outcome = Outcome(
            lease, Retry(MINUTE, verdict(blames_service=True), {}), calls=(ReportedCall("archive", ok=True),)
        )
        self.store.settle([outcome])
        told = {"gateway": {"ok": 0, "failed": 1}, "archive": {"ok": 1, "failed": 0}}
        assert self.events(lease.fence.id)[-1].data["services"] == told

    def _serve(self, **options: Any) -> None:
        self.book = ServiceBook([Service("gateway", **options)])

    def _begin_outage(self) -> Answers:
        """After two calls, for half a minute."""
        self._serve(window=2)
        for _ in range(2):
            self.enqueue("send", service="gateway")
        leases = self.claim("send", limit=2)
        failed = Retry(MINUTE * 60, verdict(blames_service=True), {})
        return self.store.settle([Outcome(lease, failed) for lease in leases])

    def _ran(self, decision: Any) -> str:
        job = self.enqueue("send", service="gateway")
        (lease,) = self.claim("send")
        self.store.settle([Outcome(lease, decision)])
        return job.id

    def _gateway(self) -> Any:
        (record,) = self.store.services()
        return record
