"""A session on a connection to PostgreSQL, and its transactions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import psycopg

from mulligan.records.job import Job, Lease
from mulligan.store.postgres.connections import Connection
from mulligan.store.postgres.lean import LeanCall, LeanStatement, run_together
from mulligan.store.rows import records, to_leases
from mulligan.store.session import Named, Now, Rows, Session, Statements, for_postgres

T = TypeVar("T")
Cursor = psycopg.Cursor[tuple[Any, ...]]

SQL = Statements("mulligan.store.postgres", for_postgres)

# No session settings: a proxy may run the next transaction on another connection. The server ends the transaction of a
# frozen process, which would lock its rows for as long.
BEGIN = "BEGIN; SET LOCAL jit = off; SET LOCAL idle_in_transaction_session_timeout = '5s'"
# Losing a claim or a beat in a crash only costs a wait for the lease; the fence still holds. The plans do not depend on
# the values: they are made once per connection, not at every call.
BEGIN_ASYNCHRONOUS = BEGIN + "; SET LOCAL synchronous_commit = off; SET LOCAL plan_cache_mode = force_generic_plan"

# A task's `can_retry` may ask another server.
BEGIN_ASKING = BEGIN + "; SET LOCAL idle_in_transaction_session_timeout = '1min'"

# A page of a long log is read in the order of its index. Without statistics the server would sort all of it each time.
BEGIN_LARGE = BEGIN + "; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"

# The same for a pipeline, which takes one command at a time.
SETTINGS = "SELECT set_config('jit', 'off', true), set_config('idle_in_transaction_session_timeout', '5s', true)"
ASYNCHRONOUSLY = f"""
{SETTINGS}, set_config('synchronous_commit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
"""

# A caller's transaction that adds members may stay open for long, and may belong to the caller of publish itself.
BEGIN_PUBLISH = BEGIN + "; SET LOCAL lock_timeout = '2s'"


# Between the values of a column that is passed as one string. Never part of JSON or of a generated id.
SEPARATOR = "\x1e"


class PostgresSession(Session):
    sql = SQL
    violation = psycopg.IntegrityError

    __slots__ = ("db", "now")

    def __init__(self, db: Connection, now: Now) -> None:
        self.db = db
        self.now: Now = now

    @property
    def connection(self) -> Connection:
        return self.db

    @property
    def in_transaction(self) -> bool:
        return self.db.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE

    @property
    def can_commit(self) -> bool:
        return self.db.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS

    def cursor(self, sql: str, values: Mapping[str, Any], *, prepare: bool | None = None) -> Cursor:
        """With `prepare` the statement is prepared at its first use: for statements that take longer to plan than to
        run."""
        return self.db.cursor(binary=True).execute(sql, values, prepare=prepare)

    def execute(self, sql: str, values: Mapping[str, Any]) -> Rows:
        cursor = self.cursor(sql, values)
        # psycopg's `description` builds an object for each of fifty columns.
        has_rows = cursor.pgresult is not None and cursor.pgresult.nfields > 0
        return records(cursor, cursor.fetchall()) if has_rows else []

    def undo_steps(self) -> None:
        self.db.roll_back("ROLLBACK TO mulligan_steps")

    def together(self, *statements: Named) -> list[Rows]:
        # Without psycopg's cursors, which take more time than most of these statements.
        return self.db.wait(run_together(self.db, to_lean(statements, self.now))) if statements else []

    def row(self, sql: str, values: Mapping[str, Any], *, prepare: bool | None = None) -> tuple[Any, ...]:
        return fetch_row(self.cursor(sql, values, prepare=prepare))

    def leases(self, name: str, values: Mapping[str, Any]) -> list[Lease]:
        """Run a named statement. Return its rows as leases."""
        return self.fetch_leases(SQL[name], {"now": self.now, **values})

    def fetch_leases(
        self, sql: str, values: Mapping[str, Any], job: Callable[[str], Job[Any]] | None = None
    ) -> list[Lease]:
        cursor = self.cursor(sql, values)
        return to_leases(cursor, cursor.fetchall(), job)

    @contextmanager
    def transaction(self, begin: str) -> Iterator[None]:
        """Begin a transaction with its settings in one round trip."""
        self.db.execute(begin)
        with self._commit_or_roll_back():
            yield

    @contextmanager
    def transaction_with(self, first: Callable[[], T]) -> Iterator[T]:
        """Begin a transaction with its settings and first statements in one round trip."""
        with self._commit_or_roll_back():
            with self.db.pipeline():
                self.db.execute("BEGIN")
                self.db.execute(SETTINGS)
                made = first()
            yield made

    @contextmanager
    def _commit_or_roll_back(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):
                self.db.roll_back()
            raise
        self.db.execute("COMMIT")


def to_lean(statements: Sequence[Named], now: Now) -> list[LeanCall]:
    return [lean_statement(name).with_values({"now": now, **values}) for name, values in statements]


@cache
def lean_statement(name: str) -> LeanStatement:
    return LeanStatement(name, SQL[name])


def fetch_row(cursor: Cursor) -> tuple[Any, ...]:
    found = cursor.fetchone()
    assert found is not None
    return found
