"""Connections to one server, and its errors as store errors.

Few threads use the store at once, so connections are opened when needed and kept for reuse; a broken one is discarded.
There is no session state: every setting is made inside a transaction, so a transaction-pooling proxy works.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo
from psycopg import errors as pg
from psycopg.pq import TransactionStatus

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
Connection = BoundedConnection

OLDEST_SERVER = 130_000
REPEATS = 5
# The prepared statements of a connection are no longer valid: the schema changed ("cached plan must not change result
# type"), or a proxy dropped them.
UNPREPARED = (pg.FeatureNotSupported, pg.InvalidSqlStatementName)
# Errors that a repetition may avoid: a conflict with another transaction, or on a new connection.
TRANSIENT = (pg.DeadlockDetected, pg.SerializationFailure, *UNPREPARED)
CONNECT_SECONDS = 10
MOST_CONNECTIONS = 10
# The system detects a dead peer, even if nothing is sent, as by a listener. The URL may override it.
KEEP_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


class Connections:
    """No call waits for the server, or for a free connection, longer than `timeout`."""

    def __init__(self, url: str, *, prepares: bool = True, timeout: timedelta = TIMEOUT) -> None:
        self._url = url
        self._prepares = prepares
        self._limit = timeout.total_seconds()
        self._process = os.getpid()
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        # One entry for each connection that may be taken: a semaphore is made in Python and takes ten times as long.
        self._free: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(MOST_CONNECTIONS):
            self._free.put(None)
        self._is_closed = False

    def connect(self) -> Connection:
        """Open a new connection for the caller."""
        with translate_errors(self._url):
            connection = BoundedConnection.connect(
                self._url,
                autocommit=True,
                connect_timeout=min(CONNECT_SECONDS, max(1, round(self._limit))),
                application_name="mulligan",
                client_encoding="UTF8",
                prepare_threshold=5 if self._prepares else None,
                **self._keep_alive(),
            )
            connection.limit, connection.prepares = self._limit, self._prepares
            if connection.info.server_version < OLDEST_SERVER:
                version, oldest = connection.info.server_version // 10_000, OLDEST_SERVER // 10_000
                connection.close()
                raise StoreError(f"the server is PostgreSQL {version}; mulligan needs {oldest} or newer")
        return connection

    @contextlib.contextmanager
    def opened(self) -> Iterator[Connection]:
        """A new connection, closed afterwards. Its errors are those of the store."""
        with contextlib.closing(self.connect()) as connection, translate_errors(self._url):
            yield connection

    def _keep_alive(self) -> dict[str, Any]:
        chosen = conninfo.conninfo_to_dict(self._url)
        wanted = {**KEEP_ALIVE, "tcp_user_timeout": round(self._limit * 1000)}
        return {name: value for name, value in wanted.items() if name not in chosen}

    def run(self, work: Callable[[Connection], T], *, extra: timedelta = timedelta(0)) -> T:
        """Run `work` on a connection. Repeat it after a deadlock, or if the schema changed meanwhile.

        Work that takes long by itself gets `extra` time per answer. If that is much, the server is first asked for a
        sign of life.
        """
        limit = self._limit + extra.total_seconds()
        for _ in range(REPEATS):
            try:
                return self._run(work, limit)
            except TRANSIENT:
                continue
        try:
            return self._run(work, limit)
        except pg.InvalidSqlStatementName as error:
            raise UndeclaredProxy(self._url) from error
        except TRANSIENT as error:
            # The caller may still repeat it later.
            raise StoreUnavailable(
                f"{without_password(self._url)} is too busy now: {_server_message(error)}"
            ) from error

    def _run(self, work: Callable[[Connection], T], limit: float) -> T:
        # A server has few connections for many processes, so additional threads wait here.
        try:
            self._free.get(timeout=limit)
        except queue.Empty:
            raise StoreUnavailable(
                f"all {MOST_CONNECTIONS} connections of this process were in use for too long"
            ) from None
        try:
            return self._run_on_connection(work, limit)
        finally:
            self._free.put(None)

    def _run_on_connection(self, work: Callable[[Connection], T], limit: float) -> T:
        connection = self._take()
        connection.limit = self._limit
        try:
            with translate_errors(self._url):
                if limit > 2 * self._limit:
                    connection.execute("SELECT 1")
                connection.limit = limit
                return work(connection)
        except UNPREPARED:
            connection.close()
            raise
        finally:
            self._give_back(connection)

    def take_idle(self) -> Connection | None:
        """Return an idle connection, or None, to a caller that cannot wait. It must be given back."""
        try:
            self._free.get_nowait()
        except queue.Empty:
            return None
        connection = None
        try:
            connection = self._pop_idle()
        finally:
            if connection is None:
                self._free.put(None)
        if connection is not None:
            connection.limit = self._limit
        return connection

    def give_back(self, connection: Connection, *, rolls_back: bool = True) -> None:
        """One that is in a transaction is rolled back, or closed."""
        try:
            self._give_back(connection, rolls_back=rolls_back)
        finally:
            self._free.put(None)

    def translate_errors(self) -> "translate_errors":
        return translate_errors(self._url)

    @property
    def is_inherited(self) -> bool:
        """This process is a fork of the one that opened them."""
        return self._process != os.getpid()

    def _take(self) -> Connection:
        return self._pop_idle() or self.connect()

    def _pop_idle(self) -> Connection | None:
        if self.is_inherited:
            raise StoreError(
                "this store was opened before the process forked and cannot be used in the child; "
                "open the app in each process, or start processes with 'spawn'"
            )
        with self._lock:
            if self._is_closed:
                raise StoreClosed
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Connection, *, rolls_back: bool = True) -> None:
        status = connection.pgconn.transaction_status
        if status == TransactionStatus.UNKNOWN:
            # The server went away: the idle connections are broken too, and each would cause an error.
            self._discard([connection, *self._take_idle()])
            return
        if status == TransactionStatus.ACTIVE or (status != TransactionStatus.IDLE and not rolls_back):
            # Active: the caller did not wait for the answer.
            connection.close()
            return
        if status != TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                connection.roll_back()
        with self._lock:
            if not self._is_closed and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()

    def _take_idle(self) -> list[Connection]:
        with self._lock:
            idle, self._idle = self._idle, []
        return idle

    @staticmethod
    def _discard(connections: list[Connection]) -> None:
        for connection in connections:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def close(self) -> None:
        if not self.is_inherited:
            self._is_closed = True
            self._discard(self._take_idle())


class translate_errors:  # noqa: N801
    """Raise psycopg's errors as store errors that say what to do."""

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, psycopg.Error) and not isinstance(error, TRANSIENT):
            raise _translate(error, self._url) from error


def _translate(error: psycopg.Error, url: str) -> StoreError:
    message = _server_message(error)
    name = without_password(url)
    match error:
        case pg.InvalidPassword() | pg.InvalidAuthorizationSpecification():
            return StoreUnavailable(f"{name} refuses this user or password: {message}")
        case pg.InvalidCatalogName():
            return StoreUnavailable(f"{name}: there is no such database; create it first: {message}")
        case pg.InsufficientPrivilege():
            return StoreError(f"this user of {name} lacks a permission: {message}")
        case pg.UndefinedTable() | pg.UndefinedColumn():
            return SchemaMismatch(f"{name} has no tables of this version; run 'mulligan migrate': {message}")
        case pg.DuplicatePreparedStatement():
            return UndeclaredProxy(url)
        case pg.DiskFull():
            return StoreFull(f"no space left on the server of {name}: free some; nothing was lost")
        case pg.ReadOnlySqlTransaction():
            return StoreReadOnly(f"{name} is read-only, maybe a standby: use the primary")
        case psycopg.OperationalError() | psycopg.InterfaceError() | pg.IdleInTransactionSessionTimeout():
            return _unreachable(message, name)
        case _:
            return StoreError(f"{name}: {message}")


def _server_message(error: psycopg.Error) -> str:
    """Return the server's message, without details and earlier connection attempts."""
    if error.diag.message_primary:
        return error.diag.message_primary
    line = str(error).strip().partition("\n")[0]
    return line.rpartition("FATAL:")[2].strip() or type(error).__name__


def _unreachable(message: str, name: object) -> StoreError:
    # A failed connect has no SQLSTATE: the reason is only in the message.
    if "password authentication failed" in message or "no password supplied" in message:
        return StoreUnavailable(f"{name} refuses this user or password: {message}")
    if "does not exist" in message and "database" in message:
        return StoreUnavailable(f"{name}: there is no such database; create it first: {message}")
    return StoreUnavailable(f"{name} cannot be reached now: {message}")
