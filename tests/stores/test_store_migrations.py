"""From schema to schema: stored data stays, and code of the previous version keeps working."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer

from conformance.bench import retrying
from mulligan.failure.decision import Succeed
from mulligan.records.event import EventFilter
from mulligan.records.job import JobFilter, NewJob
from mulligan.store.messages import Claim, Outcome, Settled
from mulligan.store.postgres import PostgresStore
from mulligan.store.postgres import schema as postgres_schema
from mulligan.store.sqlite import SqliteStore
from mulligan.store.sqlite import schema as sqlite_schema
from mulligan.testing.virtual import VirtualClock
from new_database import every_migration

# As code of schema 1 stores a job: it knows of no timeout.
OLD_INSERT = """
INSERT INTO mulligan_jobs (id, kind, queue, priority, rank, state, queued_at, arguments, max_attempts, max_crashes,
    max_snoozes, submitted_at, enqueued_at, due_at, updated_at)
VALUES ('{id}', 'k', 'default', 0, 1, 'queued', 1, '{{}}', 4, 3, 5, 1, 1, 1, 1)
"""
HOUR = timedelta(hours=1)


class Place:
    """A database made by schema 1, and the store of today on it."""

    def __init__(self, open_store: Callable[[Any], Any], schema: Any, run: Callable[[Any, Any], Any]) -> None:
        self.clock = VirtualClock()
        self.open, self.schema, self.run = lambda: open_store(self.clock.now), schema, run


@pytest.fixture(params=["sqlite", "postgres"])
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db"
        place = Place(
            lambda now: SqliteStore(url, now=now), sqlite_schema, lambda store, work: store._database.write(work)
        )
    else:
        server: PostgresServer = request.getfixturevalue("server")
        url = server.fresh_database("old")
        place = Place(
            lambda now: PostgresStore(url, now=now), postgres_schema, lambda store, work: store._connections.run(work)
        )
    with monkeypatch.context() as patch:
        patch.setattr(place.schema, "MIGRATIONS", place.schema.MIGRATIONS[:1])
        patch.setattr(place.schema, "VERSION", 1)
        store = place.open()
        store.migrate()
        place.run(store, lambda db: db.execute(OLD_INSERT.format(id="before")))
        store.close()
    yield place


def test_a_database_of_schema_1_is_brought_up_to_date_with_its_jobs(old: Place) -> None:
    store = old.open()
    applied = store.migrate()
    assert applied in ([], [name for _, name, _ in old.schema.MIGRATIONS[1:]]), "SQLite did it when it was opened"
    (job,) = store.jobs(JobFilter()).jobs
    assert (job.id, job.timeout) == ("before", None)
    (lease,) = store.claim(Claim(incarnation="w", number=1, kinds=["k"], limit=5, lease=HOUR)).leases
    assert store.settle([Outcome(lease, retrying())]) == [Settled.ACCEPTED]
    assert (store.pauses(), store.duty_runs(), store.migrate()) == ([], [], [])
    store.close()


def test_jobs_stored_by_code_of_schema_1_are_run_and_are_stuck_by_the_limit_alone(old: Place) -> None:
    store = old.open()
    store.migrate()
    old.run(store, lambda db: db.execute(OLD_INSERT.format(id="later")))
    store.enqueue([NewJob(id="new", kind="k", arguments="{}", timeout=HOUR)])
    leases = store.claim(Claim(incarnation="w", number=1, kinds=["k"], limit=5, lease=HOUR)).leases
    assert {lease.fence.id: lease.job.timeout for lease in leases} == {"before": None, "later": None, "new": HOUR}
    old.clock.advance(HOUR / 2)
    assert {lease.fence.id for lease in store.stuck(after=HOUR / 4)} == {"before", "later"}
    assert set(store.settle([Outcome(lease, Succeed("1")) for lease in leases])) == {Settled.ACCEPTED}
    store.close()


def test_code_of_schema_1_may_go_on(old: Place) -> None:
    store = old.open()
    store.migrate()
    assert old.run(store, old.schema.version) == (old.schema.VERSION, 1)
    store.close()


def test_new_databases_of_the_tests_are_like_those_of_users(tmp_path: Path) -> None:
    def contents(name: str) -> list[str]:
        SqliteStore(f"sqlite:///{tmp_path}/{name}").close()
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            return [*connection.iterdump(), *map(str, connection.execute("PRAGMA journal_mode"))]

    copied = contents("copied.db")
    with every_migration():
        assert contents("migrated.db") == copied


def test_a_worker_goes_on_while_another_migrates(server: PostgresServer) -> None:
    """Its connections have prepared statements for the table as it was."""
    url = server.fresh_database("changing")
    store = PostgresStore(url)
    store.migrate()
    for number in range(1, 16):
        if number == 8:
            with psycopg.connect(url) as db:
                db.execute("ALTER TABLE mulligan_jobs ADD COLUMN of_tomorrow integer")
        store.enqueue([NewJob(id=f"{number}", kind="k", arguments="{}")])
        claim = Claim(incarnation="w", number=number, kinds=["k"], limit=5, lease=HOUR, whole=True)
        (lease,) = store.claim(claim).leases
        assert store.settle([Outcome(lease, Succeed("1"))]) == [Settled.ACCEPTED]
        assert store.job(f"{number}").result == 1
    store.close()


def test_grants_on_the_jobs_survive_a_rebuild_of_the_table(server: PostgresServer) -> None:
    url = server.fresh_database("granted")
    with psycopg.connect(url, autocommit=True) as db:
        for _, _, text in postgres_schema.MIGRATIONS:
            if "mulligan_jobs_in_order" in text:
                db.execute(
                    "CREATE ROLE reader_of_jobs; GRANT SELECT ON mulligan_jobs TO reader_of_jobs WITH GRANT OPTION"
                )
                db.execute("GRANT SELECT ON mulligan_jobs_for_people TO PUBLIC")
                db.execute(OLD_INSERT.format(id="before"))
            db.execute(text.encode())
        db.execute("SET ROLE reader_of_jobs")
        for table in ("mulligan_jobs", "mulligan_jobs_for_people"):
            assert db.execute(f"SELECT id FROM {table}").fetchall() == [("before",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("DELETE FROM mulligan_jobs")
        db.execute("GRANT SELECT ON mulligan_jobs TO PUBLIC; RESET ROLE")


OLD_EVENT = """
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at)
VALUES ('job.enqueued', 'before', 'k', '', 0, 1)
"""


@pytest.mark.parametrize("is_any_gone", [False, True])
def test_a_reader_learns_whether_events_may_have_been_deleted_before_that_was_noted(
    old: Place, monkeypatch: pytest.MonkeyPatch, is_any_gone: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(old.schema, "MIGRATIONS", old.schema.MIGRATIONS[:1])
        patch.setattr(old.schema, "VERSION", 1)
        store = old.open()
        for _ in range(3):
            old.run(store, lambda db: db.execute(OLD_EVENT))
        if is_any_gone:
            old.run(store, lambda db: db.execute(OLD_EVENT.replace("job.enqueued", "job.started")))
            old.run(store, lambda db: db.execute("DELETE FROM mulligan_events WHERE type = 'job.started'"))
        store.close()
    store = old.open()
    store.migrate()
    page = store.stream(EventFilter())
    assert (len(page.events), page.is_end, page.is_pruned) == (3, True, is_any_gone)
    assert not store.stream(EventFilter(), after=page.position).is_pruned
    store.close()
