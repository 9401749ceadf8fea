"""Admissions on PostgreSQL: in few round trips, and by keys in tables that have grown since their plans were made."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from postgres_server import PostgresServer, emptied

from mulligan.errors import StoreError
from mulligan.records.admission import AdmissionRequest, Admitted, EndedRequest, NewAuditEntry
from mulligan.records.rate import parse_rate
from mulligan.store.postgres import PostgresStore
from mulligan.store.session import Session

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
    url = request.getfixturevalue("proxied") if request.param == "through pgbouncer" else database
    emptied(database)
    with closing(PostgresStore(url)) as store:
        yield store


def wanted(name: str) -> AdmissionRequest:
    entry = NewAuditEntry(id=f"entry-{name}", actor="a", action="POST /jobs")
    return AdmissionRequest(subject=f"key/{name}", rate=parse_rate("9/s"), change=entry, mark=f"mark-{name}")


def ended(name: str) -> EndedRequest:
    return EndedRequest(f"entry-{name}", f"mark-{name}", 201)


def test_a_table_that_has_grown_is_read_by_key(server: PostgresServer) -> None:
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

        def count(session: Session) -> int:
            store._admissions.admit(session, [wanted("third")], [ended("second")])
            return int(session.execute(READ, {})[0]["number"])

        assert store._backend.write_by_key(count) < 100


def test_an_admission_that_fails_leaves_nothing_and_the_next_works(store: PostgresStore) -> None:
    class Fault(Exception):
        pass

    def fail(session: Session) -> None:
        store._admissions.admit(session, [wanted("one")], [])
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
    def write(session: Session) -> None:
        session.together(("request_rates_lock", {"subjects": '["key/one"]'}))
        session.at_end(("request_rates_write", {"charges": '[{"subject": "key/one", "remaining": "x"}]'}))

    with pytest.raises(StoreError, match="double precision"):
        store._backend.write_by_key(write)
    count = store._backend.read(lambda session: session.execute("SELECT 1 FROM mulligan_request_rates", {}))
    assert count == []
    assert isinstance(store.admit([wanted("one")])[0], Admitted)
