"""One SQLite file: one writing connection with group commit, and one reading connection per thread.

A file lock is held around every write and checkpoint. It is fair, while SQLite's busy handler sleeps and starves; and
no checkpoint coincides with a commit, which the WAL-reset bug of SQLite before 3.51.3 requires.

A caller that finds no other write runs `Writer.run_if_free` in its own thread. Otherwise its operation waits in a
queue, and a thread runs `Writer.run_group` with all that wait. With `threaded=False` every caller waits for its turn
and runs `Writer.run_one`.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from mulligan.errors import StoreClosed, StoreError, StoreReadOnly, StoreUnavailable
from mulligan.store.messages import TIMEOUT
from mulligan.store.sqlite.lock import PERMISSIONS, FileLock, lock_error
from mulligan.store.sqlite.session import sqlite3, translate_errors
from mulligan.store.sqlite.writer import OpenedFile, Operation, Work, Writer

T = TypeVar("T")

CHECKPOINT_PAGES = 2_000
TRUNCATE_BYTES = 64 * 1024 * 1024
GROUP_SIZE = 128


class Database:
    """Write and read; both block until done. Reading needs no lock and no write permission."""

    def __init__(
        self, path: Path | None, *, synchronous: str = "FULL", threaded: bool = True, timeout: timedelta = TIMEOUT
    ) -> None:
        self.path = path
        self._synchronous = synchronous
        self._seconds = timeout.total_seconds()
        self._process = os.getpid()
        self._translating = translate_errors(str(path or "the database in memory"))
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._committed = threading.Condition()
        self._commits = 0
        self._reads = 0
        # Held while a thread uses the writing connection. `_turn_of` is that thread, while it is inside a transaction.
        self._turn = threading.RLock()
        self._turn_of: int | None = None
        self._is_turn_wanted = False
        self._file: OpenedFile | None = None
        self._writer: Writer | None = None
        self._queue: queue.SimpleQueue[Operation[Any] | None] | None = queue.SimpleQueue() if threaded else None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.is_at_rest = False
        """The file is only read, and no process had it open for writing at the time."""
        # A new file is created at once. A file in another journal mode is switched, or read as it is if that is not
        # possible.
        if not self._is_in_wal():
            with contextlib.suppress(StoreReadOnly, StoreUnavailable):
                self._get_writer()

    def _is_in_wal(self) -> bool:
        """Asked through SQLite: opening and closing the file directly would release all locks of this process, and
        another process would then delete the log that this one still writes to."""
        if self.path is None or not self.path.exists():
            return False
        try:
            with contextlib.closing(self.connect_for_reading()) as connection:
                return bool(connection.execute("PRAGMA journal_mode").fetchone() == ("wal",))
        except sqlite3.DatabaseError:
            return False  # the error is reported when it is opened for writing

    @property
    def _connection(self) -> "sqlite3.Connection":
        return self._get_writer().connection

    def _get_writer(self) -> Writer:
        """Open the writer with the first write."""
        if self._writer is None:
            with self._turn, self._translating:
                self._writer = self._writer or self._open_writer()
        return self._writer

    def _open_writer(self) -> Writer:
        if self._file is not None:
            self._file.check()
        connection = self._connect(self._synchronous)
        try:
            writer = Writer(connection, self._remember_file(), self._seconds)
        except BaseException:
            connection.close()
            raise
        if self._queue is not None:
            self._thread = threading.Thread(
                target=self._drive, args=(writer,), name="mulligan-sqlite-writer", daemon=True
            )
            self._thread.start()
        return writer

    def _remember_file(self) -> OpenedFile | None:
        if self._file is None and self.path is not None:
            self._file = OpenedFile(self.path)
        return self._file

    def _connect(self, synchronous: str) -> "sqlite3.Connection":
        if self.path is not None:
            _create(self.path)
        connection = sqlite3.connect(
            str(self.path) if self.path else ":memory:",
            isolation_level=None,
            check_same_thread=False,
            timeout=self._seconds,
            cached_statements=256,
        )
        try:
            if self.path:
                _use_wal(connection, self.path, self._seconds)
                # SQLite makes it at the end of a COMMIT, under the lock.
                connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}").fetchall()
                connection.execute(f"PRAGMA journal_size_limit = {TRUNCATE_BYTES}").fetchall()
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute("PRAGMA mmap_size = 0").fetchall()
            # For the undo log of a statement: otherwise SQLite creates a file for it.
            connection.execute("PRAGMA temp_store = MEMORY").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction. Return once it is durable."""
        self._check_process()
        writer = self._get_writer()
        if self._turn_of == threading.get_ident():
            return writer.run_nested(work)
        if self._queue is None:
            return self._write_here(writer, lambda: writer.run_one(work))
        if self._is_idle() and (answer := self._write_here(writer, lambda: writer.run_if_free(work))):
            return answer[0]
        operation = Operation(work)
        self._queue.put(operation)
        if self._is_closed:
            # Closed in between: the writer thread may not answer any more.
            assert self._thread is not None
            self._thread.join()
            self._refuse_remaining()
        return self._wait_for(operation)

    def _is_idle(self) -> bool:
        """Whether no other thread writes or waits to write. If this changes at once, the caller waits for its turn."""
        return self._turn_of is None and not self._is_turn_wanted and self._queue is not None and self._queue.empty()

    def _write_here(self, writer: Writer, run: Callable[[], T]) -> T:
        # `with` cannot be interrupted between taking the lock and its block, as `acquire(timeout=…)` could.
        with self._turn:
            self._check_process()
            return self._take_turn(writer, run)

    def _take_turn(self, writer: Writer, run: Callable[[], T]) -> T:
        before = writer.connection.total_changes
        self._turn_of = threading.get_ident()
        try:
            result = run()
        finally:
            self._turn_of = None
        self._notify(writer, before)
        return result

    def _wait_for(self, operation: Operation[T]) -> T:
        try:
            return operation.future.result(self._seconds)
        except TimeoutError:
            if self.path is None or not operation.future.cancel():
                return operation.future.result()  # it runs already, or no other process can block it
            raise lock_error(self.path) from None

    def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent snapshot."""
        self._check_process()
        if self.path is None:
            return self._read_memory(work)
        with self._count_read():
            connection = self._reader()
            with self._translating:
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    # SQLite may have ended it after an I/O error; that error is the one to raise.
                    if connection.in_transaction:
                        connection.execute("COMMIT")

    def _read_memory(self, work: Work[T]) -> T:
        """A database in memory has only one connection."""
        if self._queue is not None:
            return self.write(work)
        with self._turn, self._translating:
            return work(self._get_writer().connection)

    @contextlib.contextmanager
    def _count_read(self) -> Iterator[None]:
        """Count readers, so that no connection is closed while a thread uses it."""
        with self._committed:
            if self._is_closed:
                raise StoreClosed
            self._reads += 1
        try:
            yield
        finally:
            with self._committed:
                self._reads -= 1
                self._committed.notify_all()

    def wait_for_commit(self, seen: int, timeout: float) -> int:
        """Return the number of commits made here, once it differs from `seen` or the time is over."""
        with self._committed:
            self._committed.wait_for(lambda: self._commits != seen, timeout)
            return self._commits

    def connect_for_reading(self) -> "sqlite3.Connection":
        assert self.path is not None
        try:
            return self._connect_reader(str(self.path))
        except sqlite3.OperationalError:
            if not _is_at_rest(self.path):
                raise
        # SQLite would create files next to it, and is not allowed to. Only writers need them, and there are none.
        connection = self._connect_reader(f"{self.path.absolute().as_uri()}?immutable=1")
        self.is_at_rest = True
        return connection

    def _connect_reader(self, name: str) -> "sqlite3.Connection":
        connection = sqlite3.connect(
            name,
            isolation_level=None,
            check_same_thread=False,
            timeout=self._seconds,
            uri=name.startswith("file:"),
        )
        try:
            connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            connection.execute("PRAGMA query_only = 1")
            # This is the first statement that opens the file.
            connection.execute("PRAGMA schema_version").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        if self._is_closed or self._process != os.getpid():
            return
        self._is_closed = True
        if self._queue is not None and self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        with self._committed:
            is_quiet = self._committed.wait_for(lambda: self._reads == 0, self._seconds)
        for reader in self._readers if is_quiet else ():
            reader.close()
        if self._writer is not None:
            with self._turn:
                self._writer.close()

    def _reader(self) -> "sqlite3.Connection":
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            with self._translating:
                connection = self.connect_for_reading()
                self._remember_file()
            self._local.connection = connection
            self._readers.append(connection)
        return connection

    def _drive(self, writer: Writer) -> None:
        assert self._queue is not None
        is_open = True
        while is_open:
            first = self._queue.get()
            if first is None:
                break
            operations = [first]
            while len(operations) < GROUP_SIZE:
                try:
                    operation = self._queue.get_nowait()
                except queue.Empty:
                    break
                if operation is None:
                    is_open = False
                    break
                operations.append(operation)
            self._step(writer, operations)
        self._refuse_remaining()

    def _refuse_remaining(self) -> None:
        assert self._queue is not None
        with contextlib.suppress(queue.Empty):
            while True:
                operation = self._queue.get_nowait()
                if operation is not None:
                    operation.fail(StoreClosed())

    def _step(self, writer: Writer, operations: Sequence[Operation[Any]]) -> None:
        # Callers that write themselves would take the turn again and again.
        self._is_turn_wanted = True
        with self._turn:
            self._is_turn_wanted = False
            self._take_turn(writer, lambda: writer.run_group(operations))

    def _notify(self, writer: Writer, before: int) -> None:
        # A process that waits for changes would wake itself up by reading. Those of a file are seen otherwise.
        if self.path is not None or writer.connection.total_changes == before:
            return
        with self._committed:
            self._commits += 1
            self._committed.notify_all()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise StoreError(
                "this store was opened before the process forked and cannot be used in the child; "
                "open the app in each process, or start processes with 'spawn'"
            )
        if self._is_closed:
            raise StoreClosed


def _create(path: Path) -> None:
    """Create a missing file. SQLite would let every user read it, and gives its other files the same permissions."""
    # What is wrong with the path, SQLite says.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PERMISSIONS))


def _use_wal(connection: "sqlite3.Connection", path: Path, seconds: float) -> None:
    # Read first: a file that is not a database stays unchanged.
    connection.execute("PRAGMA schema_version").fetchall()
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        return
    # If two processes switch a new file at once, one gets 'locked' whatever its timeout.
    with contextlib.closing(FileLock(path)) as lock, lock.hold(seconds):
        connection.execute("PRAGMA journal_mode = WAL").fetchall()


def _is_at_rest(path: Path) -> bool:
    """Whether the file is readable in a read-only folder, without a write-ahead log."""
    log = path.with_name(path.name + "-wal")
    is_empty = not log.exists() or log.stat().st_size == 0
    return is_empty and os.access(path, os.R_OK) and not os.access(path.parent, os.W_OK)
