"""One SQLite file: one writing connection with group commit, and one reading connection per thread.

Operations that arrive together are committed together, each in its own savepoint, so that a failing one does not affect
the others. A file lock is held around every write and checkpoint. It is fair, while SQLite's busy handler sleeps and
starves; and no checkpoint coincides with a commit, which the WAL-reset bug of SQLite before 3.51.3 requires.

A thread runs `Writer.run_group`. With `threaded=False` the caller runs `Writer.run_one` in its own thread.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

from mulligan.errors import StoreClosed, StoreDamaged, StoreError, StoreReadOnly, StoreUnavailable
from mulligan.store.messages import TIMEOUT
from mulligan.store.sqlite.lock import FileLock, lock_error
from mulligan.store.sqlite.session import sqlite3, translate_errors

T = TypeVar("T")
Work = Callable[["sqlite3.Connection"], T]

CHECKPOINT_BYTES = 4 * 1024 * 1024
CHECKPOINT_CHANGES = 2_000
TRUNCATE_BYTES = 64 * 1024 * 1024
GROUP_SIZE = 128


class Operation(Generic[T]):
    """Work that waits for its commit."""

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.future: Future[T] = Future()

    def fail(self, error: BaseException) -> None:
        if not self.future.cancelled():
            self.future.set_exception(error)


class _Transaction:
    """Commit all of it, or nothing."""

    __slots__ = ("_connection",)

    def __init__(self, connection: "sqlite3.Connection") -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, type_: object, _error: object, _traceback: object) -> None:
        try:
            if type_ is None:
                self._connection.execute("COMMIT")
        finally:
            # After SQLITE_FULL or an I/O error SQLite may have rolled back already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


class Writer:
    """Run operations in one transaction and answer each of them."""

    def __init__(self, connection: "sqlite3.Connection", file: "_File | None", seconds: float) -> None:
        self.connection = self._connection = connection
        self._file = file
        path = file.path if file else None
        # A string: making a path of it at every commit would take longer than asking for its size.
        self._log = f"{path}-wal" if path else None
        self._name = str(path or "the database in memory")
        self._lock = FileLock(path) if path else None
        self._seconds = seconds
        self._checkpointed = 0

    def run_one(self, work: Work[T]) -> T:
        """Run one operation in the caller's thread."""
        with translate_errors(self._name):
            if self._lock is None:
                with _Transaction(self._connection):
                    return work(self._connection)
            with self._lock.hold(self._seconds):
                self._check_file()
                with _Transaction(self._connection):
                    result = work(self._connection)
                self._checkpoint()
        return result

    def run_nested(self, work: Work[T]) -> T:
        """Run work that an operation calls, as a part of it: a transaction of its own would wait for this one."""
        self._connection.execute("SAVEPOINT nested")
        try:
            result = work(self._connection)
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO nested")
                self._connection.execute("RELEASE nested")
            raise
        self._connection.execute("RELEASE nested")
        return result

    def run_group(self, operations: Sequence[Operation[Any]]) -> None:
        with contextlib.ExitStack() as held:
            try:
                with translate_errors(self._name):
                    if self._lock:
                        held.enter_context(self._lock.hold(self._seconds))
                    self._check_file()
                    answers = self._transact(operations)
            except BaseException as error:
                for operation in operations:
                    operation.fail(error)
                return
            for answer in answers:
                answer()
            self._checkpoint()

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()

    def _transact(self, operations: Sequence[Operation[Any]]) -> list[Callable[[], None]]:
        with _Transaction(self._connection):
            work = self._run_only if len(operations) == 1 else self._run_in_savepoint
            return [work(operation) for operation in operations]

    def _run_only(self, operation: Operation[Any]) -> Callable[[], None]:
        """An error ends the whole transaction: there are no other operations in it."""
        if not operation.future.set_running_or_notify_cancel():
            return lambda: None
        result = operation.work(self._connection)
        return lambda: operation.future.set_result(result)

    def _run_in_savepoint(self, operation: Operation[Any]) -> Callable[[], None]:
        """Run the work now. Its result or error is delivered after the commit."""
        if not operation.future.set_running_or_notify_cancel():
            return lambda: None
        self._connection.execute("SAVEPOINT operation")
        try:
            with translate_errors(self._name):
                result = operation.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise
            self._connection.execute("ROLLBACK TO operation")
            self._connection.execute("RELEASE operation")
            return lambda error=error: operation.fail(error)  # type: ignore[misc]
        self._connection.execute("RELEASE operation")
        return lambda: operation.future.set_result(result)

    def _checkpoint(self) -> None:
        if self._log is None:
            return
        # Commits are safe in the write-ahead log; a failed checkpoint is repeated later.
        with contextlib.suppress(OSError, sqlite3.DatabaseError):
            size = os.stat(self._log).st_size  # noqa: PTH116
            if size > TRUNCATE_BYTES:
                self._truncate()
            elif size > CHECKPOINT_BYTES and self._connection.total_changes - self._checkpointed > CHECKPOINT_CHANGES:
                # The file keeps its size after a checkpoint: by size alone, every further commit would checkpoint.
                self._checkpointed = self._connection.total_changes
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _truncate(self) -> None:
        # A reader may take long. A long write-ahead log is better than blocking all writers.
        self._connection.execute("PRAGMA busy_timeout = 0").fetchall()
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {round(self._seconds * 1000)}").fetchall()

    def close(self) -> None:
        # The last connection to close checkpoints. If another process holds the lock, this connection is not the last.
        with self._lock.hold_if_free() if self._lock else contextlib.nullcontext():
            self._connection.close()
        if self._lock:
            self._lock.close()


class _File:
    """The file as it was when opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = path.stat().st_ino

    def check(self) -> None:
        """Raise if the file was deleted or replaced. It is still open here, but no other process would see what is
        written."""
        try:
            is_ours = self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            raise StoreDamaged(f"{self.path} was deleted or replaced while it was open: restart this process")


class Database:
    """Write and read; both block until done. Reading needs no lock and no write permission."""

    def __init__(
        self, path: Path | None, *, synchronous: str = "FULL", threaded: bool = True, timeout: timedelta = TIMEOUT
    ) -> None:
        self.path = path
        self._synchronous = synchronous
        self._seconds = timeout.total_seconds()
        self._process = os.getpid()
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._committed = threading.Condition()
        self._commits = 0
        self._reads = 0
        self._inline_lock = threading.RLock()
        self._file: _File | None = None
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
            with self._inline_lock, translate_errors(str(self.path or "the database in memory")):
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

    def _remember_file(self) -> _File | None:
        if self._file is None and self.path is not None:
            self._file = _File(self.path)
        return self._file

    def _connect(self, synchronous: str) -> "sqlite3.Connection":
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
                connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
                connection.execute(f"PRAGMA journal_size_limit = {TRUNCATE_BYTES}").fetchall()
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute("PRAGMA mmap_size = 0").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction. Return once it is durable."""
        self._check_process()
        writer = self._get_writer()
        if self._queue is None:
            return self._write_here(writer, work)
        if threading.current_thread() is self._thread:
            return writer.run_nested(work)
        operation = Operation(work)
        if self._is_closed:
            raise StoreClosed
        self._queue.put(operation)
        if self._is_closed:
            # Closed in between: the writer thread may not answer any more.
            assert self._thread is not None
            self._thread.join()
            self._refuse_remaining()
        return self._wait_for(operation)

    def _write_here(self, writer: Writer, work: Work[T]) -> T:
        with self._inline_lock:
            if writer.connection.in_transaction:
                return writer.run_nested(work)
            before = writer.connection.total_changes
            result = writer.run_one(work)
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
            with translate_errors(str(self.path)):
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
        with self._inline_lock, translate_errors("the database in memory"):
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
            self._writer.close()

    def _reader(self) -> "sqlite3.Connection":
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            with translate_errors(str(self.path)):
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
        before = writer.connection.total_changes
        writer.run_group(operations)
        self._notify(writer, before)

    def _notify(self, writer: Writer, before: int) -> None:
        if writer.connection.total_changes == before:
            # A process that waits for changes would wake itself up by reading.
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
