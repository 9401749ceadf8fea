"""Services under races: transactions that hold a service's row while others claim, settle and promote."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from threading import Barrier

import pytest
from test_store_postgres_races import IMPATIENT, Racing
from transactions import held, meanwhile, on, promote_on, until_blocked

from conformance.bench import HOUR, MINUTE, SECOND, verdict
from conformance.services import blaming
from mulligan.failure.decision import Retry, Succeed
from mulligan.records.job import Lease
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Outcome, Settled
from mulligan.store.postgres import PostgresStore, connections

COOLDOWN = 30 * SECOND


class TestServiceRaces(Racing):
    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return PostgresStore(self.url + IMPATIENT, now=now, services=self.services)

    open_twin = open_store

    @pytest.fixture(autouse=True)
    def _services(self) -> None:
        self._probes = 1

    def services(self) -> ServiceBook:
        services = [Service(name, window=4, min_calls=4, cooldown=COOLDOWN, probes=self._probes) for name in "ab"]
        return ServiceBook([*services, Service("c", window=20, min_calls=10, open_at=1.0)])

    @pytest.mark.parametrize("ends", ["commit", "rollback"])
    def test_two_claims_do_not_take_one_permit(self, ends: str) -> None:
        self._due()
        with held(self.url) as other:
            assert len(on(self.store, other).claim(self.wish(by="w1")).leases) == 1
            with meanwhile(lambda: self.claim(by="w2")) as second:
                until_blocked(self.url)
                getattr(other, ends)()
        assert len(second.result()) == (0 if ends == "commit" else 1)
        assert self._running() == 1

    def test_a_settle_goes_on_when_its_prepared_statements_were_forgotten(self) -> None:
        self.store.enqueue([self.new() for _ in range(2)])
        first, second = self.claim(limit=2)
        self.store.settle([Outcome(first, Succeed("1"))])
        for connection in self.store._connections._idle:
            connection.pgconn.exec_(b"DEALLOCATE ALL")
        assert self.store.settle([Outcome(second, Succeed("1"))]) == [Settled.ACCEPTED]

    def test_of_two_settles_of_one_worker_no_call_result_is_lost(self) -> None:
        leases = self._leases("a", 4)
        with held(self.url) as other:
            on(self.store, other.begin()).settle([Outcome(lease, blaming()) for lease in leases[:2]])
            with meanwhile(lambda: self.store.settle([Outcome(lease, blaming()) for lease in leases[2:]])) as second:
                until_blocked(self.url)
                other.commit()
        second.result()
        assert self._state("a") == "open"

    def test_a_permit_given_back_meanwhile_is_not_lost(self) -> None:
        self._due(probes=2)
        first, second = self.claim(by="w1", limit=2)
        self._more()
        with held(self.url) as other:
            on(self.store, other.begin()).settle([Outcome(first, Succeed("1"))])
            with meanwhile(lambda: self.claim(by="w2")) as claimed:
                until_blocked(self.url)
                other.commit()
        assert claimed.result() == [], "one probe succeeded, one is running"
        self.store.settle([Outcome(second, Succeed("1"))])
        assert self._state("a") == "closed"

    def test_a_probe_that_fails_meanwhile_stops_admission(self) -> None:
        self._due()
        (probe,) = self.claim(by="w1")
        self._more()
        with held(self.url) as other:
            on(self.store, other.begin()).settle([Outcome(probe, blaming())])
            with meanwhile(lambda: self.claim(by="w2")) as claimed:
                until_blocked(self.url)
                other.commit()
        assert claimed.result() == []
        assert self._state("a") == "open"

    def test_a_claim_beside_a_settle_that_opens_does_not_wait_and_sees_the_previous_state(self) -> None:
        leases = self._leases("a", 4)
        self._more()
        with held(self.url) as other:
            on(self.store, other.begin()).settle([Outcome(lease, blaming()) for lease in leases])
            late = self.claim(by="w2")
            assert [lease.service_epoch for lease in late] == [0, 0, 0]
            other.commit()
        assert self._state("a") == "open"
        self.store.settle([Outcome(lease, Succeed("1")) for lease in late])
        assert self._state("a") == "open"
        self._more()
        assert self.claim(by="w3") == []

    def test_a_settle_waits_for_a_claim_that_has_the_service_and_loses_nothing(self) -> None:
        self._due(probes=2)
        (first,) = self.claim(by="w1", limit=1)
        with held(self.url) as other:
            (second,) = on(self.store, other).claim(self.wish(by="w2")).leases
            with meanwhile(lambda: self.store.settle([Outcome(first, Succeed("1"))])) as settled:
                until_blocked(self.url)
                other.commit()
        assert settled.result().not_closed == {"a": 2}
        self.store.settle([Outcome(second, Succeed("1"))])
        assert self._state("a") == "closed"

    def test_settles_of_two_services_in_opposite_orders_never_meet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "REPEATS", 0)
        stores, rounds = [self.store, self.twin()], 20
        start = Barrier(len(stores), timeout=10.0)
        work = [
            [[*self._leases(first, 1, by=by), *self._leases(second, 1, by=by)] for _ in range(rounds)]
            for by, first, second in (("w1", "a", "b"), ("w2", "b", "a"))
        ]

        def settle(place: int) -> None:
            for leases in work[place]:
                start.wait()
                stores[place].settle([Outcome(lease, blaming()) for lease in leases])

        with ThreadPoolExecutor(len(stores)) as pool:
            list(pool.map(settle, range(len(stores))))
        assert (self._state("a"), self._state("b")) == ("open", "open")

    def test_two_claims_admit_no_more_retries_than_the_budget_has(self) -> None:
        leases = self._leases("c", 30)
        for number in range(10):
            ends = [Succeed("1"), blaming(400 * 24 * HOUR)]
            self.store.settle([Outcome(lease, end) for lease, end in zip(self._leases("c", 2), ends, strict=True)])
            assert number < 9 or self.store.services()[0].is_failing
        self.store.settle([Outcome(lease, Retry(MINUTE, verdict(), {})) for lease in leases])
        self.advance(2 * MINUTE)
        assert self.store.promote("retry", limit=100) == 0, "all are parked"
        with held(self.url) as other:
            assert promote_on(self.store, other.begin())[0].has_budget
            with meanwhile(lambda: self.claim(by="w2")) as claimed:
                until_blocked(self.url)
                other.commit()
        assert len(claimed.result()) == 10
        assert self.store.counts()["send"]["waiting"] == 30

    def test_forcing_waits_for_a_claim_and_overrides_it(self) -> None:
        self._due()
        with held(self.url) as other:
            (probe,) = on(self.store, other).claim(self.wish(by="w1")).leases
            request = ServiceRequest(id="r", name="a", to="open")
            with meanwhile(partial(self.store.force, request)) as forced:
                until_blocked(self.url)
                other.commit()
        assert forced.result().state == "open"
        self.store.settle([Outcome(probe, Succeed("1"))])
        assert self._state("a") == "open"

    # Words of this file

    def _due(self, *, probes: int = 1) -> None:
        """An open service that is to be probed, and jobs for it."""
        self._probes = probes
        self.store.settle([Outcome(lease, blaming(400 * 24 * HOUR)) for lease in self._leases("a", 4)])
        assert self._state("a") == "open"
        self.advance(COOLDOWN)
        self._more()

    def _more(self) -> None:
        self.store.enqueue([self.new(service="a") for _ in range(3)])

    def _leases(self, service: str, number: int, *, by: str = "w") -> list[Lease]:
        self.store.enqueue([self.new(service=service) for _ in range(number)])
        leases = self.claim(by=by, limit=number)
        assert {lease.service for lease in leases} == {service}
        return leases

    def _running(self) -> int:
        return self.store.counts()["send"]["running"]

    def _state(self, name: str) -> str:
        return {record.name: record.state for record in self.store.services()}[name]
