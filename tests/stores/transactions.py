"""Transactions held open: the store's own statements, on a connection that does not commit until told."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Any, TypeVar

import psycopg

from mulligan.records.job import NewJob
from mulligan.store.postgres import PostgresStore
from mulligan.store.postgres.bounded import BoundedConnection
from mulligan.store.postgres.session import PostgresSession

T = TypeVar("T")
WAIT_SECONDS = 20.0


class Held:
    """Given to a store in place of its connection, it leaves every transaction open."""

    def __init__(self, url: str) -> None:
        self._connection = BoundedConnection.connect(url, autocommit=True, application_name="held")

    def execute(self, statement: str, *values: Any) -> Any:
        return None if statement == "COMMIT" else self._connection.execute(statement.encode(), *values)

    def pipeline(self) -> Any:
        """Statements that would be one transaction by themselves."""
        return self.begin()._connection.pipeline()

    def cursor(self, **options: Any) -> Any:
        """A statement that would be a transaction by itself."""
        return self.begin()._connection.cursor(**options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def begin(self) -> "Held":
        if self._connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
            self.execute("BEGIN")
        return self

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self._connection.execute("ROLLBACK")
        # psycopg has made the server forget all statements.
        self._connection.prepared.clear()


@contextlib.contextmanager
def held(url: str) -> Iterator[Any]:
    """A transaction of another program, open until `commit` or the end of the block."""
    opened = Held(url)
    try:
        yield opened
    finally:
        # Before it is closed: the server would notice that only a moment later.
        opened.rollback()
        opened.close()


def enqueue_on(connection: Any, store: PostgresStore, *jobs: NewJob) -> None:
    """Enqueue inside the open transaction."""
    on(store, connection.begin()).enqueue(jobs)


@contextlib.contextmanager
def meanwhile(call: Callable[[], T]) -> Iterator["Future[T]"]:
    """Make the call in a thread; at the end of the block it has ended."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        try:
            yield future
        finally:
            future.exception(WAIT_SECONDS)


def until_blocked(url: str, number: int = 1) -> None:
    """Wait until so many sessions of the store wait for a lock."""
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mulligan' AND wait_event_type = 'Lock'"
    tick = threading.Event()
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(int(WAIT_SECONDS / 0.005)):
            if connection.execute(blocked).fetchone() == (number,):
                return
            tick.wait(0.005)
    raise AssertionError("no session waits for a lock")


class OneConnection:
    """In place of a store's connections, or of its database."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self.path = None

    def run(self, work: Callable[[Any], T], **_: Any) -> T:
        return work(self._db)

    read = write = run


def on(store: Any, db: Any) -> Any:
    """The same store, with all its operations on this connection."""
    twin = copy(store)
    twin._backend = backend = copy(store._backend)
    # Methods that were handed on belong to the first one: only the connection is another.
    backend._is_checked = True
    backend.connections = backend.database = OneConnection(db)
    return twin


def promote_on(store: PostgresStore, db: Any) -> Any:
    """Promote due jobs in the transaction that is open on this connection."""
    backend = store._postgres
    return backend._promote.promote(PostgresSession(db, backend.now))


def publish_on(store: PostgresStore, db: Any, batch: str) -> None:
    """Publish, and leave it to others to let the members in."""
    on(store, db)._backend.publish(batch, lambda session: store._batches.publish(session, batch, None, None))
