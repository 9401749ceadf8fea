"""Admissions on PostgreSQL: in few round trips, by keys in tables that have grown since their plans were made, and on
an event loop as in a thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
from postgres_server import PostgresServer, emptied

from live import SOON
from mulligan.errors import StoreError
from mulligan.records.admission import (
    Admission,
    AdmissionRequest,
    Admitted,
    EndedRequest,
    InFlight,
    NewAuditEntry,
    RateExceeded,
)
from mulligan.records.rate import parse_rate
from mulligan.store.postgres import PostgresStore
from mulligan.store.postgres.session import SQL
from mulligan.store.session import RoundTrips
from mulligan.web.access.admissions import Admissions

GROWN = """
INSERT INTO mulligan_audit (id, at, actor, action) SELECT 'old-' || n, n, 'a', 'b' FROM generate_series(1, 5000) n;
INSERT INTO mulligan_in_flight (mark, holder, until, at) SELECT 'm-' || n, 'h', 0, 0 FROM generate_series(1, 5000) n;
INSERT INTO mulligan_request_rates (subject, at, full_at) SELECT 's-' || n, 0, 0 FROM generate_series(1, 5000) n
"""
READ = """
SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::bigint AS number FROM pg_class
WHERE relname IN ('mulligan_audit', 'mulligan_in_flight', 'mulligan_request_rates')
"""


@pytest.fixture(params=["direct", "through pgbouncer"])
def store(request: pytest.FixtureRequest, database: str) -> Iterator[PostgresStore]:
    """It has an idle connection, as after any call."""
    url = request.getfixturevalue("proxied") if request.param == "through pgbouncer" else database
    emptied(database)
    with closing(PostgresStore(url)) as store:
        store.now()
        yield store


def wanted(name: str) -> AdmissionRequest:
    entry = NewAuditEntry(id=f"entry-{name}", actor="a", action="POST /jobs", request_id=f"mark-{name}")
    return AdmissionRequest(subject=f"key/{name}", rate=parse_rate("9/s"), change=entry, is_marked=True)


def ended(name: str) -> EndedRequest:
    return EndedRequest(f"entry-{name}", f"mark-{name}", 201)


def test_a_table_that_has_grown_is_read_by_key(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SQL, "rows_read", READ)
    url = server.fresh_database("admissions")
    with closing(PostgresStore(url)) as store:
        store.migrate()
        # Nothing analyses the tables meanwhile.
        with psycopg.connect(url, autocommit=True) as other:
            for table in ("audit", "in_flight", "request_rates"):
                other.execute(f"ALTER TABLE mulligan_{table} SET (autovacuum_enabled = false)")
            store.admit([wanted("first")])
            store.admit([wanted("second")], [ended("first")])
            other.execute(GROWN)

        def count() -> RoundTrips[int]:
            last, _ = yield from store._admissions.admit([wanted("third")], [ended("second")])
            return [*last, ("rows_read", {})], lambda found: found[-1][0]["number"]

        assert store._backend.write_by_key(count) < 100


def test_an_admission_that_fails_leaves_nothing_and_the_next_works(store: PostgresStore) -> None:
    class Fault(Exception):
        pass

    def fail() -> RoundTrips[None]:
        yield from store._admissions.admit([wanted("one")], [])
        raise Fault

    for _ in range(3):
        with pytest.raises(Fault):
            store._backend.write_by_key(fail)
    assert store.audit() == []
    (answer,) = store.admit([wanted("one")])
    assert isinstance(answer, Admitted)
    store.admit([], [ended("one")])
    assert [(entry.id, entry.status) for entry in store.audit()] == [("entry-one", 201)]


def test_a_statement_with_the_commit_that_fails_leaves_nothing(store: PostgresStore) -> None:
    def write() -> RoundTrips[None]:
        yield [("request_rates_lock", {"subjects": '["key/one"]'})]
        charges = '[{"subject": "key/one", "remaining": "x"}]'
        return [("request_rates_write", {"charges": charges})], lambda _: None

    with pytest.raises(StoreError, match="double precision"):
        store._backend.write_by_key(write)
    count = store._backend.read(lambda session: session.execute("SELECT 1 FROM mulligan_request_rates", {}))
    assert count == []
    assert isinstance(store.admit([wanted("one")])[0], Admitted)


# On an event loop


def change(name: str, *, mark: str | None = None, actor: str = "ops") -> AdmissionRequest:
    entry = NewAuditEntry(id=name, actor=actor, action="POST /jobs", request_id=mark)
    return AdmissionRequest(
        subject=f"key/{name}", rate=parse_rate("1/h"), change=entry, is_marked=mark is not None, used_key="k"
    )


def admit(store: PostgresStore, *wanted: AdmissionRequest, ended: tuple[EndedRequest, ...] = ()) -> list[Admission]:
    async def run() -> list[Admission]:
        before = threading.active_count()
        answers = await store.admit_on_loop(wanted, ended)
        assert threading.active_count() == before
        assert answers is not None
        return answers

    return asyncio.run(run())


def test_rates_marks_and_the_audit_are_those_of_admissions_in_a_thread(store: PostgresStore) -> None:
    (first,) = admit(store, change("a", mark="m"))
    assert isinstance(first, Admitted) and first.first_at is not None
    assert store.admit([change("b", mark="m")]) == [InFlight()]
    assert isinstance(admit(store, change("a"))[0], RateExceeded)
    assert admit(store, change("c", mark="m"), ended=(EndedRequest("a", "m", 201),)) == [first]
    assert admit(store, ended=(EndedRequest("c", "m", 202),)) == []
    assert [(entry.id, entry.status) for entry in store.audit()] == [("c", 202), ("a", 201)]


def test_a_transaction_that_fails_admits_nothing_and_its_connection_is_closed(store: PostgresStore) -> None:
    with pytest.raises(StoreError, match="Unicode"):
        admit(store, change("a", mark="m", actor="a\0b"))
    assert store._connections._idle == [], "a rollback would keep the loop waiting"
    assert asyncio.run(store.admit_on_loop([change("a", mark="m")])) is None, "only a thread opens connections"
    assert isinstance(store.admit([change("a", mark="m")])[0], Admitted), "neither its rate nor its mark is taken"


@contextmanager
def locked(database: str, table: str = "mulligan_in_flight") -> Iterator[psycopg.Connection]:
    """No mark can be taken inside the block, or no rate."""
    with psycopg.connect(database, autocommit=True) as watching, psycopg.connect(database) as other:
        other.execute(f"LOCK TABLE {table}")
        yield watching


async def until_waiting(watching: psycopg.Connection, number: int = 1) -> None:
    async with asyncio.timeout(SOON):
        while len(watching.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall()) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_a_call_that_is_cancelled_admits_nothing_and_leaves_no_lock(store: PostgresStore, database: str) -> None:
    async def cancel() -> None:
        with locked(database, "mulligan_request_rates") as watching:
            admitting = asyncio.create_task(store.admit_on_loop([change("a", mark="m")]))
            await until_waiting(watching)
            admitting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await admitting

    asyncio.run(cancel())
    assert isinstance(store.admit([change("a", mark="m")])[0], Admitted)


def test_a_request_is_withdrawn_after_its_admission_that_is_under_way(store: PostgresStore, database: str) -> None:
    store._connections._idle.append(store._connections.connect())

    async def withdraw() -> None:
        with closing(Admissions(lambda: store)) as admissions:
            with locked(database) as watching:
                admitting = asyncio.create_task(admissions.admit(change("a", mark="m")))
                await until_waiting(watching)
                withdrawing = asyncio.create_task(admissions.withdraw(EndedRequest("a", "m", None)))
                ending = asyncio.create_task(admissions.end(EndedRequest("b", "n", 200)))
                await until_waiting(watching, 2)
            await asyncio.wait_for(asyncio.gather(admitting, withdrawing, ending), SOON)

    asyncio.run(withdraw())
    assert isinstance(store.admit([change("c", mark="m")])[0], Admitted), "the mark is free"
