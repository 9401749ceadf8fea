"""Damaged rows of services: only that service is affected, and it recovers."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from conformance.services import blaming
from mulligan.failure.decision import Succeed
from mulligan.records.job import Lease, NewJob
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Claim, Outcome
from mulligan.store.sqlite import SqliteStore
from mulligan.testing.virtual import VirtualClock

HUGE = 10**30
DAMAGE: dict[str, str] = {
    "nothing": "",
    "no JSON": "{",
    "another shape": "[1, 2]",
    "null": "null",
    "deep": "[" * 100_000,
    "another name": '{"name":"other","state":"open","epoch":1,"open_until":1}',
    "another epoch": '{"name":"gateway","state":"half_open","epoch":77}',
    "an unknown state": '{"name":"gateway","state":"ajar","epoch":1}',
    "a pace of nothing": '{"name":"gateway","epoch":1,"pace":{"rate":0.0,"stepped_at":0}}',
    "a pace below nothing": '{"name":"gateway","epoch":1,"pace":{"rate":-5.0,"stepped_at":0}}',
    "a pace beyond all": '{"name":"gateway","epoch":1,"pace":{"rate":1e308,"stepped_at":0}}',
    "a pace that creeps": '{"name":"gateway","epoch":1,"pace":{"rate":1e-300,"stepped_at":0}}',
    "no tokens": f'{{"name":"gateway","epoch":1,"bucket":{{"tokens":-1e300,"filled_at":{HUGE}}}}}',
    "for ever": f'{{"name":"gateway","state":"open","epoch":1,"open_until":{2**62},"hold":{2**62}}}',
    "long ago": '{"name":"gateway","state":"open","epoch":1,"open_until":-5,"hold":-5,"since":-99}',
    "probed enough": '{"name":"gateway","state":"half_open","epoch":1,"probes_succeeded":1000}',
}
TALLIES = ["", "{", "[]", "null", '{"epoch":1,"width":0,"last":[[1,true]],"slots":[[1,-5,-5,-5]]}', '{"epoch":99}']


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> Iterator[SqliteStore]:
    book = ServiceBook([Service("gateway", window=4, min_calls=4, cooldown="1s", rate="1000/s")])
    store = SqliteStore("sqlite:///:memory:", now=clock.now, threaded=False, services=lambda: book)
    yield store
    store.close()


class Desk:
    def __init__(self, store: SqliteStore, clock: VirtualClock) -> None:
        self.store, self.clock = store, clock
        self._number = 0

    def jobs(self, service: str, number: int) -> None:
        self._number += 1
        jobs = [
            NewJob(id=f"{service}-{self._number}-{n}", kind="k", arguments="{}", service=service) for n in range(number)
        ]
        self.store.enqueue(jobs)

    def claim(self) -> list[Lease]:
        self._number += 1
        claim = Claim(incarnation="w", number=self._number, kinds=["k"], limit=100, lease=timedelta(hours=1))
        return self.store.claim(claim).leases

    def settle(self, *decisions: Any) -> None:
        leases = [lease for lease in self.claim() if lease.service == "gateway"]
        self.store.settle([Outcome(lease, end) for lease, end in zip(leases, decisions, strict=False)])

    def write(self, statement: str, *values: object) -> None:
        self.store._database.write(lambda db: db.execute(statement, values))


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_service_state_harms_no_job_and_is_replaced(
    name: str, store: SqliteStore, clock: VirtualClock
) -> None:
    desk = Desk(store, clock)
    store.force(ServiceRequest(id="r", name="gateway", to="open"))
    desk.write("UPDATE mulligan_services SET standing = ?, ask_at = 0, hold = 0", DAMAGE[name])
    desk.jobs("gateway", 5)
    desk.jobs("", 2)
    assert [lease.service for lease in desk.claim()].count("") == 2
    assert [record.name for record in store.services()] == ["gateway"]
    store.force(ServiceRequest(id="s", name="gateway", to="closed"))
    store.force(ServiceRequest(id="t", name="gateway", to=None))
    clock.advance(timedelta(seconds=2))
    desk.jobs("gateway", 20)
    desk.settle(*[Succeed("1")] * 4, *[blaming()] * 4)
    assert json.loads(
        store._database.read(lambda db: db.execute("SELECT standing FROM mulligan_services").fetchone()[0])
    )


@pytest.mark.parametrize("text", TALLIES)
def test_damaged_call_counts_harm_no_job_and_start_again(text: str, store: SqliteStore, clock: VirtualClock) -> None:
    desk = Desk(store, clock)
    desk.jobs("gateway", 1)
    desk.settle(Succeed("1"))
    desk.write("UPDATE mulligan_tallies SET tally = ?", text)
    for _ in range(8):
        clock.advance(timedelta(seconds=1))
        desk.jobs("gateway", 1)
        desk.settle(blaming())
    assert [record.state for record in store.services()] != ["closed"]


def test_a_service_whose_row_is_deleted_opens_again(store: SqliteStore, clock: VirtualClock) -> None:
    desk = Desk(store, clock)
    store.force(ServiceRequest(id="r", name="gateway", to="closed"))
    store.force(ServiceRequest(id="s", name="gateway", to=None))
    desk.jobs("gateway", 1)
    clock.advance(timedelta(seconds=1))
    desk.settle(Succeed("1"))
    desk.write("DELETE FROM mulligan_services")
    for _ in range(5):
        clock.advance(timedelta(seconds=1))
        desk.jobs("gateway", 1)
        desk.settle(blaming())
    assert [record.state for record in store.services()] != ["closed"]
