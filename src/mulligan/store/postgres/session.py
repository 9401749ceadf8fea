"""A session on a connection to PostgreSQL, and its transactions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg

from mulligan.records.job import Job, Lease
from mulligan.store.postgres.connections import Connection
from mulligan.store.rows import records, to_leases
from mulligan.store.script import Rows
from mulligan.store.session import Now, Session
from mulligan.store.statements import Statements, for_postgres

T = TypeVar("T")
Cursor = psycopg.Cursor[tuple[Any, ...]]

SQL = Statements("mulligan.store.postgres", for_postgres)

# No session settings: a proxy may give the next transaction another connection.
# A process that is frozen inside a transaction would lock its rows for as long: the server ends the transaction.
BEGIN = "BEGIN; SET LOCAL jit = off; SET LOCAL idle_in_transaction_session_timeout = '5s'"
# A claim or a beat that is lost in a crash costs a wait for the lease, nothing more; the fence still holds.
# The plans of its statements do not depend on their values: planned once a connection, not at each call.
BEGIN_ASYNCHRONOUS = BEGIN + "; SET LOCAL synchronous_commit = off; SET LOCAL plan_cache_mode = force_generic_plan"

# The same for a pipeline, which takes one command at a time.
SETTINGS = "SELECT set_config('jit', 'off', true), set_config('idle_in_transaction_session_timeout', '5s', true)"
ASYNCHRONOUSLY = f"""
{SETTINGS}, set_config('synchronous_commit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
"""

# A transaction of the caller that adds members may stay open for long, and may belong to the caller of publish itself.
BEGIN_PUBLISH = BEGIN + "; SET LOCAL lock_timeout = '2s'"


class PostgresSession(Session):
    sql = SQL

    __slots__ = ("db", "now")

    def __init__(self, db: Connection, now: Now) -> None:
        self.db = db
        self.now: Now = now

    def cursor(self, sql: str, values: Mapping[str, Any], *, prepare: bool | None = None) -> Cursor:
        """`prepare` what takes longer to plan than to do: at its first use, not after a few."""
        return self.db.cursor(binary=True).execute(sql, values, prepare=prepare)

    def execute(self, sql: str, values: Mapping[str, Any]) -> Rows:
        cursor = self.cursor(sql, values)
        return [] if cursor.description is None else records(cursor, cursor.fetchall())

    def row(self, sql: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return fetch_row(self.cursor(sql, values))

    def leases(self, name: str, values: Mapping[str, Any]) -> list[Lease]:
        return self.leased(SQL[name], values)

    def leased(self, sql: str, values: Mapping[str, Any], job: Callable[[str], Job[Any]] | None = None) -> list[Lease]:
        cursor = self.cursor(sql, values)
        return to_leases(cursor, cursor.fetchall(), job)

    @contextmanager
    def transaction(self, begin: str) -> Iterator[None]:
        """A transaction and its settings in one round trip."""
        self.db.execute(begin)
        with self._all_or_nothing():
            yield

    @contextmanager
    def transaction_with(self, first: Callable[[], T]) -> Iterator[T]:
        """A transaction, its settings and its first statements in one round trip."""
        with self._all_or_nothing():
            with self.db.pipeline():
                self.db.execute("BEGIN")
                self.db.execute(SETTINGS)
                made = first()
            yield made

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):
                self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")


def fetch_row(cursor: Cursor) -> tuple[Any, ...]:
    found = cursor.fetchone()
    assert found is not None
    return found
