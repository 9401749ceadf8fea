"""`python -m bench.reading`: counts and pages with a million jobs in the store."""

import sqlite3
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median

import psycopg

from bench.place import Place, opened
from mulligan import App, JobFilter, State
from mulligan.store.store import Store

JOBS, QUICK_JOBS = 1_000_000, 100_000
REPEATS = 15
TARGET_MS = 20
RARE, COMMON = "group-7", "group-common"

# Of ten jobs one has failed, and of a hundred one is live; half of the failures are of one group.
VALUES = {
    "id": "'01900000-0000-7000-8000-' || {padded}",
    "kind": "'kind-' || (number % 20)",
    "owner": "'owner-' || (number % 1000)",
    "queue": "'default'",
    "priority": "0",
    "rank": "number",
    "state": "state",
    "waiting_for": "CASE state WHEN 'waiting' THEN 'retry' END",
    "arguments": "'{{}}'",
    "attempt": "1",
    "max_attempts": "4",
    "max_crashes": "3",
    "max_snoozes": "100",
    "submitted_at": "{now}",
    "enqueued_at": "{now}",
    "due_at": "{now}",
    "updated_at": "{now}",
    "finished_at": "CASE WHEN state IN ('succeeded', 'failed', 'cancelled') THEN {now} + number END",
    "result": "CASE state WHEN 'succeeded' THEN '1' END",
    "error_code": "CASE state WHEN 'failed' THEN 'CODE_' || (number % 30) END",
    "error_class": "CASE state WHEN 'failed' THEN 'final' END",
    "error_message": "CASE state WHEN 'failed' THEN 'it failed' END",
    "error_group": "CASE WHEN state <> 'failed' THEN NULL WHEN number % 20 = 0 THEN 'group-common'"
    " ELSE 'group-' || (number % 1000 / 10) END",
    "leased_by": "CASE state WHEN 'running' THEN 'worker' END",
    "claim": "CASE state WHEN 'running' THEN 1 END",
    "lease_until": "CASE state WHEN 'running' THEN {now} END",
    "batch": "CASE WHEN number % 50 = 0 THEN 'batch-' || (number / 5000) END",
    "dedupe_key": "CASE WHEN number % 100 = 1 THEN 'key-' || number END",
    "dedupe_scope": "CASE WHEN number % 100 = 1 THEN 'succeeded' ELSE 'active' END",
}
STATES = """
SELECT number, CASE WHEN number % 10 = 0 THEN 'failed' WHEN number % 100 = 11 THEN 'queued'
    WHEN number % 1000 = 21 THEN 'waiting' WHEN number % 1000 = 31 THEN 'running'
    WHEN number % 100 = 41 THEN 'cancelled' ELSE 'succeeded' END AS state
FROM {numbers}
"""
RECURSIVE = """(
    WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {jobs})
    SELECT number FROM numbers
) AS numbers"""

NOW = timedelta(days=20_000) // timedelta(microseconds=1)


def insert(padded: str, numbers: str) -> str:
    columns, values = ", ".join(VALUES), ", ".join(VALUES.values()).format(padded=padded, now=NOW)
    return f"INSERT INTO mulligan_jobs ({columns}) SELECT {values} FROM ({STATES.format(numbers=numbers)}) AS jobs"


def fill_postgres(url: str, jobs: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(insert("lpad(number::text, 12, '0')", f"generate_series(1, {jobs}) AS number").encode())
        connection.execute("VACUUM ANALYZE mulligan_jobs")


def fill_sqlite(path: Path, jobs: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(insert("printf('%012d', number)", RECURSIVE.format(jobs=jobs)))
    connection.commit()
    connection.close()


def queries(store: Store) -> dict[str, Callable[[], object]]:
    return {
        "counts by state": lambda: store.count(JobFilter()),
        "counts by kind": lambda: store.count(JobFilter(), by="kind"),
        "counts by group": lambda: store.count(JobFilter(), by="group"),
        "counts by state of a kind": lambda: store.count(JobFilter(kind="kind-3")),
        "counts by state of an owner": lambda: store.count(JobFilter(owner="owner-3")),
        "counts by code of a group": lambda: store.count(JobFilter(group=COMMON), by="code"),
        "page of a large group": lambda: store.jobs(JobFilter(group=COMMON)),
        "page of a small group": lambda: store.jobs(JobFilter(group=RARE)),
        "page of failed jobs": lambda: store.jobs(JobFilter(state=State.FAILED)),
        "page of two states": lambda: store.jobs(JobFilter(state=[State.FAILED, State.CANCELLED])),
        "page of a code": lambda: store.jobs(JobFilter(code="CODE_20")),
    }


def measure(place: Place, jobs: int) -> str:
    rows = [f"| {jobs:,} jobs | PostgreSQL, ms | SQLite, ms |", "| --- | --- | --- |"]
    measured: list[dict[str, float]] = []
    for url, fill in databases(place):
        app = App(url)
        app.migrate()
        fill(jobs)
        measured.append({name: milliseconds(query) for name, query in queries(app.store).items()})
        app.close()
    for name, value in measured[0].items():
        other = measured[1][name]
        rows.append(f"| {name} | {value:.1f} | {other:.1f} |")
    return "\n".join(rows) + f"\ntarget: counts by state and pages of a group in {TARGET_MS} ms"


def databases(place: Place) -> list[tuple[str, Callable[[int], None]]]:
    postgres, path = place.fresh_database("reading"), place.folder / "reading.db"
    return [
        (postgres, lambda jobs: fill_postgres(postgres, jobs)),
        (f"sqlite:///{path}", lambda jobs: fill_sqlite(path, jobs)),
    ]


def milliseconds(query: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        query()
        times.append(time.perf_counter() - start)
    return median(times) * 1_000


if __name__ == "__main__":
    with opened() as place:
        print(measure(place, QUICK_JOBS if "--quick" in sys.argv else JOBS))
