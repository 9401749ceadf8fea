"""Many lanes: what a claim reads grows with the lanes of ready jobs and with what is wanted, not with both at once."""

from datetime import timedelta

import psycopg
import pytest
from postgres_server import PostgresServer
from test_store_postgres_growth import PLANS, Reading
from test_store_sqlite_growth import steps_of
from transactions import on

from mulligan.records.job import NewJob
from mulligan.service.config import Service, ServiceBook
from mulligan.store.messages import Claim
from mulligan.store.postgres import PostgresStore
from mulligan.store.postgres.session import PostgresSession
from mulligan.store.service_names import CHECKED_AT_ONCE
from mulligan.store.sqlite import SqliteStore
from mulligan.store.sqlite.session import SqliteSession

LANES, JOBS = 400, 24_000
WANTED = 100
READY = """
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, service, priority, rank, state, arguments, max_attempts, max_crashes, max_snoozes,
    submitted_at, enqueued_at, queued_at, due_at, updated_at
)
WITH RECURSIVE number (n) AS (
    SELECT CAST(1 AS bigint) UNION ALL SELECT n + 1 FROM number WHERE n < {jobs}
)
SELECT 'job-' || n, 'mine', '', 'default', 'site:' || (n % {lanes}), 0, n, 'queued', '{{}}', 5, 3, 5, n, n, n, n, n
FROM number
"""
NAMES = """
INSERT INTO mulligan_service_names (family, name, most, checked_at)
WITH RECURSIVE number (n) AS (
    SELECT CAST(1 AS bigint) UNION ALL SELECT n + 1 FROM number WHERE n < {names}
)
SELECT 'site:*', 'site:' || n, 10000, 4000000000000000
FROM number
"""
BOOK = ServiceBook([Service("site:*", most=10_000)])


def wish(limit: int = WANTED) -> Claim:
    return Claim(incarnation="me", number=1, kinds=["mine"], limit=limit, lease=timedelta(hours=1))


def known() -> list[NewJob]:
    return [NewJob(id="new", kind="mine", arguments="{}", service="site:7", is_service_computed=True)]


@pytest.mark.parametrize("plan", PLANS)
def test_on_postgres_a_claim_reads_a_few_jobs_of_each_lane(server: PostgresServer, plan: str) -> None:
    url = server.fresh_database(f"lanes_{plan}")
    store = PostgresStore(url + "?notify=off")
    store.migrate()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(READY.format(jobs=JOBS, lanes=LANES).encode())
        connection.execute("VACUUM ANALYZE")
    reading = Reading(url)
    reading._connection.prepare_threshold = 1
    reading.execute(f"SET plan_cache_mode = {plan}")
    for _ in range(3):
        few, many = (reading.read_by(lambda db, limit=limit: on(store, db).claim(wish(limit))) for limit in (1, WANTED))
    reading.close()
    store.close()
    # Twice each: in the index and in the table. The lane is found, then its first job.
    assert few.rows <= 5 * LANES
    # Once as many as the root of both is allowed, where one for each would be forty thousand.
    assert many.rows <= 12 * LANES + 20 * WANTED


def test_on_sqlite_a_claim_opens_no_more_lanes_than_it_takes_from() -> None:
    store = SqliteStore("sqlite:///:memory:", threaded=False)
    store._database.write(lambda db: db.execute(READY.format(jobs=JOBS, lanes=LANES)))
    one, many = (steps_of(store, lambda db, limit=limit: on(store, db).claim(wish(limit))) for limit in (1, WANTED))
    store.close()
    assert one <= 100 * LANES
    assert many <= one + 1_000 * WANTED


def test_on_postgres_a_job_whose_name_is_known_reads_no_other_name(server: PostgresServer) -> None:
    url = server.fresh_database("names")
    store = PostgresStore(url + "?notify=off", services=lambda: BOOK)
    store.migrate()
    reading, read = Reading(url), []
    with psycopg.connect(url, autocommit=True) as connection:
        for names in (10, 9_000):
            connection.execute(NAMES.format(names=names).encode())
            connection.execute("VACUUM ANALYZE")
            for _ in range(3):
                found = reading.read_by(lambda db: on(store, db).enqueue(known()))
            read.append(found)
    reading.close()
    store.close()
    assert read[1].rows <= read[0].rows + 20
    assert read[1].buffers <= read[0].buffers + 60


def test_on_sqlite_a_job_whose_name_is_known_reads_no_other_name() -> None:
    store, read = SqliteStore("sqlite:///:memory:", threaded=False, services=lambda: BOOK), []
    for names in (10, 9_000):
        store._database.write(lambda db, names=names: db.execute(NAMES.format(names=names)))
        read.append(steps_of(store, lambda db: on(store, db).enqueue(known())))
    store.close()
    assert read[1] <= read[0] + 300


# Each with a job that waits for days, so that none can be forgotten.
WAITING = """
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, service, priority, rank, state, waiting_for, arguments, max_attempts, max_crashes,
    max_snoozes, submitted_at, enqueued_at, due_at, updated_at
)
WITH RECURSIVE number (n) AS (
    SELECT CAST(1 AS bigint) UNION ALL SELECT n + 1 FROM number WHERE n < {jobs}
)
SELECT 'waits-' || n, 'mine', '', 'default', 'site:' || (n % 500), 0, n, 'waiting', 'delay', '{{}}', 5, 3, 5, n, n,
    4000000000000000, n
FROM number
"""


def test_on_sqlite_a_name_is_looked_up_among_the_jobs_that_wait() -> None:
    store = SqliteStore("sqlite:///:memory:", threaded=False, services=lambda: BOOK)
    store._database.write(lambda db: db.execute(WAITING.format(jobs=JOBS)))
    store._database.write(lambda db: db.execute(NAMES.format(names=400).replace("4000000000000000", "1")))
    read = steps_of(store, lambda db: store._services.names.forget(SqliteSession(db, store._backend.clock)))
    store.close()
    assert read <= 200 * CHECKED_AT_ONCE


def test_on_postgres_a_name_is_looked_up_among_the_jobs_that_wait(server: PostgresServer) -> None:
    url = server.fresh_database("forgetting")
    store = PostgresStore(url + "?notify=off", services=lambda: BOOK)
    store.migrate()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(WAITING.format(jobs=JOBS).encode())
        connection.execute(NAMES.format(names=400).replace("4000000000000000", "1").encode())
        connection.execute("VACUUM ANALYZE")
    reading = Reading(url)
    read = reading.read_by(lambda db: store._services.names.forget(PostgresSession(db, None)))
    reading.close()
    store.close()
    assert read.rows <= 20 * CHECKED_AT_ONCE
