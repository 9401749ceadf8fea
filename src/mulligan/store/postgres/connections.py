"""Connections to one server, its errors in our words.

Few threads talk to the store at once, so connections are made when needed and kept for the next; one that broke is
thrown away. No session state: every setting is made inside a transaction, so that a transaction-pooling proxy will do.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo
from psycopg import errors as pg

from mulligan.errors import (
    SchemaMismatch,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UndeclaredProxy,
    without_password,
)
from mulligan.store.messages import TIMEOUT
from mulligan.store.postgres.bounded import BoundedConnection

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 130_000
REPEATS = 5
# What the statements of a connection were prepared for is no more: the schema changed ("cached plan must not change
# result type"), or somebody in between forgot them.
UNPREPARED = (pg.FeatureNotSupported, pg.InvalidSqlStatementName)
# What may go well when it is done again: two got in each other's way, or on a new connection.
PASSING = (pg.DeadlockDetected, pg.SerializationFailure, *UNPREPARED)
CONNECT_SECONDS = 10
MOST_CONNECTIONS = 10
# A peer that is gone is noticed by the system, also where nothing is asked: by a listener. The URL may say otherwise.
KEEP_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


class Connections:
    """No call waits for an answer of the server, or for its turn, longer than `timeout`."""

    def __init__(self, url: str, *, prepares: bool = True, timeout: timedelta = TIMEOUT) -> None:
        self._url = url
        self._prepares = prepares
        self._limit = timeout.total_seconds()
        self._process = os.getpid()
        self._idle: list[BoundedConnection] = []
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._is_closed = False

    def connect(self) -> BoundedConnection:
        """A new connection of the caller's own."""
        with translated(self._url):
            connection = BoundedConnection.connect(
                self._url,
                autocommit=True,
                connect_timeout=min(CONNECT_SECONDS, max(1, round(self._limit))),
                application_name="mulligan",
                prepare_threshold=5 if self._prepares else None,
                **self._alive(),
            )
            connection.limit = self._limit
            if connection.info.server_version < OLDEST_SERVER:
                version, oldest = connection.info.server_version // 10_000, OLDEST_SERVER // 10_000
                connection.close()
                raise StoreError(f"the server is PostgreSQL {version}; mulligan needs {oldest} or newer")
        return connection

    def _alive(self) -> dict[str, Any]:
        chosen = conninfo.conninfo_to_dict(self._url)
        wanted = {**KEEP_ALIVE, "tcp_user_timeout": round(self._limit * 1000)}
        return {name: value for name, value in wanted.items() if name not in chosen}

    def run(self, work: Callable[[Connection], T], *, extra: timedelta = timedelta(0)) -> T:
        """Do the work on a connection; after a deadlock, or when the schema changed under it, do it again.

        Work that may take long by itself gets as much `extra` time for each answer; if that is much, the server is
        asked first whether it is there."""
        limit = self._limit + extra.total_seconds()
        for _ in range(REPEATS):
            with contextlib.suppress(*PASSING):
                return self._run(work, limit)
        try:
            return self._run(work, limit)
        except pg.InvalidSqlStatementName as error:
            raise UndeclaredProxy(self._url) from error
        except PASSING as error:
            # Still something that may be tried again, by whoever has the time.
            raise StoreUnavailable(f"{without_password(self._url)} is too busy now: {_said(error)}") from error

    def _run(self, work: Callable[[Connection], T], limit: float) -> T:
        # A server has few connections for many processes: a thread more than that waits here for its turn.
        if not self._turns.acquire(timeout=limit):
            raise StoreUnavailable(f"all {MOST_CONNECTIONS} connections of this process were in use for too long")
        try:
            return self._run_in_turn(work, limit)
        finally:
            self._turns.release()

    def _run_in_turn(self, work: Callable[[Connection], T], limit: float) -> T:
        connection = self._take()
        connection.limit = self._limit
        try:
            with translated(self._url):
                if limit > 2 * self._limit:
                    connection.execute("SELECT 1")
                connection.limit = limit
                return work(connection)
        except UNPREPARED:
            connection.close()
            raise
        finally:
            self._give_back(connection)

    def _take(self) -> BoundedConnection:
        if self._process != os.getpid():
            raise StoreError(
                "this store was opened before the process forked and cannot be used in the child; "
                "open the app in each process, or start processes with 'spawn'"
            )
        with self._lock:
            if self._is_closed:
                raise StoreClosed
            if self._idle:
                return self._idle.pop()
        return self.connect()

    def _give_back(self, connection: BoundedConnection) -> None:
        if connection.closed or connection.broken:
            # The server went away: the others are broken too, and would each cost somebody an error.
            self._discard([connection, *self._taken_out()])
            return
        if connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        with self._lock:
            if not self._is_closed and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()

    def _taken_out(self) -> list[BoundedConnection]:
        with self._lock:
            idle, self._idle = self._idle, []
        return idle

    @staticmethod
    def _discard(connections: list[BoundedConnection]) -> None:
        for connection in connections:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def close(self) -> None:
        if self._process == os.getpid():
            self._is_closed = True
            self._discard(self._taken_out())


@contextlib.contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise what psycopg raises as one of our store errors, each with what can be done."""
    try:
        yield
    except PASSING:
        raise
    except psycopg.Error as error:
        raise _translate(error, url) from error


def _translate(error: psycopg.Error, url: str) -> StoreError:
    said = _said(error)
    place = without_password(url)
    match error:
        case pg.InvalidPassword() | pg.InvalidAuthorizationSpecification():
            return StoreUnavailable(f"{place} refuses this user or password: {said}")
        case pg.InvalidCatalogName():
            return StoreUnavailable(f"{place}: there is no such database; create it first: {said}")
        case pg.InsufficientPrivilege():
            return StoreError(f"this user of {place} lacks a permission: {said}")
        case pg.UndefinedTable() | pg.UndefinedColumn():
            return SchemaMismatch(f"{place} has no tables of this version; run 'mulligan migrate': {said}")
        case pg.DuplicatePreparedStatement():
            return UndeclaredProxy(url)
        case pg.DiskFull():
            return StoreFull(f"no space left on the server of {place}: free some; nothing was lost")
        case pg.ReadOnlySqlTransaction():
            return StoreReadOnly(f"{place} is read-only, a standby perhaps: use the primary")
        case psycopg.OperationalError() | psycopg.InterfaceError() | pg.IdleInTransactionSessionTimeout():
            return _unreachable(said, place)
        case _:
            return StoreError(f"{place}: {said}")


def _said(error: psycopg.Error) -> str:
    """The server's own sentence, without the details that follow it and the attempts that led to it."""
    if error.diag.message_primary:
        return error.diag.message_primary
    line = str(error).strip().partition("\n")[0]
    return line.rpartition("FATAL:")[2].strip() or type(error).__name__


def _unreachable(said: str, place: object) -> StoreError:
    # A failed connect has no SQLSTATE: the reason stands in the text only.
    if "password authentication failed" in said or "no password supplied" in said:
        return StoreUnavailable(f"{place} refuses this user or password: {said}")
    if "does not exist" in said and "database" in said:
        return StoreUnavailable(f"{place}: there is no such database; create it first: {said}")
    return StoreUnavailable(f"{place} cannot be reached now: {said}")
