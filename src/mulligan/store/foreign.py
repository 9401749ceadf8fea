"""Connections of the caller: how each library runs a statement, inside the transaction that the caller has open.

A connection is recognised by the name of its type; no library is imported for that. Nothing is begun, committed or
rolled back here beyond what the connection does by itself, and errors of the library are not translate_errors: the
transaction belongs to the caller, who decides how to handle them.
"""

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol, TypeVar, cast

from mulligan.errors import BadConnection
from mulligan.store.rows import records
from mulligan.store.session import Now, Rows, Script, Session, Statement, Statements, for_postgres, play, play_async

T = TypeVar("T")

log = logging.getLogger("mulligan.store")

POSTGRESQL, SQLITE = "PostgreSQL", "SQLite"
DATABASES = {"postgresql": POSTGRESQL, "sqlite": SQLITE}
# The SQLAlchemy drivers that accept our style of parameters.
DRIVERS = ("psycopg", "pysqlite")
# Before this version a commit that coincides with a checkpoint can, very rarely, damage the file.
SAFE_SQLITE = (3, 51, 3)


class Foreign(Protocol):
    """A blocking connection of the caller."""

    @property
    def database(self) -> str: ...

    @property
    def connection(self) -> Any:
        """The connection as the caller gave it."""
        ...

    @property
    def violation(self) -> type[Exception]:
        """The library's exception for a row that the schema does not allow."""
        ...

    def join(self) -> None:
        """Make sure that a transaction is open. Raises BadConnection."""
        ...

    def execute(self, statement: Statement) -> Rows: ...


class ForeignSession(Session):
    """A session on a connection of the caller, in its transaction."""

    def __init__(self, foreign: Foreign, sql: Statements, now: Now) -> None:
        self._foreign = foreign
        self._now = now
        self.sql = sql
        self.violation = foreign.violation

    @property
    def connection(self) -> Any:
        return self._foreign.connection

    @property
    def now(self) -> Now:
        return self._now

    def execute(self, sql: str, values: Mapping[str, Any]) -> Rows:
        return self._foreign.execute(Statement(sql, dict(values)))


def recognise(connection: Any, database: str) -> Foreign:
    """Return the blocking connection with a transaction open. Raises BadConnection."""
    if _is_async(connection):
        raise BadConnection(
            connection, "it is asynchronous: call this with its run_sync(…), or in a thread with a blocking connection"
        )
    return _join(connection, database)


def run(connection: Any, script: Script[T]) -> T:
    """Play the script on a blocking connection, in its transaction."""
    if _is_async(connection):
        raise BadConnection(connection, "it is asynchronous: await enqueue_async(…) or enqueue_many_async(…)")
    return play(script.steps, _join(connection, script.database).execute)


def _join(connection: Any, database: str) -> Foreign:
    foreign = _recognise(connection)
    _same_database(connection, foreign.database, database)
    foreign.join()
    return foreign


async def run_async(connection: Any, script: Script[T]) -> T:
    """Play the script on an asynchronous connection, in its transaction."""
    if not _is_async(connection):
        _recognise(connection)
        raise BadConnection(connection, "it blocks: call enqueue(…) or enqueue_many(…)")
    if "sqlalchemy" in _libraries(connection):
        result: T = await connection.run_sync(lambda blocking: run(blocking, script))
        return result
    _same_database(connection, POSTGRESQL, script.database)
    _refuse_psycopg_autocommit(connection)
    return await play_async(script.steps, _on_async_psycopg(connection))


def _recognise(connection: Any) -> Foreign:
    libraries = _libraries(connection)
    if "sqlalchemy" in libraries and hasattr(connection, "exec_driver_sql"):
        return OfSqlAlchemy(connection)
    if "sqlalchemy" in libraries and hasattr(connection, "connection") and hasattr(connection, "get_bind"):
        return OfSqlAlchemy(connection.connection(), given=connection)
    if "django" in libraries and hasattr(connection, "in_atomic_block"):
        return OfDjango(connection)
    if "psycopg" in libraries and hasattr(connection, "cursor_factory"):
        return OfPsycopg(connection)
    if libraries & {"sqlite3", "pysqlite3"} and hasattr(connection, "isolation_level"):
        return OfSqlite3(connection)
    raise BadConnection(connection, "jobs cannot be enqueued through it")


def _libraries(connection: Any) -> set[str]:
    return {base.__module__.partition(".")[0] for base in type(connection).__mro__}


def _is_async(connection: Any) -> bool:
    libraries = _libraries(connection)
    if "sqlalchemy" in libraries:
        return hasattr(connection, "run_sync")
    return "psycopg" in libraries and any(base.__name__ == "AsyncConnection" for base in type(connection).__mro__)


def _same_database(connection: Any, database: str, wanted: str) -> None:
    if database != wanted:
        raise BadConnection(
            connection,
            f"it leads to {database}, but the jobs of this app are in {wanted}: use a connection to that",
        )


class OfPsycopg:
    database = POSTGRESQL

    def __init__(self, connection: Any) -> None:
        self.connection = self._connection = connection
        self.violation: type[Exception] = connection.IntegrityError

    def join(self) -> None:
        _refuse_psycopg_autocommit(self._connection)

    def execute(self, statement: Statement) -> Rows:
        from psycopg import Cursor
        from psycopg.rows import tuple_row

        # By its class: the connection's own factories may expect other parameters or return other rows.
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(statement.sql, statement.values)
            return _rows(cursor)


def _on_async_psycopg(connection: Any) -> Callable[[Statement], Any]:
    from psycopg import AsyncCursor
    from psycopg.rows import tuple_row

    async def execute(statement: Statement) -> Rows:
        async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
            await cursor.execute(statement.sql, statement.values)
            return [] if cursor.description is None else records(cursor, await cursor.fetchall())

    return execute


def _refuse_psycopg_autocommit(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise BadConnection(
            connection, "it is in autocommit mode and no transaction is open: use 'with connection.transaction():'"
        )


class OfSqlite3:
    database = SQLITE

    def __init__(self, connection: Any) -> None:
        self.connection = self._connection = connection
        # Of the module that made it: there is another one besides that of Python.
        self.violation: type[Exception] = connection.IntegrityError

    def join(self) -> None:
        _leave_checkpoints_to_us(self.execute)
        _refuse_sqlite_autocommit(self._connection)

    def execute(self, statement: Statement) -> Rows:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        cursor.execute(statement.sql, statement.values)
        return _rows(cursor)


def _leave_checkpoints_to_us(execute: Callable[[Statement], Rows]) -> None:
    """The engine checkpoints under its file lock, which the caller's connection does not use."""
    execute(Statement("PRAGMA wal_autocheckpoint = 0", {}))
    (row,) = execute(Statement("SELECT sqlite_version() AS version", {}))
    _warn_of(row["version"])


@cache
def _warn_of(version: str) -> None:
    if tuple(map(int, version.split("."))) < SAFE_SQLITE:
        log.warning(
            "SQLite %s of this connection has a rare bug that can damage a file which several "
            "programs write; use %s or newer for connection=",
            version,
            ".".join(map(str, SAFE_SQLITE)),
        )


def _refuse_sqlite_autocommit(connection: Any) -> None:
    if connection.in_transaction:
        return
    # Python 3.12 has `autocommit`. -1 there, and always before, means that `isolation_level` decides.
    mode = getattr(connection, "autocommit", -1)
    if mode is True or (mode == -1 and connection.isolation_level is None):
        raise BadConnection(
            connection, "it is in autocommit mode and no transaction is open: execute 'BEGIN IMMEDIATE' first"
        )


class OfSqlAlchemy:
    def __init__(self, connection: Any, *, given: Any = None) -> None:
        self._connection = connection
        self.connection = connection if given is None else given

    @property
    def violation(self) -> type[Exception]:
        from sqlalchemy.exc import IntegrityError

        return IntegrityError

    @property
    def database(self) -> str:
        dialect = self._connection.dialect
        if dialect.name in DATABASES and dialect.driver not in DRIVERS:
            raise BadConnection(
                self._connection,
                f"its driver is {dialect.driver!r}; use 'postgresql+psycopg://' or 'sqlite+pysqlite://'",
            )
        return DATABASES.get(dialect.name, str(dialect.name))

    def join(self) -> None:
        if self.database == SQLITE:
            # SQLAlchemy begins with its first statement, so check for the transaction after that.
            _leave_checkpoints_to_us(self.execute)
        driver = self._connection.connection.driver_connection
        (_refuse_sqlite_autocommit if self.database == SQLITE else _refuse_psycopg_autocommit)(driver)

    def execute(self, statement: Statement) -> Rows:
        result = self._connection.exec_driver_sql(statement.sql, statement.values)
        if not result.returns_rows:
            return []
        names = list(result.keys())
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


class OfDjango:
    def __init__(self, connection: Any) -> None:
        self.connection = self._connection = connection

    @property
    def violation(self) -> type[Exception]:
        from django.db import IntegrityError

        return cast("type[Exception]", IntegrityError)

    @property
    def database(self) -> str:
        return DATABASES.get(self._connection.vendor, str(self._connection.vendor))

    def join(self) -> None:
        if not self._connection.in_atomic_block and self._connection.get_autocommit():
            raise BadConnection(self._connection, "no transaction is open: use 'with transaction.atomic():'")
        if self.database == SQLITE:
            _leave_checkpoints_to_us(self.execute)

    def execute(self, statement: Statement) -> Rows:
        # Django uses psycopg's style of parameters for every database.
        sql = for_postgres(statement.sql) if self.database == SQLITE else statement.sql
        with self._connection.cursor() as cursor:
            cursor.execute(sql, statement.values)
            return _rows(cursor)


def _rows(cursor: Any) -> Rows:
    return [] if cursor.description is None else records(cursor, cursor.fetchall())
