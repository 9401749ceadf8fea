"""Growth by shape: thousands of owners, each waiting under its own limit, cost a claim no more than a few."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from postgres_server import emptied
from test_store_postgres_growth import BUFFERS, ROWS, Reading
from test_store_sqlite_growth import STEPS, steps_of
from transactions import on

from mulligan.records.job import NewJob
from mulligan.records.limit import LimitBook
from mulligan.store.limits import GATE
from mulligan.store.messages import Claim
from mulligan.store.postgres import PostgresStore
from mulligan.store.sqlite import SqliteStore

FEW, MANY = 100, 20_000
FACTOR = 1.5
BOOK = LimitBook(owners={"*": 1})
# One job of each owner runs and holds its slot, and one waits for it.
JOBS = """
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, priority, rank, state, waiting_for, gate, is_limited, arguments, max_attempts, max_crashes,
    max_snoozes, submitted_at, enqueued_at, due_at, updated_at, leased_by, claim, lease_until, attempt
)
WITH RECURSIVE number (n) AS (
    SELECT CAST({first} AS bigint) UNION ALL SELECT n + 1 FROM number WHERE n < {last}
)
SELECT state || n, 'other', 'owner-' || n, 'default', 0, n, state, CASE state WHEN 'waiting' THEN 'limit' END,
    CASE state WHEN 'waiting' THEN 'limit/owner/owner-' || n END, state = 'running', '{{}}', 5, 3,
    5, n, n, n, n, CASE state WHEN 'running' THEN 'w' END, CASE state WHEN 'running' THEN n END,
    CASE state WHEN 'running' THEN 4000000000000000 END, 1
FROM number CROSS JOIN (SELECT 'waiting' AS state UNION ALL SELECT 'running') AS each_state
"""


def wish(number: int) -> Claim:
    return Claim(incarnation="me", number=number, kinds=["mine"], limit=5, lease=timedelta(hours=1))


def mine() -> list[NewJob]:
    return [NewJob(id=f"mine-{n}", kind="mine", owner="me", arguments="{}") for n in range(5)]


def test_on_sqlite() -> None:
    store = SqliteStore("sqlite:///:memory:", threaded=False)
    store.limit_by(lambda: BOOK)
    store.claim(wish(1))
    store.enqueue(mine())

    def measured(first: int, last: int) -> int:
        store._database.write(lambda db: db.execute(JOBS.format(first=first, last=last)))
        store._limits._after = GATE
        return steps_of(store, lambda db: on(store, db).claim(wish(2)))

    few, many = measured(1, FEW), measured(FEW + 1, MANY)
    assert many <= few * FACTOR + STEPS
    assert len(store.claim(wish(3)).leases) <= 1
    store.close()


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
def test_on_postgres(database: str, plan: str) -> None:
    url = emptied(database)
    store = PostgresStore(url + "?notify=off")
    store.limit_by(lambda: BOOK)
    store.claim(wish(1))
    store.enqueue(mine())

    def measured(first: int, last: int) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(JOBS.format(first=first, last=last).encode())
            connection.execute("VACUUM ANALYZE mulligan_jobs")
        reading = Reading(url)
        try:
            reading._connection.prepare_threshold = 1
            reading.execute(f"SET plan_cache_mode = {plan}")
            for _ in range(3):
                # Else it would go on round the gates.
                store._limits._after = GATE
                found = reading.read_by(lambda db: on(store, db).claim(wish(2)))
        finally:
            reading.close()
        return found

    few, many = measured(1, FEW), measured(FEW + 1, MANY)
    assert few.buffers > 0
    assert many.rows <= few.rows * FACTOR + ROWS
    assert many.buffers <= few.buffers * FACTOR + 10 * BUFFERS
    store.close()
