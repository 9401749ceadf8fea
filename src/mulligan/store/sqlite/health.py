"""What a doctor asks about a SQLite file: the library, the file system, the journal, the lock, the space."""

import fcntl
import os
import re
import shutil
import threading
from datetime import timedelta
from pathlib import Path

from mulligan.records.finding import Check, Finding, Limits, ok, problem, warning
from mulligan.store.sqlite.database import Database
from mulligan.store.sqlite.driver import CANNOT_OPEN, READ_ONLY, primary_code, sqlite3
from mulligan.store.sqlite.lock import WRITING, holder, lock_file
from mulligan.values.duration import describe
from mulligan.values.size import describe_size

BUGGY = ((3, 7, 0), (3, 51, 3))
# Older lines that were given the fix, from which version on.
MENDED = {(3, 44): 6, (3, 50): 7}
NETWORKS = re.compile(
    r"9p|afs|beegfs|ceph|cifs|coda|fuse\.(glusterfs|s3fs|sshfs)|gfs2|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|smb(3|fs)|virtiofs"
)
LOCK_LOOKS = 20


def examine(database: Database, synchronous: str, limits: Limits) -> list[Finding]:
    path = database.path
    found = [
        version(sqlite3.sqlite_version_info),
        database.read(lambda db: journal(db, synchronous, is_at_rest=database.is_at_rest)),
        database.read(lambda db: log_size(db, limits)),
    ]
    if path is not None:
        found.append(file_system(path, mount_table()))
        found.append(lock(path, limits.lock))
        found.append(disk(path, limits))
    return found


def version(found: tuple[int, ...]) -> Finding:
    text = f"SQLite {'.'.join(map(str, found))}"
    first, fixed = BUGGY
    if not first <= found < fixed or found[2] >= MENDED.get((found[0], found[1]), 1_000):
        return ok(Check.SQLITE_VERSION, text)
    return warning(
        Check.SQLITE_VERSION,
        f"{text} has the WAL-reset bug (3.7.0 to 3.51.2), which can damage a file that several processes write to; "
        "mulligan's lock file keeps its own processes safe from it, but no other program",
        "pip install 'mulligan[sqlite]'",
    )


def file_system(path: Path, mounts: str) -> Finding:
    """`mounts` as in /proc/self/mountinfo."""
    kind = _kind_of(path.absolute(), mounts)
    if kind and NETWORKS.fullmatch(kind):
        return problem(
            Check.SQLITE_FILE_SYSTEM,
            f"{path} is on a network file system ({kind}): locks do not hold there, and the file will be damaged",
            "move the file to a local disk, or use PostgreSQL",
        )
    return ok(Check.SQLITE_FILE_SYSTEM, f"{path} is on {kind or 'a file system of unknown kind'}")


def _kind_of(path: Path, mounts: str) -> str | None:
    found: tuple[int, str | None] = (0, None)
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        place = left.split()[4].encode().decode("unicode_escape") if len(left.split()) > 4 else ""
        # Of several mounts on one place the last covers the others.
        if place and path.is_relative_to(place) and len(place) >= found[0]:
            found = (len(place), right.split()[0])
    return found[1]


def mount_table() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text("utf-8", "replace")
    except OSError:
        return ""


def journal(connection: "sqlite3.Connection", synchronous: str, *, is_at_rest: bool = False) -> Finding:
    if is_at_rest:
        return ok(
            Check.SQLITE_JOURNAL, "no journal: this user may only read, and no process has the file open to write"
        )
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    said = f"journal mode {mode}, synchronous {synchronous}"
    if mode == "memory":
        return warning(
            Check.SQLITE_JOURNAL, "the jobs are kept in memory, and end with this process", "name a file in the URL"
        )
    if mode != "wal":
        return problem(
            Check.SQLITE_JOURNAL,
            f"{said}: whoever reads keeps others from writing",
            "stop all processes and let one open the file: it switches to wal, where the file system can do it",
        )
    if synchronous != "full":
        return warning(
            Check.SQLITE_JOURNAL,
            f"{said}: a power cut can take back jobs that were accepted",
            "leave '?synchronous=normal' out of the URL",
        )
    return ok(Check.SQLITE_JOURNAL, said)


def lock(database: Path, patience: timedelta) -> Finding:
    """Whether the lock file can be had within so long. One that is not there is made by the next write."""
    path = lock_file(database)
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return _write_lock(database, patience)
    except OSError as error:
        return _read_only(database, f"{path}: {error.strerror}")
    try:
        if _is_free(file, patience):
            return _write_lock(database, patience)
    finally:
        os.close(file)
    return problem(
        Check.SQLITE_LOCK,
        f"{holder(path) or 'another process'} has held {path} for {describe(patience)}: nobody else can write "
        "meanwhile, but jobs can be read",
        f"one that is stopped or hangs must go on or be killed; 'fuser {path}' lists all who have it open",
    )


def _read_only(database: Path, why: str) -> Finding:
    return problem(
        Check.SQLITE_LOCK,
        f"this user may not write to {database}: {why}; jobs can be read, but nothing can be changed or run",
        "give this user write access to the file and its folder, or use another user",
    )


def _write_lock(database: Path, patience: timedelta) -> Finding:
    """Whether one can write: other programs know nothing of our lock file. Nothing is written."""
    # SQLite begins to write where it cannot, and fails at the first change.
    if not os.access(database, os.W_OK):
        return _read_only(database, "permission denied")
    connection = sqlite3.connect(str(database), isolation_level=None, timeout=patience.total_seconds())
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if primary_code(error) in (READ_ONLY, CANNOT_OPEN):
            return _read_only(database, str(error))
        return problem(
            Check.SQLITE_LOCK,
            f"nobody could write to {database} for {describe(patience)}: {error}{_writer(database)}",
            f"find who has it open with 'fuser {database}'; a transaction left open there, in a shell or a backup, "
            "must end",
        )
    finally:
        connection.close()
    return ok(Check.SQLITE_LOCK, f"{database} can be written to")


def _writer(database: Path) -> str:
    who = holder(database.with_name(database.name + "-shm"), byte=WRITING)
    return f"; {who} is writing" if who else ""


def _is_free(file: int, patience: timedelta) -> bool:
    pause = threading.Event()
    for _ in range(LOCK_LOOKS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pause.wait(patience.total_seconds() / LOCK_LOOKS)
        else:
            return True
    return False


def disk(path: Path, limits: Limits) -> Finding:
    free = shutil.disk_usage(path.absolute().parent).free
    said = f"{describe_size(free)} free for {path}"
    remedy = (
        "free some space; delete what is over with 'mulligan jobs purge', or keep it for a shorter time (retention)"
    )
    if free < limits.disk // 16:
        return problem(Check.DISK, said, remedy)
    return warning(Check.DISK, said, remedy) if free < limits.disk else ok(Check.DISK, said)


def log_size(connection: "sqlite3.Connection", limits: Limits) -> Finding:
    # Between the first and the last: what was deleted in between counts too, but nothing has to be read.
    ends = "SELECT (SELECT min(position) FROM mulligan_events), (SELECT max(position) FROM mulligan_events)"
    first, last = connection.execute(ends).fetchone()
    number = 0 if first is None else last - first + 1
    said = f"at most {number:,} events"
    if number <= limits.log:
        return ok(Check.LOG_SIZE, said)
    return warning(Check.LOG_SIZE, said, "keep jobs for a shorter time: MULLIGAN_RETENTION_SUCCEEDED=1d, or a count")
