"""Statements on a connection to SQLite."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

from mulligan.records.job import Lease
from mulligan.store import session
from mulligan.store.rows import Record, records, to_leases
from mulligan.store.session import Statement, Steps
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.statements import Statements, for_sqlite

T = TypeVar("T")

SQL = Statements("mulligan.store.sqlite", for_sqlite)


def play(db: "sqlite3.Connection", steps: Steps[T]) -> T:
    return session.play(steps, partial(_rows, db))


def _rows(db: "sqlite3.Connection", statement: Statement) -> list[Record]:
    sql, values = statement
    cursor = db.execute(sql, values)
    rows = cursor.fetchall()
    return records(cursor, rows) if rows else []


def find(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> Record | None:
    cursor = db.execute(statement, values)
    row = cursor.fetchone()
    return None if row is None else records(cursor, [row])[0]


def leases(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> list[Lease]:
    (is_any,) = db.execute(_is_any(statement), values).fetchone()
    if not is_any:
        # Mostly there are none, and asking for fifty columns costs more than looking.
        return []
    cursor = db.execute(statement, values)
    return to_leases(cursor, cursor.fetchall())


@cache
def _is_any(statement: str) -> str:
    # Without a care for their order.
    return f"SELECT EXISTS ({statement})"


def append(db: "sqlite3.Connection", events: Iterable[dict[str, Any]]) -> None:
    db.executemany(SQL["event"], events)


@contextmanager
def savepoint(db: "sqlite3.Connection") -> Iterator[None]:
    db.execute("SAVEPOINT settle")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK TO settle")
            db.execute("RELEASE settle")
        raise
    db.execute("RELEASE settle")
