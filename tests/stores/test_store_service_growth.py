"""Growth by shape: jobs held for services, and held services, cost unrelated jobs nothing."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from test_store_postgres_growth import BUFFERS, ROWS, reads
from test_store_sqlite_growth import STEPS, steps_of
from transactions import on

from conformance.bench import worker
from conformance.services import blaming
from mulligan.failure.decision import Succeed
from mulligan.records.job import NewJob
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Beat, Claim, Outcome
from mulligan.store.postgres import PostgresStore
from mulligan.store.sqlite import SqliteStore

# `MULLIGAN_HELD_JOBS=1000000` makes it a million.
FEW, MANY = 100, int(os.environ.get("MULLIGAN_HELD_JOBS", "50000"))
FACTOR = 1.5
FAR = 4_000_000_000_000_000

NUMBERS = """
WITH RECURSIVE number (n) AS (
    SELECT CAST({first} AS bigint) UNION ALL SELECT n + 1 FROM number WHERE n < {last}
)
"""
# A third waits for an open service, a third are retries of one that is failing, a third is running for another.
JOBS = """
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, service, priority, rank, state, waiting_for, arguments, max_attempts, max_crashes,
    max_snoozes, submitted_at, enqueued_at, due_at, updated_at, gate, failures, leased_by, claim, lease_until, attempt
)
SELECT 'other-' || n, 'mine', '', 'default', CASE n % 3 WHEN 0 THEN 'down' WHEN 1 THEN 'slow' ELSE 'busy' END, -10, n,
    CASE n % 3 WHEN 0 THEN 'queued' WHEN 1 THEN 'waiting' ELSE 'running' END,
    CASE n % 3 WHEN 1 THEN 'retry' END, '{{}}', 5, 3, 5, n, n, n, n,
    CASE n % 3 WHEN 1 THEN 'budget/slow' END, CASE n % 3 WHEN 1 THEN 1 ELSE 0 END,
    CASE n % 3 WHEN 2 THEN 'worker-' || n % 50 END, CASE n % 3 WHEN 2 THEN n END,
    CASE n % 3 WHEN 2 THEN {far} END, 1
FROM number
"""
# Thousands that are open, thousands of which there is nothing to know but that they were called.
SERVICES = """
INSERT INTO mulligan_services (name, standing, epoch, is_restricted, ask_at, hold, is_failing, updated_at)
SELECT 'site:' || n, '{{"name":"site:' || n || '","state":"open","epoch":1,"open_until":{far},"hold":{far}}}', 1,
    {true}, {far}, {far}, {false}, {far}
FROM number
"""
TALLIES = """
INSERT INTO mulligan_tallies (service, worker, tally, updated_at)
SELECT 'site:' || n, 'worker-' || n % 50, '{{}}', {far}
FROM number
"""


class Ours:
    def __init__(self, store: Any) -> None:
        self.store = store
        store.force(ServiceRequest(id="down", name="down", to="open"))
        self._let_slow_fail()
        store.enqueue([self._new(f"running-{n}", "free") for n in range(10)])
        self.leases = store.claim(self._wish(10_000)).leases
        assert {lease.service for lease in self.leases} == {"free"}
        store.enqueue([self._new(f"queued-{n}", service) for n in range(30) for service in ("free", "")])

    def _let_slow_fail(self) -> None:
        """Enough to let retries wait for the budget; all of that is in flight already."""
        self.store.enqueue([self._new(f"slow-{n}", "slow") for n in range(40)])
        leases = [lease for number in range(4) for lease in self.store.claim(self._wish(number)).leases]
        ends = [blaming(timedelta(days=9)) if n % 5 == 0 else Succeed("1") for n in range(40)]
        for lease, end in zip(leases, ends, strict=True):
            self.store.settle([Outcome(lease, end)])
        assert next(record for record in self.store.services() if record.name == "slow").is_failing

    def _new(self, job_id: str, service: str) -> NewJob:
        return NewJob(id=f"{job_id}{service}", kind="mine", arguments="{}", service=service)

    def _wish(self, number: int) -> Claim:
        return Claim(incarnation="me", number=number, kinds=["mine"], limit=10, lease=timedelta(hours=1))

    def operations(self) -> dict[str, Callable[[Any], object]]:
        fences = [lease.fence for lease in self.leases]
        beat = Beat(worker=worker("me"), lease=timedelta(hours=1), extend=fences)
        failed = [Outcome(lease, blaming()) for lease in self.leases[:2]]
        return {
            "claim": lambda db: on(self.store, db).claim(self._wish(20_000)),
            "claim again": lambda db: on(self.store, db).claim(self._wish(10_000)),
            "settle": lambda db: on(self.store, db).settle([Outcome(lease, Succeed("1")) for lease in self.leases]),
            "settle of failures": lambda db: on(self.store, db).settle(failed),
            "beat": lambda db: on(self.store, db).beat(beat),
        }


def others(first: int, last: int, **words: str) -> list[str]:
    return [
        (into.split("\nSELECT")[0] + NUMBERS + "SELECT" + into.split("\nSELECT", 1)[1]).format(
            first=first, last=last if into is JOBS else first + (last - first) // 5, far=FAR, **words
        )
        for into in (JOBS, SERVICES, TALLIES)
    ]


def test_on_sqlite_jobs_held_for_services_delay_no_other() -> None:
    store = SqliteStore("sqlite:///:memory:", threaded=False)
    ours, found = Ours(store), {}
    for first, size in ((1, FEW), (FEW + 1, MANY)):
        for statement in others(first, size, true="1", false="0"):
            store._database.write(lambda db, statement=statement: db.execute(statement))
        found[size] = {name: steps_of(store, operation) for name, operation in ours.operations().items()}
    store.close()
    grown = {name: (few, found[MANY][name]) for name, few in found[FEW].items()}
    assert {name: steps for name, steps in grown.items() if steps[1] > steps[0] * FACTOR + STEPS} == {}


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
def test_on_postgres_jobs_held_for_services_delay_no_other(server: PostgresServer, plan: str) -> None:
    url = server.fresh_database(f"held_{plan}")
    store = PostgresStore(url + "?notify=off")
    store.migrate()
    ours, found = Ours(store), {}
    with psycopg.connect(url, autocommit=True) as connection:
        for first, size in ((1, FEW), (FEW + 1, MANY)):
            for statement in others(first, size, true="true", false="false"):
                connection.execute(statement.encode())
            connection.execute("VACUUM ANALYZE")
            found[size] = reads(url, ours, plan)
    store.close()
    grown = {name: (few, found[MANY][name]) for name, few in found[FEW].items()}
    assert {
        name: (few, many)
        for name, (few, many) in grown.items()
        if many.rows > few.rows * FACTOR + ROWS or many.buffers > few.buffers * FACTOR + BUFFERS
    } == {}
