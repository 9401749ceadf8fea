"""NOTIFY as a debounced hint: it wakes idle workers, and nothing depends on it."""

import contextlib
import threading
import time

import psycopg

from mulligan.errors import StoreError
from mulligan.records.rate import TokenBucket
from mulligan.store.postgres.connections import Connection, Connections

CHANNEL = "mulligan"
# Alone in its transaction: nothing is flushed for it.
NOTIFY = f"NOTIFY {CHANNEL}"
# A NOTIFY takes a lock that all commits share, so one process sends a bounded number.
PER_SECOND, BURST = 150, 20
# How long a closing worker may have to wait for its listener.
LONGEST_WAIT = 0.25


class Notifier:
    """Send hints from a separate thread if a caller may not send its own. Hints that come while no token is left become
    a single one, so the last job of a storm is announced too."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._changed = threading.Condition()
        self._is_wanted = False
        # The thread waits for a hint, not for a token.
        self._is_idle = False
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._tokens = TokenBucket(PER_SECOND, BURST, BURST)
        self._refilled_at = time.monotonic()
        # Before it the bucket need not be asked: its arithmetic took a tenth of the client's time in a storm.
        self._next_token_at = self._refilled_at

    def hint(self) -> None:
        with self._changed:
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._drive, name="mulligan-notifier", daemon=True)
                self._thread.start()
            self._is_wanted = True
            if self._is_idle:
                # Only then: in a storm each wake-up would cost the caller a switch of threads.
                self._is_idle = False
                self._changed.notify()

    def take(self) -> bool:
        """Return whether the caller may send a NOTIFY itself, in the round trip of what it announces. It then announces
        earlier jobs too: the thread may wait long for a connection."""
        if time.monotonic() < self._next_token_at:
            return False
        with self._changed:
            self._refill()
            may_send = self._tokens.has(1)
            if may_send:
                self._tokens = self._tokens.without(1)
                self._is_wanted = False
            else:
                self._next_token_at = self._refilled_at + self._tokens.time_until(1) / 1e6
            return may_send

    def _drive(self) -> None:
        while self._wait_for_hint():
            with contextlib.suppress(StoreError, psycopg.Error):
                self._connections.run(lambda connection: connection.execute(NOTIFY))

    def _wait_for_hint(self) -> bool:
        """Wait until one is wanted and may be sent, and take its token. False means that it is closed."""
        with self._changed:
            while not self._is_closed:
                self._is_idle = not self._is_wanted
                self._changed.wait_for(lambda: self._is_wanted or self._is_closed)
                self._refill()
                # The last token is for a caller: in a storm one comes before the second token does, and sends cheaper.
                missing = self._tokens.time_until(2)
                if not missing:
                    break
                self._changed.wait_for(lambda: self._is_closed, missing / 1e6)
            is_wanted, self._is_wanted = self._is_wanted, False
            self._tokens = self._tokens.without(is_wanted)
            return is_wanted

    def _refill(self) -> None:
        now = time.monotonic()
        self._tokens = self._tokens.after(round((now - self._refilled_at) * 1e6))
        self._refilled_at = now

    def close(self) -> None:
        """Send the hint that is still wanted: a program may end right after it has enqueued."""
        if self._connections.is_inherited:
            # The thread did not survive the fork, and may have held the lock.
            return
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()


class NoNotifier:
    """Send no hints: behind a transaction-pooling proxy no client can listen."""

    def hint(self) -> None:
        pass

    def take(self) -> bool:
        return False

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
        self._closed.wait(min(timeout, LONGEST_WAIT))
        return False

    def close(self) -> None:
        self._closed.set()
