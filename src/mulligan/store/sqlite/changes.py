"""Wait for commits. SQLite has a number that changes with every commit, also of other processes."""

import contextlib
import threading
import time
from pathlib import Path

from mulligan.store.sqlite.database import Database
from mulligan.store.sqlite.watch import FileWatch

# Read the number often right after a change, when more are likely, and rarely when nothing happens.
SHORTEST, LONGEST, GROWTH = 0.001, 0.010, 1.05
# A commit shows soon after the log was written, as soon as it is on disk. Shorter pauses are not ended by a write: a
# commit makes a dozen of them. Longer ones are, so no write is missed.
SHORTEST_WATCHED, LISTENING, LONGEST_WATCHED, GROWTH_WATCHED = 0.000_1, 0.001, 0.100, 1.5
ANNOUNCED_SECONDS, MOST_UNANNOUNCED = 1.0, 3


class FileChanges:
    """Read `PRAGMA data_version` on a separate connection, when the log was written and every now and then."""

    def __init__(self, database: Database) -> None:
        assert database.path is not None
        self._connection = database.connect_for_reading()
        self._closed = threading.Event()
        self._looking = threading.Lock()
        self._seen = self._version()
        self._pause = SHORTEST
        self._watch = _watch_log(database.path)
        self._written_at = time.monotonic()
        self._unannounced = 0

    def wait(self, timeout: float) -> bool:
        with self._looking:
            return self._wait(time.monotonic() + timeout)

    def _wait(self, end: float) -> bool:
        while not self._closed.is_set():
            version = self._version()
            if version != self._seen:
                self._seen = version
                self._pause = SHORTEST if self._watch is None else SHORTEST_WATCHED
                self._doubt_watch()
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._rest(left)
        return False

    def _rest(self, left: float) -> None:
        if self._watch is None:
            self._closed.wait(min(self._pause, left))
            self._pause = min(self._pause * GROWTH, LONGEST)
        elif self._pause < LISTENING:
            self._closed.wait(min(self._pause, left))
            self._pause *= GROWTH_WATCHED
        elif self._watch.wait(min(self._pause, left)):
            self._written_at = time.monotonic()
            self._pause = SHORTEST_WATCHED
        else:
            self._pause = min(self._pause * GROWTH_WATCHED, LONGEST_WATCHED)

    def _doubt_watch(self) -> None:
        """Some file systems do not tell what other machines or containers write: do without the watch then."""
        if self._watch is None:
            return
        if self._watch.wait(0):
            self._written_at = time.monotonic()
        # One event may stand for the writes of several commits, each of which shows at its own time.
        is_announced = time.monotonic() - self._written_at < ANNOUNCED_SECONDS
        self._unannounced = 0 if is_announced else self._unannounced + 1
        if self._unannounced == MOST_UNANNOUNCED:
            self._watch.close()
            self._watch = None

    def close(self) -> None:
        self._closed.set()
        if self._watch is not None:
            self._watch.end()
        # Never close the connection while another thread polls: SQLite would crash.
        with self._looking:
            self._connection.close()
            if self._watch is not None:
                self._watch.close()
                self._watch = None

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


def _watch_log(database: Path) -> FileWatch | None:
    with contextlib.suppress(OSError):
        return FileWatch(database.with_name(database.name + "-wal"))
    return None


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
