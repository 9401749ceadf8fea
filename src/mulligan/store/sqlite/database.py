"""One SQLite file: one writing connection with group commit, one reading connection a thread.

Operations that arrive together are committed together, each in its own savepoint, so that a failing
one takes nothing with it. A file lock is held around every write and checkpoint: it is fair where
SQLite's own busy handler sleeps and starves, and it keeps a checkpoint from meeting a commit, which
is what the WAL-reset bug of SQLite before 3.51.3 needs.

`Writer.step` is the whole logic, driven by a thread; `Writer.alone` is the same for one caller in his own thread
(`threaded=False`).
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
from mulligan.store.sqlite.driver import sqlite3, translated
from mulligan.store.sqlite.lock import FileLock, locked_out

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
    """All of it, or nothing."""

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
    """Runs operations in one transaction and answers each of them."""

    def __init__(self, connection: "sqlite3.Connection", file: "_File | None", seconds: float) -> None:
        self.connection = self._connection = connection
        self._file = file
        self._path = path = file.path if file else None
        self._place = str(path or "the database in memory")
        self._lock = FileLock(path) if path else None
        self._seconds = seconds
        self._checkpointed = 0

    def alone(self, work: Work[T]) -> T:
        """For a caller who waits in this very thread: one operation, and nobody else to be told."""
        with translated(self._place):
            if self._lock is None:
                with _Transaction(self._connection):
                    return work(self._connection)
            with self._lock.held(self._seconds):
                self._check_file()
                with _Transaction(self._connection):
                    result = work(self._connection)
                self._checkpoint()
        return result

    def step(self, operations: Sequence[Operation[Any]]) -> None:
        with contextlib.ExitStack() as held:
            try:
                with translated(self._place):
                    if self._lock:
                        held.enter_context(self._lock.held(self._seconds))
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
            work = self._only if len(operations) == 1 else self._attempt
            return [work(operation) for operation in operations]

    def _only(self, operation: Operation[Any]) -> Callable[[], None]:
        """Whatever it raises ends the transaction: there is nobody to be spared."""
        if not operation.future.set_running_or_notify_cancel():
            return lambda: None
        result = operation.work(self._connection)
        return lambda: operation.future.set_result(result)

    def _attempt(self, operation: Operation[Any]) -> Callable[[], None]:
        """Do the work now; what it returns or raises is told after the commit."""
        if not operation.future.set_running_or_notify_cancel():
            return lambda: None
        self._connection.execute("SAVEPOINT operation")
        try:
            with translated(self._place):
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
        if self._path is None:
            return
        # What is committed is safe in the log; a checkpoint that fails is made up for later.
        with contextlib.suppress(OSError, sqlite3.DatabaseError):
            size = self._path.with_name(self._path.name + "-wal").stat().st_size
            if size > TRUNCATE_BYTES:
                self._truncate()
            elif size > CHECKPOINT_BYTES and self._connection.total_changes - self._checkpointed > CHECKPOINT_CHANGES:
                # The file keeps its size after a checkpoint: by size alone every further commit would make one.
                self._checkpointed = self._connection.total_changes
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _truncate(self) -> None:
        # Somebody may read for long: better a long log for a while than all writers waiting for him.
        self._connection.execute("PRAGMA busy_timeout = 0").fetchall()
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {round(self._seconds * 1000)}").fetchall()

    def close(self) -> None:
        # The last connection to close checkpoints. Who holds the lock has one too, and then ours is not the last.
        with self._lock.held_if_free() if self._lock else contextlib.nullcontext():
            self._connection.close()
        if self._lock:
            self._lock.close()


class _File:
    """The file as it was first seen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = path.stat().st_ino

    def check(self) -> None:
        """A file that was deleted or replaced is still open here: what we write would be seen by nobody."""
        try:
            is_ours = self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            raise StoreDamaged(f"{self.path} was deleted or replaced while it was open: start this process again")


class Database:
    """Write and read; both block until done. What only reads needs no lock, and no right to write."""

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
        self._inline = threading.RLock()
        self._file: _File | None = None
        self._writer: Writer | None = None
        self._queue: queue.SimpleQueue[Operation[Any] | None] | None = queue.SimpleQueue() if threaded else None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.is_at_rest = False
        """It is only read, and no process had it open to write when that began."""
        # A new file is made at once; one in another mode is switched, and read as it is where that cannot be done.
        if not self._is_in_wal():
            with contextlib.suppress(StoreReadOnly, StoreUnavailable):
                self._writing()

    def _is_in_wal(self) -> bool:
        """Asked through SQLite: to open and close the file beside it would take away the locks of this whole process,
        and another one would remove the log that this one still writes to."""
        if self.path is None or not self.path.exists():
            return False
        try:
            with contextlib.closing(self.connect_for_reading()) as connection:
                return bool(connection.execute("PRAGMA journal_mode").fetchone() == ("wal",))
        except sqlite3.DatabaseError:
            return False  # what is wrong with it is said when it is opened for writing

    @property
    def _connection(self) -> "sqlite3.Connection":
        return self._writing().connection

    def _writing(self) -> Writer:
        """Opened by the first write."""
        if self._writer is None:
            with self._inline, translated(str(self.path or "the database in memory")):
                self._writer = self._writer or self._open_writer()
        return self._writer

    def _open_writer(self) -> Writer:
        if self._file is not None:
            self._file.check()
        connection = self._connect(self._synchronous)
        try:
            writer = Writer(connection, self._seen(), self._seconds)
        except BaseException:
            connection.close()
            raise
        if self._queue is not None:
            self._thread = threading.Thread(
                target=self._drive, args=(writer,), name="mulligan-sqlite-writer", daemon=True
            )
            self._thread.start()
        return writer

    def _seen(self) -> _File | None:
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
        """Run `work` in a transaction; returns once it is durable."""
        self._check_process()
        writer = self._writing()
        if self._queue is None:
            return self._write_here(writer, work)
        operation = Operation(work)
        if self._is_closed:
            raise StoreClosed
        self._queue.put(operation)
        if self._is_closed:
            # Closed in between: nobody may be left to answer.
            assert self._thread is not None
            self._thread.join()
            self._refuse_the_rest()
        return self._answer(operation)

    def _write_here(self, writer: Writer, work: Work[T]) -> T:
        with self._inline:
            before = writer.connection.total_changes
            result = writer.alone(work)
            self._notify(writer, before)
        return result

    def _answer(self, operation: Operation[T]) -> T:
        try:
            return operation.future.result(self._seconds)
        except TimeoutError:
            if self.path is None or not operation.future.cancel():
                return operation.future.result()  # it is under way by now, or there is nobody else to wait for
            raise locked_out(self.path) from None

    def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent snapshot."""
        self._check_process()
        if self.path is None:
            return self._read_memory(work)
        with self._reading():
            connection = self._reader()
            with translated(str(self.path)):
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    # Gone already when the trouble was the file's: the error itself is what matters.
                    if connection.in_transaction:
                        connection.execute("COMMIT")

    def _read_memory(self, work: Work[T]) -> T:
        """A database in memory has one connection only."""
        if self._queue is not None:
            return self.write(work)
        with self._inline, translated("the database in memory"):
            return work(self._writing().connection)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Counted, so that no connection is closed under the feet of a thread that uses it."""
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
        """The number of commits made here, once it differs from `seen` or the time is over."""
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
        # SQLite would make files beside it, and may not. They are for those who write, and nobody does.
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
            # Only now it is looked at.
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
            with translated(str(self.path)):
                connection = self.connect_for_reading()
                self._seen()
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
        self._refuse_the_rest()

    def _refuse_the_rest(self) -> None:
        assert self._queue is not None
        with contextlib.suppress(queue.Empty):
            while True:
                operation = self._queue.get_nowait()
                if operation is not None:
                    operation.fail(StoreClosed())

    def _step(self, writer: Writer, operations: Sequence[Operation[Any]]) -> None:
        before = writer.connection.total_changes
        writer.step(operations)
        self._notify(writer, before)

    def _notify(self, writer: Writer, before: int) -> None:
        if writer.connection.total_changes == before:
            # Whoever waits for changes would wake himself up by looking.
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
    # Read first: a file that is no database is left alone.
    connection.execute("PRAGMA schema_version").fetchall()
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        return
    # Of two processes that switch a new file at once, one is told 'locked' whatever its timeout.
    with contextlib.closing(FileLock(path)) as lock, lock.held(seconds):
        connection.execute("PRAGMA journal_mode = WAL").fetchall()


def _is_at_rest(path: Path) -> bool:
    """A file that can be read, in a folder that cannot be written, and no log of changes beside it."""
    log = path.with_name(path.name + "-wal")
    is_empty = not log.exists() or log.stat().st_size == 0
    return is_empty and os.access(path, os.R_OK) and not os.access(path.parent, os.W_OK)
