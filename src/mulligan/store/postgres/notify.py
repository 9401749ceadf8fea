"""NOTIFY as a debounced hint: it wakes idle workers, and nothing depends on it."""

import contextlib
import threading

import psycopg

from mulligan.errors import StoreError
from mulligan.store.postgres.connections import Connection, Connections

CHANNEL = "mulligan"
# Losing a hint in a crash is harmless.
NOTIFY = f"BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}; COMMIT"
# A NOTIFY takes a lock that all commits share, so one process sends at most twenty a second.
PAUSE_SECONDS = 0.05
# How long a closing worker may have to wait for its listener.
LONGEST_WAIT = 0.25


class Notifier:
    """Send the hint from a separate thread, so that no client waits for it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def hint(self) -> None:
        if self._thread is None:
            self._start()
        self._wanted.set()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._drive, name="mulligan-notifier", daemon=True)
                self._thread.start()

    def _drive(self) -> None:
        while self._wanted.wait() and not self._closed.is_set():
            self._wanted.clear()
            with contextlib.suppress(StoreError, psycopg.Error):
                self._connections.run(lambda connection: connection.execute(NOTIFY))
            self._closed.wait(PAUSE_SECONDS)

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()


class NoNotifier:
    """Send no hints: behind a transaction-pooling proxy no client can listen."""

    def hint(self) -> None:
        pass

    def close(self) -> None:
        pass


class Notifications:
    """Listen on a separate connection. The next wait replaces a lost one."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._closed = threading.Event()
        self._waiting = threading.Lock()
        self._connection: Connection | None = None
        with contextlib.suppress(StoreError, psycopg.Error):
            self._listen()

    def wait(self, timeout: float) -> bool:
        with self._waiting:
            try:
                return self._wait(min(timeout, LONGEST_WAIT))
            except (StoreError, psycopg.Error):
                self._drop()
                self._closed.wait(min(timeout, LONGEST_WAIT))
                return False

    def _wait(self, timeout: float) -> bool:
        if self._closed.is_set():
            return False
        if self._connection is None:
            self._listen()
            # There may have been a commit while nothing listened.
            return True
        return any(True for _ in self._connection.notifies(timeout=timeout, stop_after=1))

    def _listen(self) -> None:
        self._connection = self._connections.connect()
        self._connection.execute(f"LISTEN {CHANNEL}")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def close(self) -> None:
        self._closed.set()
        # Not while another thread waits on it.
        with self._waiting:
            self._drop()


class Polling:
    """Only wait for a while."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def wait(self, timeout: float) -> bool:
        self._closed.wait(min(timeout, PAUSE_SECONDS * 5))
        return False

    def close(self) -> None:
        self._closed.set()
