"""A session on a connection to SQLite."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from mulligan.records.job import Lease
from mulligan.store.rows import Record, records, to_leases
from mulligan.store.session import Rows, Session, Statements, for_sqlite
from mulligan.store.sqlite.driver import sqlite3

SQL = Statements("mulligan.store.sqlite", for_sqlite)

# Microseconds. None: the machine's clock.
Clock = Callable[[], int]


class SqliteSession(Session):
    sql = SQL

    __slots__ = ("_clock", "_now", "db")

    def __init__(self, db: "sqlite3.Connection", clock: Clock | None) -> None:
        self.db = db
        self._clock = clock
        self._now: int | None = None

    @property
    def now(self) -> int:
        """One time for the whole transaction."""
        if self._now is None:
            self._now = self._clock() if self._clock is not None else int(self.db.execute(SQL["now"]).fetchone()[0])
        return self._now

    def execute(self, sql: str, values: Mapping[str, Any]) -> Rows:
        cursor = self.db.execute(sql, values)
        rows = cursor.fetchall()
        return records(cursor, rows) if rows else []

    def first(self, name: str, values: Mapping[str, Any]) -> Record | None:
        cursor = self.db.execute(SQL[name], {"now": self.now, **values})
        row = cursor.fetchone()
        return None if row is None else records(cursor, [row])[0]

    def leases(self, name: str, values: Mapping[str, Any]) -> list[Lease]:
        statement, values = SQL[name], {"now": self.now, **values}
        (is_any,) = self.db.execute(_exists(statement), values).fetchone()
        if not is_any:
            # Mostly there are none, and fetching fifty columns costs more than this check.
            return []
        cursor = self.db.execute(statement, values)
        return to_leases(cursor, cursor.fetchall())

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.db.execute("SAVEPOINT settle")
        try:
            yield
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK TO settle")
                self.db.execute("RELEASE settle")
            raise
        self.db.execute("RELEASE settle")


@cache
def _exists(statement: str) -> str:
    return f"SELECT EXISTS ({statement})"
