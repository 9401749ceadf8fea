"""One SQLite file: one writing connection with group commit, one reading connection a thread.

Operations that arrive together are committed together, each in its own savepoint, so that a failing
one takes nothing with it. A file lock is held around every write and checkpoint: it is fair where
SQLite's own busy handler sleeps and starves, and it keeps a checkpoint from meeting a commit, which
is what the WAL-reset bug of SQLite before 3.51.3 needs.

`Writer.step` is the whole logic, driven by a thread; `Writer.alone` is the same for one caller in his own thread
(`threaded=False`).
"""

import contextlib
import fcntl
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, TypeVar

from mulligan.errors import StoreClosed, StoreDamaged, StoreError, StoreUnavailable
from mulligan.store.sqlite.driver import sqlite3, translated

T = TypeVar("T")
Work = Callable[["sqlite3.Connection"], T]

BUSY_MILLISECONDS = 10_000
CHECKPOINT_BYTES = 4 * 1024 * 1024
CHECKPOINT_CHANGES = 2_000
TRUNCATE_BYTES = 64 * 1024 * 1024
GROUP_SIZE = 128
# How long somebody else may hold the file lock, beyond SQLite's own patience, before the caller is told.
LOCK_SECONDS = 5.0


class Operation(Generic[T]):
    """Work that waits for its commit."""

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.future: Future[T] = Future()

    def fail(self, error: BaseException) -> None:
        if not self.future.cancelled():
            self.future.set_exception(error)


class FileLock:
    """Held around every write; the kernel hands it on in turn and frees it when a process dies."""

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + "-lock")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # The work is done and answered by now; a writer that died here would leave everybody waiting.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)


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

    def __init__(self, connection: "sqlite3.Connection", path: Path | None) -> None:
        self._connection = connection
        self._path = path
        self._place = str(path or "the database in memory")
        self._lock = FileLock(path) if path else None
        self._checkpointed = 0
        self._inode = path.stat().st_ino if path else None

    def alone(self, work: Work[T]) -> T:
        """For a caller who waits in this very thread: one operation, and nobody else to be told."""
        with translated(self._place):
            if self._lock is None:
                with _Transaction(self._connection):
                    return work(self._connection)
            with self._lock.held():
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
                        held.enter_context(self._lock.held())
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
        """A file that was deleted or replaced is still open here: what we write would be seen by nobody."""
        if self._path is None:
            return
        try:
            is_ours = self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            raise StoreDamaged(f"{self._path} was deleted or replaced while it was open: start this process again")

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
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}").fetchall()

    def close(self) -> None:
        # The last connection to close checkpoints: that too only under the lock.
        with self._lock.held() if self._lock else contextlib.nullcontext():
            self._connection.close()
        if self._lock:
            self._lock.close()


class Database:
    """Write and read; both block until done."""

    def __init__(self, path: Path | None, *, synchronous: str = "FULL", threaded: bool = True) -> None:
        self.path = path
        self._process = os.getpid()
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._committed = threading.Condition()
        self._commits = 0
        self._reads = 0
        with translated(str(path or "the database in memory")):
            self._connection = self._connect(synchronous)
            self._writer = Writer(self._connection, path)
        self._inline = threading.RLock()
        self._queue: queue.SimpleQueue[Operation[Any] | None] | None = None
        self._is_closed = False
        if threaded:
            self._queue = queue.SimpleQueue()
            self._thread = threading.Thread(target=self._drive, name="mulligan-sqlite-writer", daemon=True)
            self._thread.start()

    def _connect(self, synchronous: str) -> "sqlite3.Connection":
        connection = sqlite3.connect(
            str(self.path) if self.path else ":memory:",
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_MILLISECONDS / 1000,
            cached_statements=256,
        )
        if self.path:
            _use_wal(connection, self.path)
            connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            connection.execute(f"PRAGMA journal_size_limit = {TRUNCATE_BYTES}").fetchall()
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA mmap_size = 0").fetchall()
        return connection

    def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction; returns once it is durable."""
        self._check_process()
        if self._queue is None:
            return self._write_here(work)
        operation = Operation(work)
        if self._is_closed:
            raise StoreClosed
        self._queue.put(operation)
        if self._is_closed:
            # Closed in between: nobody may be left to answer.
            self._thread.join()
            self._refuse_the_rest()
        return self._answer(operation)

    def _write_here(self, work: Work[T]) -> T:
        with self._inline:
            before = self._connection.total_changes
            result = self._writer.alone(work)
            self._notify(before)
        return result

    def _answer(self, operation: Operation[T]) -> T:
        try:
            return operation.future.result(BUSY_MILLISECONDS / 1000 + LOCK_SECONDS)
        except TimeoutError:
            if not operation.future.cancel():
                return operation.future.result()  # it is under way by now
            raise StoreUnavailable(f"{self.path} is locked by another program for too long; try again") from None

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
            return work(self._connection)

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
        connection = sqlite3.connect(
            str(self.path),
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_MILLISECONDS / 1000,
        )
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        connection.execute("PRAGMA query_only = 1")
        return connection

    def close(self) -> None:
        if self._is_closed or self._process != os.getpid():
            return
        self._is_closed = True
        if self._queue is not None:
            self._queue.put(None)
            self._thread.join()
        with self._committed:
            is_quiet = self._committed.wait_for(lambda: self._reads == 0, BUSY_MILLISECONDS / 1000)
        for reader in self._readers if is_quiet else ():
            reader.close()
        self._writer.close()

    def _reader(self) -> "sqlite3.Connection":
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            with translated(str(self.path)):
                connection = self.connect_for_reading()
            self._local.connection = connection
            self._readers.append(connection)
        return connection

    def _drive(self) -> None:
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
            self._step(operations)
        self._refuse_the_rest()

    def _refuse_the_rest(self) -> None:
        assert self._queue is not None
        with contextlib.suppress(queue.Empty):
            while True:
                operation = self._queue.get_nowait()
                if operation is not None:
                    operation.fail(StoreClosed())

    def _step(self, operations: Sequence[Operation[Any]]) -> None:
        before = self._connection.total_changes
        self._writer.step(operations)
        self._notify(before)

    def _notify(self, before: int) -> None:
        if self._connection.total_changes == before:
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


def _use_wal(connection: "sqlite3.Connection", path: Path) -> None:
    # Read first: a file that is no database is left alone.
    connection.execute("PRAGMA schema_version").fetchall()
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        return
    # Of two processes that switch a new file at once, one is told 'locked' whatever its timeout.
    with contextlib.closing(FileLock(path)) as lock, lock.held():
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
