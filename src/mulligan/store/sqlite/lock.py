"""The lock file beside a database: held around every write and checkpoint, waited for within bounds, and gone with
its process.

It is a `flock`. The kernel wakes those who wait for it, and frees it when the last copy of its descriptor is closed. A
fork makes such a copy, which would outlive a killed process: so a forked child closes its copies first of all. A
program that is started does not inherit them.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from mulligan.errors import StoreUnavailable

# Of the command line of a process that is named.
LONGEST_PROGRAM = 80
# The byte of the `-shm` file that SQLite locks while it writes to the log.
WRITING = 120

_open: set["FileLock"] = set()
# Held by a fork, and wherever a lock file is opened or closed: a child must find them all.
_forking = threading.Lock()


def lock_file(database: Path) -> Path:
    return database.with_name(database.name + "-lock")


class FileLock:
    """Used by one thread at a time."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._is_awaited = False
        self._is_wanted = False
        self._trouble: OSError | None = None
        with _forking:
            self._file = os.open(lock_file(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            _open.add(self)

    @contextlib.contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """Raises StoreUnavailable, and names the holder, when it cannot be had for so long."""
        if not self._take(seconds):
            raise locked_out(self._database)
        try:
            yield
        finally:
            self._free()

    @contextlib.contextmanager
    def held_if_free(self) -> Iterator[None]:
        if not self._take(0):
            yield
            return
        try:
            yield
        finally:
            self._free()

    def _take(self, seconds: float) -> bool:
        with self._changed:
            if not self._is_awaited:
                if self._take_now():
                    return True
                if not seconds:
                    return False
                threading.Thread(target=self._await, name="mulligan-sqlite-lock", daemon=True).start()
                self._is_awaited = True
            self._is_wanted = True
            self._changed.wait_for(lambda: not self._is_awaited, seconds)
            self._is_wanted = False
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise trouble
            return not self._is_awaited

    def _take_now(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _await(self) -> None:
        """A wait in the kernel has no end of its own: it is made here, and goes on when the caller has given up."""
        trouble = None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            trouble = error
        with self._changed:
            self._is_awaited = False
            if self._is_wanted:
                self._trouble = trouble
                self._changed.notify_all()
            elif trouble is None:
                self._free()

    def _free(self) -> None:
        # The work is done and answered by now; a writer that died here would leave everybody waiting. The number of a
        # file that was closed meanwhile may be another's: then the kernel has freed the lock already.
        if self._file >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        with self._changed, _forking:
            _open.discard(self)
            self._let_go()

    def _let_go(self) -> None:
        file, self._file = self._file, -1
        os.close(file)


def _let_go_of_all() -> None:
    # Closed, not unlocked: the lock itself is the parent's.
    for lock in _open:
        lock._let_go()
    _open.clear()
    _forking.release()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_let_go_of_all)


def locked_out(database: Path) -> StoreUnavailable:
    """The error for a write that waited for as long as it may; names who was waited for."""
    who = holder(lock_file(database)) or holder(database.with_name(database.name + "-shm"), byte=WRITING)
    return StoreUnavailable(
        f"{database} is locked by another program for too long (MULLIGAN_STORE_TIMEOUT_SEC): "
        f"{who or 'a process that cannot be named'} holds it; let that one go on or end it, then try again"
    )


def holder(path: Path, *, byte: int | None = None) -> str | None:
    """The process that has the file, or that byte of it, locked for itself; None if the system does not tell."""
    try:
        file, locks = path.stat(), Path("/proc/locks").read_text()
    except OSError:
        return None
    wanted = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    for line in locks.splitlines():
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:2146395 0 EOF; who waits for it follows as '1: -> FLOCK …'.
        match line.split():
            case [_, _, _, "WRITE", process, place, first, last] if place == wanted and int(process) > 0:
                if byte is None or int(first) <= byte <= (byte if last == "EOF" else int(last)):
                    return _named(process)
    return None


def _named(process: str) -> str:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return f"process {process}"
    program = " ".join(filter(None, command))
    return f"process {process} ({program[:LONGEST_PROGRAM]}{'…' * (len(program) > LONGEST_PROGRAM)})"
