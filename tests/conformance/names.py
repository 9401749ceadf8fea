"""Computed names of services: a bounded number of each family is distinguished, and the others share one service."""

from datetime import timedelta
from typing import Any

import pytest

from conformance.bench import HOUR, WORKER, Bench, verdict
from mulligan.failure.decision import Cancel, Retry, Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.job import NewJob, ReportedCall
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import Family, ServiceRequest
from mulligan.store.messages import Outcome

DAY = timedelta(days=1)


class NameRules(Bench):
    def test_names_beyond_the_bound_share_the_service_of_their_pattern(self) -> None:
        self._allow(2)
        assert self._hosts("a", "b", "c", "b", "d", "a") == ["site:a", "site:b", "site:*", "site:b", "site:*", "site:a"]
        assert self.store.service_names() == [Family("site:*", 2, 2)]

    def test_of_many_that_come_at_once_no_more_than_there_is_room_for_get_a_name(self) -> None:
        self._allow(3)
        self._hosts("x")
        jobs = self.store.enqueue([self._for_host(str(number)) for number in range(10)])
        assert sorted(job.service for job in jobs) == ["site:*"] * 8 + ["site:0", "site:1"]
        assert self._names() == 3

    def test_a_name_that_a_task_or_the_app_gives_is_never_shared(self) -> None:
        self.book = ServiceBook([Service("site:*", most=1), Service("site:known")], default=Service("*", most=1))
        assert self._hosts("a", "b", "known") == ["site:a", "site:*", "site:known"]
        assert self.enqueue(service="site:fixed").service == "site:fixed"
        assert self.store.service_names() == [Family("site:*", 1, 1)]

    def test_each_family_has_its_own_room(self) -> None:
        patterns = [Service("site:*", most=1), Service("site:shop.*", most=2)]
        self.book = ServiceBook(patterns, default=Service("*", most=1))
        assert self._hosts("a", "b", "shop.a", "shop.b", "shop.c") == [
            "site:a",
            "site:*",
            "site:shop.a",
            "site:shop.b",
            "site:shop.*",
        ]
        assert [self.enqueue(service=name, is_service_computed=True).service for name in ("x", "y")] == ["x", "*"]
        assert self.store.service_names() == [Family("*", 1, 1), Family("site:*", 1, 1), Family("site:shop.*", 2, 2)]

    def test_a_larger_bound_is_used_and_a_smaller_one_removes_no_name(self) -> None:
        self._allow(1)
        assert self._hosts("a", "b") == ["site:a", "site:*"]
        self._allow(3)
        assert self._hosts("b", "c", "d") == ["site:b", "site:c", "site:*"]
        self._allow(1)
        assert self._hosts("a", "b", "c", "e") == ["site:a", "site:b", "site:c", "site:*"]

    def test_jobs_that_share_a_service_are_held_together_and_others_are_not(self) -> None:
        self._allow(1, window=2)
        self._hosts("a", "b", "c")
        failed = Retry(HOUR, verdict(blames_service=True), {})
        shared = [lease for lease in self.claim() if lease.service == "site:*"]
        self.store.settle([Outcome(lease, failed) for lease in shared])
        self._hosts("a", "d", "b")
        assert [lease.service for lease in self.claim()] == ["site:a"]

    def test_a_repeated_enqueue_is_the_same_job_whatever_room_there_is_by_then(self) -> None:
        self._allow(1)
        self._hosts("a")
        new = self._for_host("b")
        (first,) = self.store.enqueue([new])
        self._allow(2)
        (again,) = self.store.enqueue([new])
        assert (first.id, first.service) == (again.id, again.service) == (new.id, "site:*")

    def test_services_that_tasks_report_share_a_name_too_when_there_are_too_many(self) -> None:
        self._allow(2, window=1)
        self._call("site:a", "site:b", "site:c", "site:d")
        assert self._opened_by_calls() == ["site:*", "site:a", "site:b"]

    def test_a_call_of_a_known_service_is_recorded_under_its_own_name(self) -> None:
        self.book = ServiceBook([], default=Service("*", most=1, window=2, min_calls=1))
        self._call("other")
        self.settle(self.leased(service="gateway"), Succeed("null"))
        self._call("gateway", "new")
        assert self._opened_by_calls() == ["*", "gateway", "other"]

    def test_the_calls_a_task_reports_for_its_own_service_are_recorded_instead_of_its_result(self) -> None:
        self._allow(1, window=2)
        self._hosts("a", "b")
        shared = next(lease for lease in self.claim() if lease.service == "site:*")
        calls = (ReportedCall("site:b", ok=False), ReportedCall("site:b", ok=False))
        self.store.settle([Outcome(shared, Succeed("null"), calls=calls)])
        (opened,) = self.store.services()
        assert (opened.name, opened.state, opened.trouble and opened.trouble["calls"]) == ("site:*", "open", 2)

    @pytest.mark.parametrize("state", [State.WAITING, State.QUEUED, State.RUNNING])
    def test_a_name_is_kept_while_a_job_has_it_and_forgotten_a_day_later(self, state: State) -> None:
        self._allow(1)
        given = {"delay": 9 * DAY} if state is State.WAITING else {}
        job = self.in_state(state, service="site:a", is_service_computed=True, **given)
        for _ in range(3):
            self._pass_a_day()
            assert self._names() == 1
        self.move(Move.MANUAL_CANCEL, job.id)
        if state is State.RUNNING:
            self.settle(self.lease_of(self.job(job.id), incarnation=WORKER), Cancel({}))
        self._pass_a_day()
        self._pass_a_day()
        assert self._names() == 0
        assert self._hosts("b") == ["site:b"]

    def test_a_name_is_kept_while_something_is_known_of_its_service(self) -> None:
        self._allow(1)
        self._hosts("a")
        (lease,) = self.claim()
        self.settle(lease, Succeed("null"))
        self.store.force(ServiceRequest(id="f", name="site:a", to="open"))
        for _ in range(3):
            self._pass_a_day()
        assert self._names() == 1
        self.store.force(ServiceRequest(id="a", name="site:a", to="closed"))
        self.store.force(ServiceRequest(id="b", name="site:a", to=None))
        for _ in range(3):
            self._pass_a_day()
        assert self._names() == 0

    def test_a_name_that_two_brought_at_once_is_counted_once(self) -> None:
        self._allow(2)
        twin = self.twin()
        self._hosts("a")
        twin.enqueue([self._for_host("a")])
        assert self._hosts("b", "c") == ["site:b", "site:*"]

    # Words of this file

    def _allow(self, most: int, **options: Any) -> None:
        self.book = ServiceBook([Service("site:*", most=most, **options)])

    def _for_host(self, host: str, **options: Any) -> NewJob:
        return self.new(service=f"site:{host}", is_service_computed=True, **options)

    def _hosts(self, *hosts: str) -> list[str]:
        """The services of jobs for these hosts, stored one after the other."""
        return [job.service for host in hosts for job in self.store.enqueue([self._for_host(host)])]

    def _names(self) -> int:
        return sum(family.names for family in self.store.service_names())

    def _call(self, *names: str) -> None:
        """A job without a service reports that these failed it."""
        for name in names:
            lease = self.leased("calls")
            self.store.settle([Outcome(lease, Succeed("null"), calls=(ReportedCall(name, ok=False),))])

    def _opened_by_calls(self) -> list[str]:
        return [record.name for record in self.store.services() if record.state == "open"]

    def _pass_a_day(self) -> None:
        self.advance(DAY + HOUR)
        self.beat()
