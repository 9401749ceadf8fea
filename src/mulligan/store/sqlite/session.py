"""A session on a connection to SQLite, the library in use, and its errors as store errors."""

import errno
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mulligan.errors import StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from mulligan.records.job import Lease
from mulligan.store.rows import Record, records, to_leases
from mulligan.store.session import Rows, Session, Statements, for_sqlite
from mulligan.store.sqlite.lock import lock_error

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        # Newer than the system's library, and without its rare WAL-reset bug.
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:
        import sqlite3

__all__ = [
    "CANNOT_OPEN",
    "OLDEST_VERSION",
    "READ_ONLY",
    "SQL",
    "Clock",
    "SqliteSession",
    "primary_code",
    "sqlite3",
    "translate_errors",
]

# For STRICT tables and RETURNING.
OLDEST_VERSION = (3, 37, 0)
READ_ONLY, CANNOT_OPEN = 8, 14

SQL = Statements("mulligan.store.sqlite", for_sqlite)

# Microseconds. None: the machine's clock.
Clock = Callable[[], int]


class SqliteSession(Session):
    sql = SQL
    violation = sqlite3.IntegrityError

    __slots__ = ("_clock", "_now", "db")

    def __init__(self, db: "sqlite3.Connection", clock: Clock | None) -> None:
        self.db = db
        self._clock = clock
        self._now: int | None = None

    @property
    def connection(self) -> "sqlite3.Connection":
        return self.db

    @property
    def in_transaction(self) -> bool:
        return self.db.in_transaction

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
        """Run a named statement. Return its rows as leases."""
        statement, values = SQL[name], {"now": self.now, **values}
        (is_any,) = self.db.execute(_exists(statement), values).fetchone()
        if not is_any:
            # Mostly there are none, and fetching fifty columns costs more than this check.
            return []
        cursor = self.db.execute(statement, values)
        return to_leases(cursor, cursor.fetchall())

    def past_damage(self, sql: str, values: Mapping[str, Any]) -> "sqlite3.Cursor":
        """Run an update of many rows. A damaged row is skipped and does not stop the others."""
        values = {"now": self.now, **values}
        try:
            return self.db.execute(sql, values)
        except sqlite3.IntegrityError:
            return self.db.execute(sql.replace("UPDATE", "UPDATE OR IGNORE", 1), values)


@cache
def _exists(statement: str) -> str:
    return f"SELECT EXISTS ({statement})"


def primary_code(error: BaseException) -> int | None:
    """Return SQLite's error number without the extended code."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


class translate_errors:  # noqa: N801
    """Raise SQLite's errors as store errors that say what to do."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            raise _translate(error, self._name) from error
        if isinstance(error, OSError):
            raise _translate_os_error(error, self._name) from error


def _translate_os_error(error: OSError, name: str) -> StoreError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFull(f"no space left for {name}: free some; nothing was lost")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return StoreReadOnly(f"{name} cannot be written: {error.strerror}; give this user write access")
        case _:
            return StoreUnavailable(f"{name} cannot be used now: {error}")


def _translate(error: Exception, name: str) -> StoreError:
    match primary_code(error):
        case 5 | 6:  # BUSY, LOCKED
            return lock_error(Path(name))
        case 8:  # READONLY
            return StoreReadOnly(f"{name} cannot be written: give this user write access to the file and its folder")
        case 13:  # FULL
            return StoreFull(f"no space left for {name}: free some; nothing was lost")
        case 10:  # IOERR
            return StoreUnavailable(f"{name} cannot be read or written now: {error}")
        case 14:  # CANTOPEN
            return StoreUnavailable(f"{name} cannot be opened: does its folder exist, and may this user write there?")
        case 11 | 26:  # CORRUPT, NOTADB
            return StoreDamaged(f"{name} is not a healthy SQLite database: {error}; restore it from a backup")
        case _:
            return StoreError(f"{name}: {error}")
