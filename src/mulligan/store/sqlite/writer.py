"""The writing connection of one SQLite file: transactions under the file lock, one operation each or many together.

Operations that are committed together run each in its own savepoint, so that a failing one does not affect the others.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any, Generic, TypeVar

from mulligan.errors import StoreDamaged
from mulligan.store.sqlite.lock import FileLock
from mulligan.store.sqlite.session import sqlite3, translate_errors

T = TypeVar("T")
Work = Callable[["sqlite3.Connection"], T]

_FREE = contextlib.nullcontext(True)  # noqa: FBT003


class Operation(Generic[T]):
    """Work that waits for its commit."""

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.future: Future[T] = Future()

    def fail(self, error: BaseException) -> None:
        # The caller may give up at any moment: after a check, it could still do so before the answer.
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


class _Transaction:
    """Commit all of it, or nothing."""

    __slots__ = ("_connection",)

    def __init__(self, connection: "sqlite3.Connection") -> None:
        self._connection = connection

    def __enter__(self) -> None:
        if self._connection.in_transaction:
            # An exception raised in the caller's thread from outside, such as KeyboardInterrupt, may strike anywhere.
            self._connection.execute("ROLLBACK")
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

    def __init__(self, connection: "sqlite3.Connection", file: "OpenedFile | None", seconds: float) -> None:
        self.connection = self._connection = connection
        self._file = file
        path = file.path if file else None
        self._translating = translate_errors(str(path or "the database in memory"))
        self._lock = FileLock(path) if path else None
        self._seconds = seconds

    def run_one(self, work: Work[T]) -> T:
        """Run one operation in the caller's thread."""
        with self._translating, self._lock.hold(self._seconds) if self._lock else contextlib.nullcontext():
            return self._run(work)

    def run_if_free(self, work: Work[T]) -> tuple[T] | None:
        """Run one operation in the caller's thread, unless another process holds the lock. Return its result, or None
        if it did not run."""
        with self._translating, self._lock.hold_if_free() if self._lock else _FREE as is_free:
            return (self._run(work),) if is_free else None

    def _run(self, work: Work[T]) -> T:
        self._check_file()
        with _Transaction(self._connection):
            return work(self._connection)

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
                with self._translating:
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
            with self._translating:
                result = operation.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise
            self._connection.execute("ROLLBACK TO operation")
            self._connection.execute("RELEASE operation")
            return lambda error=error: operation.fail(error)  # type: ignore[misc]
        self._connection.execute("RELEASE operation")
        return lambda: operation.future.set_result(result)

    def close(self) -> None:
        # The last connection to close checkpoints. If another process holds the lock, this connection is not the last.
        with self._lock.hold_if_free() if self._lock else contextlib.nullcontext():
            self._connection.close()
        if self._lock:
            self._lock.close()


class OpenedFile:
    """The file as it was when opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A string: to make one of the path at every write takes as long as the check.
        self._name = str(path)
        self._inode = path.stat().st_ino

    def check(self) -> None:
        """Raise if the file was deleted or replaced. It is still open here, but no other process would see what is
        written."""
        try:
            is_ours = os.stat(self._name).st_ino == self._inode  # noqa: PTH116
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            raise StoreDamaged(f"{self.path} was deleted or replaced while it was open: restart this process")
