"""The tables of an application, in the database of its jobs: rows and jobs change in one transaction."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, DateTime, Dialect, Engine, MetaData, TypeDecorator, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from apps.pages.settings import SettingRefused

BUSY_SECONDS = 30


class Moment(TypeDecorator[datetime]):
    """A time with its zone, which is UTC: SQLite would forget it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class Database:
    """`metadata` has the tables. A `transaction` can be given to `task.options(connection=…)`."""

    def __init__(self, url: str) -> None:
        self.metadata = MetaData()
        self._engine = _open(url)

    def create(self) -> None:
        """Create the tables that are missing."""
        with self.transaction() as connection:
            self.metadata.create_all(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Commit at the end of the block, or roll back if it raises."""
        with self._engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A block that sees one state of the database, and writes nothing."""
        with self._engine.connect() as connection:
            yield connection.execution_options(reads=True)

    def close(self) -> None:
        self._engine.dispose()


def _open(url: str) -> Engine:
    try:
        given = make_url(url)
    except (ArgumentError, ValueError):
        allowed = "a database URL, such as sqlite:///app.db or postgresql://user@host/database"
        raise SettingRefused("DATABASE_URL", None, allowed) from None
    if given.get_backend_name() == "sqlite":
        return _open_sqlite(str(given))
    return create_engine(given.set(drivername="postgresql+psycopg"), pool_pre_ping=True)


def _open_sqlite(url: str) -> Engine:
    engine = create_engine(url, module=_library(), connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        # SQLAlchemy begins transactions, below, and not the driver.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes later would find the database changed in between.
        reads = connection.get_execution_options().get("reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _library() -> Any:
    """The library that the engine uses: two of them in one process would drop each other's locks."""
    try:
        return import_module("pysqlite3.dbapi2")
    except ImportError:
        return sqlite3
