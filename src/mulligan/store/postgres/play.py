"""Statements and transactions on a connection to PostgreSQL."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg

from mulligan.records.job import Job, Lease
from mulligan.store import session
from mulligan.store.postgres.connections import Connection
from mulligan.store.rows import Record, records, to_leases
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements, for_postgres

T = TypeVar("T")
Cursor = psycopg.Cursor[tuple[Any, ...]]

SQL = Statements("mulligan.store.postgres", for_postgres)

# No session settings: a proxy may give the next transaction another connection.
# A process that is frozen inside a transaction would keep its rows from everybody for as long: the server ends it.
BEGIN = "BEGIN; SET LOCAL jit = off; SET LOCAL idle_in_transaction_session_timeout = '5s'"
# A claim or a beat that is lost in a crash costs a wait for the lease, nothing more; the fence holds all the same.
# The plans of its statements do not depend on their values: planned once a connection, not at each call.
BEGIN_ASYNCHRONOUS = BEGIN + "; SET LOCAL synchronous_commit = off; SET LOCAL plan_cache_mode = force_generic_plan"

# The same for a pipeline, which takes one command at a time.
SETTINGS = "SELECT set_config('jit', 'off', true), set_config('idle_in_transaction_session_timeout', '5s', true)"
ASYNCHRONOUSLY = f"""
{SETTINGS}, set_config('synchronous_commit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
"""

# Whoever adds members in a transaction of his own may take his time, and may be the one who asks.
BEGIN_PUBLISH = BEGIN + "; SET LOCAL lock_timeout = '2s'"


@contextlib.contextmanager
def transaction(db: Connection, begin: str) -> Iterator[None]:
    """A transaction and its settings in one round trip."""
    db.execute(begin)
    with _whole(db):
        yield


@contextlib.contextmanager
def transaction_with(db: Connection, first: Callable[[], T]) -> Iterator[T]:
    """A transaction, its settings and its first statements in one round trip."""
    with _whole(db):
        with db.pipeline():
            db.execute("BEGIN")
            db.execute(SETTINGS)
            made = first()
        yield made


@contextlib.contextmanager
def _whole(db: Connection) -> Iterator[None]:
    """All that was begun, or nothing of it."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def play(db: Connection, steps: Steps[T]) -> T:
    return session.play(steps, lambda statement: _rows(db, statement))


def play_in(db: Connection, begin: str, steps: Steps[T]) -> T:
    with transaction(db, begin):
        return play(db, steps)


def _rows(db: Connection, statement: Statement) -> list[Record]:
    cursor = execute(db, statement.sql, statement.values)
    return [] if cursor.description is None else records(cursor, cursor.fetchall())


def execute(db: Connection, statement: str, values: dict[str, Any], *, prepare: bool | None = None) -> Cursor:
    """`prepare` what takes longer to plan than to do: at its first use, not after a few."""
    return db.cursor(binary=True).execute(statement, values, prepare=prepare)


def row(db: Connection, statement: str, values: dict[str, Any]) -> tuple[Any, ...]:
    return fetched(execute(db, statement, values))


def fetched(cursor: Cursor) -> tuple[Any, ...]:
    found = cursor.fetchone()
    assert found is not None
    return found


def leases(
    db: Connection, statement: str, values: dict[str, Any], job: Callable[[str], Job[Any]] | None = None
) -> list[Lease]:
    cursor = execute(db, statement, values)
    return to_leases(cursor, cursor.fetchall(), job)
