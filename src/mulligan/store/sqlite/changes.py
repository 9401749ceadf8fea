"""Wait for commits. SQLite has a number that changes with every commit, also of other processes."""

import threading
import time

from mulligan.store.sqlite.database import Database

# Poll often right after a change, when more are likely, and rarely when nothing happens.
SHORTEST, LONGEST = 0.001, 0.010


class FileChanges:
    """Poll `PRAGMA data_version` on a separate connection."""

    def __init__(self, database: Database) -> None:
        self._connection = database.connect_for_reading()
        self._closed = threading.Event()
        self._looking = threading.Lock()
        self._seen = self._version()
        self._pause = SHORTEST

    def wait(self, timeout: float) -> bool:
        with self._looking:
            return self._wait(time.monotonic() + timeout)

    def _wait(self, end: float) -> bool:
        while not self._closed.is_set():
            version = self._version()
            if version != self._seen:
                self._seen = version
                self._pause = SHORTEST
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._closed.wait(min(self._pause, left))
            self._pause = min(self._pause * 1.05, LONGEST)
        return False

    def close(self) -> None:
        self._closed.set()
        # Never close the connection while another thread polls: SQLite would crash.
        with self._looking:
            self._connection.close()

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


class MemoryChanges:
    """Only this process changes a database in memory."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = database.wait_for_commit(-1, 0)

    def wait(self, timeout: float) -> bool:
        before = self._seen
        self._seen = self._database.wait_for_commit(before, timeout)
        return self._seen != before

    def close(self) -> None:
        pass
