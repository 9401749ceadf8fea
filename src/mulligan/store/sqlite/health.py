"""Doctor checks of a SQLite file: the library, the file system, the journal, the lock, the disk."""

import fcntl
import os
import re
import shutil
import stat
import threading
from datetime import timedelta
from pathlib import Path

from mulligan.records.finding import Check, Finding, Limits, ok, problem, warning
from mulligan.store.sqlite.database import Database
from mulligan.store.sqlite.lock import WRITING, find_holder, lock_file
from mulligan.store.sqlite.session import CANNOT_OPEN, READ_ONLY, primary_code, sqlite3
from mulligan.values.duration import describe
from mulligan.values.size import describe_size

BUGGY = ((3, 7, 0), (3, 51, 3))
# Older release lines that got the fix, and since which version.
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
        found.append(permissions(path))
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
    """`mounts` is the content of /proc/self/mountinfo."""
    kind = _kind_of(path.absolute(), mounts)
    if kind and NETWORKS.fullmatch(kind):
        return problem(
            Check.SQLITE_FILE_SYSTEM,
            f"{path} is on a network file system ({kind}): locks do not work there, and the file will be damaged",
            "move the file to a local disk, or use PostgreSQL",
        )
    return ok(Check.SQLITE_FILE_SYSTEM, f"{path} is on {kind or 'a file system of unknown kind'}")


def _kind_of(path: Path, mounts: str) -> str | None:
    found: tuple[int, str | None] = (0, None)
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        mount_point = left.split()[4].encode().decode("unicode_escape") if len(left.split()) > 4 else ""
        # Of several mounts at one path the last one is visible.
        if mount_point and path.is_relative_to(mount_point) and len(mount_point) >= found[0]:
            found = (len(mount_point), right.split()[0])
    return found[1]


def permissions(path: Path) -> Finding:
    """Whether other users of this machine can use the file: its group is meant to, all others are not."""
    rights = _rights_of_others(path.absolute())
    if rights & stat.S_IWOTH:
        return problem(
            Check.SQLITE_PERMISSIONS,
            f"every user of this machine can change {path}: a user who can write to it needs no key",
            f"chmod o-rwx {path}*, and chmod o-w its directory",
        )
    if rights & stat.S_IROTH:
        return warning(
            Check.SQLITE_PERMISSIONS,
            f"every user of this machine can read {path}, with the arguments and results of all jobs",
            f"chmod o-rwx {path}*",
        )
    return ok(Check.SQLITE_PERMISSIONS, f"{path} is not open to other users of this machine")


def _rights_of_others(path: Path) -> int:
    folders = [folder.stat().st_mode for folder in path.parents]
    if not all(mode & stat.S_IXOTH for mode in folders):
        return 0
    # In a sticky folder, such as /tmp, others cannot replace the file.
    is_replaceable = folders[0] & stat.S_IWOTH and not folders[0] & stat.S_ISVTX
    return path.stat().st_mode | (stat.S_IWOTH if is_replaceable else 0)


def mount_table() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text("utf-8", "replace")
    except OSError:
        return ""


def journal(connection: "sqlite3.Connection", synchronous: str, *, is_at_rest: bool = False) -> Finding:
    if is_at_rest:
        return ok(
            Check.SQLITE_JOURNAL, "no journal: this user may only read, and no process has the file open for writing"
        )
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    text = f"journal mode {mode}, synchronous {synchronous}"
    if mode == "memory":
        return warning(
            Check.SQLITE_JOURNAL,
            "jobs are kept in memory and are lost when this process ends",
            "name a file in the URL",
        )
    if mode != "wal":
        return problem(
            Check.SQLITE_JOURNAL,
            f"{text}: readers block writers",
            "stop all processes and start one: it switches the file to wal, if the file system supports that",
        )
    if synchronous != "full":
        return warning(
            Check.SQLITE_JOURNAL,
            f"{text}: a power failure can lose accepted jobs",
            "remove '?synchronous=normal' from the URL",
        )
    return ok(Check.SQLITE_JOURNAL, text)


def lock(database: Path, timeout: timedelta) -> Finding:
    """Check that the lock file can be locked within this time. If there is none, the next write creates it."""
    path = lock_file(database)
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return _write_lock(database, timeout)
    except OSError as error:
        return _read_only(database, f"{path}: {error.strerror}")
    try:
        if _is_free(file, timeout):
            return _write_lock(database, timeout)
    finally:
        os.close(file)
    return problem(
        Check.SQLITE_LOCK,
        f"{find_holder(path) or 'another process'} has held {path} for {describe(timeout)}: no other process can "
        "write meanwhile, but jobs can be read",
        f"a process that is stopped or hangs must continue or be killed; 'fuser {path}' lists all that have it open",
    )


def _read_only(database: Path, why: str) -> Finding:
    return problem(
        Check.SQLITE_LOCK,
        f"this user may not write to {database}: {why}; jobs can be read, but nothing can be changed or run",
        "give this user write access to the file and its folder, or use another user",
    )


def _write_lock(database: Path, timeout: timedelta) -> Finding:
    """Check that the database can be locked for writing: other programs do not use the lock file. Writes nothing."""
    # SQLite begins a transaction without write permission, and fails at the first change.
    if not os.access(database, os.W_OK):
        return _read_only(database, "permission denied")
    connection = sqlite3.connect(str(database), isolation_level=None, timeout=timeout.total_seconds())
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if primary_code(error) in (READ_ONLY, CANNOT_OPEN):
            return _read_only(database, str(error))
        return problem(
            Check.SQLITE_LOCK,
            f"no process could write to {database} for {describe(timeout)}: {error}{_writer(database)}",
            f"find the process with 'fuser {database}'; a transaction left open, in a shell or by a backup, must end",
        )
    finally:
        connection.close()
    return ok(Check.SQLITE_LOCK, f"{database} can be written to")


def _writer(database: Path) -> str:
    name = find_holder(database.with_name(database.name + "-shm"), byte=WRITING)
    return f"; {name} is writing" if name else ""


def _is_free(file: int, timeout: timedelta) -> bool:
    pause = threading.Event()
    for _ in range(LOCK_LOOKS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pause.wait(timeout.total_seconds() / LOCK_LOOKS)
        else:
            return True
    return False


def disk(path: Path, limits: Limits) -> Finding:
    free = shutil.disk_usage(path.absolute().parent).free
    text = f"{describe_size(free)} free for {path}"
    remedy = "free some space; delete ended jobs with 'mulligan jobs purge', or keep it for a shorter time (retention)"
    if free < limits.disk // 16:
        return problem(Check.DISK, text, remedy)
    return warning(Check.DISK, text, remedy) if free < limits.disk else ok(Check.DISK, text)


def log_size(connection: "sqlite3.Connection", limits: Limits) -> Finding:
    # From the first to the last position: deleted events count too, but no table has to be read.
    ends = "SELECT (SELECT min(position) FROM mulligan_events), (SELECT max(position) FROM mulligan_events)"
    first, last = connection.execute(ends).fetchone()
    number = 0 if first is None else last - first + 1
    text = f"at most {number:,} events"
    if number <= limits.log:
        return ok(Check.LOG_SIZE, text)
    return warning(Check.LOG_SIZE, text, "keep jobs for a shorter time: MULLIGAN_RETENTION_SUCCEEDED=1d, or a count")
