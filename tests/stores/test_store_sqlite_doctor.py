"""What the doctor finds about a SQLite file."""

import fcntl
import os
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from mulligan.records.finding import Check, Finding, Level, Limits
from mulligan.store.sqlite import SqliteStore, health
from mulligan.store.sqlite.session import sqlite3 as driver
from new_database import every_migration

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /mnt/share rw,relatime shared:2 - nfs4 server:/export rw,vers=4.2
31 30 8:2 / /mnt/share/local rw - xfs /dev/sdb1 rw
32 22 0:27 / /mnt/with\\040space rw - cifs //server/share rw
33 22 0:28 / /mnt/far rw shared:7 - fuse.sshfs me@there:/ rw
"""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((3, 40, 1), Level.WARNING),
        ((3, 44, 5), Level.WARNING),
        ((3, 44, 6), Level.OK),
        ((3, 50, 4), Level.WARNING),
        ((3, 50, 7), Level.OK),
        ((3, 51, 2), Level.WARNING),
        ((3, 51, 3), Level.OK),
        ((3, 53, 0), Level.OK),
    ],
)
def test_versions_with_the_wal_reset_bug_are_reported(version: tuple[int, ...], expected: Level) -> None:
    finding = health.version(version)
    assert finding.level is expected
    assert (finding.remedy == "pip install 'mulligan[sqlite]'") == (expected is Level.WARNING)


def test_the_library_in_use_is_the_one_that_is_judged() -> None:
    with closing(SqliteStore("sqlite:///:memory:")) as store:
        assert driver.sqlite_version in of(store.examine(Limits()), Check.SQLITE_VERSION).found


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("/srv/jobs.db", "ext4", Level.OK),
        ("/mnt/share/jobs.db", "nfs4", Level.PROBLEM),
        ("/mnt/share/local/jobs.db", "xfs", Level.OK),
        ("/mnt/shared/jobs.db", "ext4", Level.OK),
        ("/mnt/with space/jobs.db", "cifs", Level.PROBLEM),
        ("/mnt/far/a/jobs.db", "fuse.sshfs", Level.PROBLEM),
    ],
)
def test_network_file_systems_are_a_problem(path: str, kind: str, expected: Level) -> None:
    finding = health.file_system(Path(path), MOUNTS)
    assert (finding.level, kind in finding.found) == (expected, True)


def test_the_file_system_of_a_real_file_is_known(tmp_path: Path) -> None:
    table = health.mount_table()
    finding = health.file_system(tmp_path / "jobs.db", table)
    assert (finding.level, "unknown" in finding.found) == (Level.OK, table == "")


@pytest.mark.parametrize(
    ("folder", "file", "expected"),
    [
        (0o755, 0o640, Level.OK),
        (0o755, 0o664, Level.WARNING),
        (0o755, 0o606, Level.PROBLEM),
        (0o777, 0o640, Level.PROBLEM),
        (0o1777, 0o640, Level.OK),
        (0o700, 0o666, Level.OK),
    ],
    ids=lambda value: f"{value:o}" if isinstance(value, int) else value,
)
def test_a_file_that_every_user_can_use_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: int, file: int, expected: Level
) -> None:
    path = tmp_path / "open" / "jobs.db"
    path.parent.mkdir()
    path.touch()
    path.chmod(file)
    path.parent.chmod(folder)
    # The folders of the tests are closed to other users.
    monkeypatch.setattr(type(path), "parents", property(lambda self: [self.parent, Path("/")]))
    finding = health.permissions(path)
    assert (finding.code, finding.level) == (Check.SQLITE_PERMISSIONS, expected)
    assert (str(path) in finding.remedy) == (expected is not Level.OK)


def test_new_files_are_closed_to_other_users(tmp_path: Path) -> None:
    path, mask = tmp_path / "jobs.db", os.umask(0)
    try:
        with every_migration(), closing(SqliteStore(f"sqlite:///{path}")) as store:
            store.migrate()
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    finally:
        os.umask(mask)
    assert modes == dict.fromkeys(["jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-lock"], 0o660)


def test_a_journal_that_is_no_wal_is_a_problem(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
        assert health.journal(connection, "full").level is Level.PROBLEM
        connection.execute("PRAGMA journal_mode = WAL")
        assert health.journal(connection, "full").level is Level.OK


def test_jobs_that_a_power_cut_could_lose_are_reported(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/jobs.db?synchronous=normal", "sqlite:///:memory:"):
        with closing(SqliteStore(url)) as store:
            assert of(store.examine(Limits()), Check.SQLITE_JOURNAL).level is Level.WARNING


def test_a_lock_that_another_process_holds_is_a_problem_until_it_is_released(tmp_path: Path) -> None:
    limits = Limits(lock=timedelta(milliseconds=20))
    with closing(SqliteStore(f"sqlite:///{tmp_path}/jobs.db")) as store:
        with (tmp_path / "jobs.db-lock").open("r+b") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            finding = of(store.examine(limits), Check.SQLITE_LOCK)
            assert (finding.level, "jobs.db-lock" in finding.remedy) == (Level.PROBLEM, True)
            assert finding.found.startswith(f"process {os.getpid()} (")
        assert of(store.examine(limits), Check.SQLITE_LOCK).level is Level.OK
        (tmp_path / "jobs.db-lock").unlink()
        assert of(store.examine(limits), Check.SQLITE_LOCK).level is Level.OK, "the next write makes it"


def test_a_transaction_that_another_program_left_open_is_a_problem_until_it_ends(tmp_path: Path) -> None:
    limits = Limits(lock=timedelta(milliseconds=20))
    path = tmp_path / "jobs.db"
    with (
        closing(SqliteStore(f"sqlite:///{path}")) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        finding = of(store.examine(limits), Check.SQLITE_LOCK)
        assert (finding.level, f"fuser {path}" in finding.remedy) == (Level.PROBLEM, True)
        assert f"process {os.getpid()} (" in finding.found
        other.execute("ROLLBACK")
        assert of(store.examine(limits), Check.SQLITE_LOCK).level is Level.OK


def of(findings: list[Finding], code: Check) -> Finding:
    (finding,) = [finding for finding in findings if finding.code is code]
    return finding
