"""The lock file next to a database. It is held around every write and checkpoint, waited for within a limit, and
released when its process ends.

It is a `flock`. The kernel wakes waiting processes, and releases the lock when the last copy of its descriptor is
closed. A fork makes such a copy, which would outlive a killed parent, so a forked child closes its copies first of all.
Started programs do not inherit it.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from mulligan.errors import StoreUnavailable

# Of the command line of a named process.
LONGEST_PROGRAM = 80
# The byte of the `-shm` file that SQLite locks while it writes to the log.
WRITING = 120

_open: set["FileLock"] = set()
# Held during a fork, and while a lock file is opened or closed: a child must find all of them.
_forking = threading.Lock()


# Of new files, restricted by the umask: other users than the owner and the group have nothing to do with them.
PERMISSIONS = 0o660


def lock_file(database: Path) -> Path:
    return database.with_name(database.name + "-lock")


class FileLock:
    """Use it in one thread at a time."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._is_awaited = False
        self._is_wanted = False
        self._error: OSError | None = None
        with _forking:
            self._file = os.open(lock_file(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PERMISSIONS)
            _open.add(self)

    @contextlib.contextmanager
    def hold(self, seconds: float) -> Iterator[None]:
        """Raises StoreUnavailable, naming the holder, if it is not free within this time."""
        if not self._acquire(seconds):
            raise lock_error(self._database)
        try:
            yield
        finally:
            self._release()

    @contextlib.contextmanager
    def hold_if_free(self) -> Iterator[bool]:
        """Return whether it is held. Does not wait, and takes no lock made in Python, so that an exception raised in
        this thread from outside cannot leave one behind."""
        if self._is_awaited or not self._acquire_now():
            yield False
            return
        try:
            yield True
        finally:
            self._release()

    def _acquire(self, seconds: float) -> bool:
        with self._changed:
            if not self._is_awaited:
                if self._acquire_now():
                    return True
                threading.Thread(target=self._wait_in_thread, name="mulligan-sqlite-lock", daemon=True).start()
                self._is_awaited = True
            self._is_wanted = True
            self._changed.wait_for(lambda: not self._is_awaited, seconds)
            self._is_wanted = False
            if self._error is not None:
                failure, self._error = self._error, None
                raise failure
            return not self._is_awaited

    def _acquire_now(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait_in_thread(self) -> None:
        """The kernel's wait has no timeout, so it happens in this thread, and continues after the caller has given
        up."""
        failure = None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            failure = error
        with self._changed:
            self._is_awaited = False
            if self._is_wanted:
                self._error = failure
                self._changed.notify_all()
            elif failure is None:
                self._release()

    def _release(self) -> None:
        # The work is done and answered by now; an error here would end the writer and leave all others waiting. If the
        # file was closed meanwhile, the kernel has released the lock and the number may be another file's.
        if self._file >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        with self._changed, _forking:
            _open.discard(self)
            self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, -1
        os.close(file)


def _close_in_child() -> None:
    # Close, do not unlock: the parent holds the lock.
    for lock in _open:
        lock._close_file()
    _open.clear()
    _forking.release()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_close_in_child)


def lock_error(database: Path) -> StoreUnavailable:
    """Return the error for a write that waited too long. It names the process that holds the lock."""
    name = find_holder(lock_file(database)) or find_holder(database.with_name(database.name + "-shm"), byte=WRITING)
    return StoreUnavailable(
        f"{database} is locked by another program for too long (MULLIGAN_STORE_TIMEOUT_SEC): "
        f"{name or 'an unknown process'} holds it; let it continue or end it, then try again"
    )


def find_holder(path: Path, *, byte: int | None = None) -> str | None:
    """Return the process that has locked the file, or this byte of it, for writing; None if the system does not
    tell."""
    try:
        file, locks = path.stat(), Path("/proc/locks").read_text()
    except OSError:
        return None
    wanted = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    for line in locks.splitlines():
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:2146395 0 EOF; waiting processes follow as '1: -> FLOCK …'.
        match line.split():
            case [_, _, _, "WRITE", process, device, first, last] if device == wanted and int(process) > 0:
                if byte is None or int(first) <= byte <= (byte if last == "EOF" else int(last)):
                    return _describe_process(process)
    return None


def _describe_process(process: str) -> str:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return f"process {process}"
    program = " ".join(filter(None, command))
    return f"process {process} ({program[:LONGEST_PROGRAM]}{'…' * (len(program) > LONGEST_PROGRAM)})"
