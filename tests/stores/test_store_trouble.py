"""SQLite in trouble: a full disk, a lock held by another program, a file that cannot be written, damaged rows."""

import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest

from mulligan.errors import IllegalMove, StoreDamaged, StoreFull, StoreUnavailable
from mulligan.failure.decision import Fail, Retry, Succeed
from mulligan.failure.verdict import deadline_passed
from mulligan.lifecycle import Move, State
from mulligan.records.job import Job, JobFilter, Lease, NewJob
from mulligan.store.messages import Claim, Outcome, Request, Settled
from mulligan.store.sqlite import SqliteStore
from mulligan.testing.virtual import VirtualClock

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


class Bench:
    """A store in a file, and hands that reach past it."""

    def __init__(self, path: Path, *, timeout: timedelta = MINUTE) -> None:
        self.path = path
        self.clock = VirtualClock()
        self.store = SqliteStore(f"sqlite:///{path}", now=self.clock.now, threaded=False, timeout=timeout)
        self._numbers = iter(range(1, 1_000_000))

    def enqueue(self, job_id: str, **options: Any) -> Job[Any]:
        (job,) = self.store.enqueue([NewJob(**{"id": job_id, "kind": "send", "arguments": "{}", **options})])
        return job

    def claim(self, *, limit: int = 10) -> list[Lease]:
        number = next(self._numbers)
        claim = Claim(incarnation="w", number=number, kinds=["send"], limit=limit, lease=MINUTE)
        return self.store.claim(claim).leases

    def move(self, move: Move, job_id: str) -> Job[Any]:
        return self.store.move(Request(id=str(next(self._numbers)), move=move, job=job_id))

    def damage(self, job_id: str, **values: Any) -> None:
        """What a person might do with the sqlite3 shell."""
        settings = ", ".join(f"{name} = :{name}" for name in values)
        with closing(sqlite3.connect(self.path, isolation_level=None)) as shell:
            shell.execute("PRAGMA ignore_check_constraints = 1")
            changed = shell.execute(f"UPDATE mulligan_jobs SET {settings} WHERE id = :_id", {**values, "_id": job_id})
            assert changed.rowcount == 1


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "jobs.db")
    yield bench
    bench.store.close()


def ids(leases: list[Lease]) -> list[str]:
    return [lease.fence.id for lease in leases]


# A full disk


@contextmanager
def full_disk(bench: Bench) -> Iterator[None]:
    connection = bench.store._database._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    yield
    connection.execute("PRAGMA max_page_count = 1000000").fetchone()


def test_on_a_full_disk_what_was_acknowledged_is_there_and_work_goes_on_later(bench: Bench) -> None:
    acknowledged = []
    with full_disk(bench):
        with pytest.raises(StoreFull, match=r"no space left for .*jobs.db: free some; nothing was lost"):
            for number in range(10_000):
                acknowledged.append(bench.enqueue(f"job-{number:05}").id)
        assert [job.id for job in bench.store.jobs(JobFilter(), limit=10_000).jobs] == acknowledged[::-1]
    again = bench.enqueue(f"job-{len(acknowledged):05}")
    assert (again.is_duplicate, bench.store.counts()) == (False, {"send": {"queued": len(acknowledged) + 1}})


def test_on_a_full_disk_no_attempt_is_spent_and_no_outcome_is_lost(bench: Bench) -> None:
    bench.enqueue("running")
    (lease,) = bench.claim()
    bench.enqueue("queued")
    outcome = Outcome(lease, Succeed('"' + "x" * 100_000 + '"'))
    with full_disk(bench):
        with pytest.raises(StoreFull):
            bench.store.settle([outcome])
        before = bench.store.job("queued")
        with pytest.raises(StoreFull):
            bench.store.enqueue([NewJob(id="big", kind="send", arguments='"' + "x" * 100_000 + '"')])
        assert bench.store.job("running").state is State.RUNNING
        assert bench.store.job("queued") == before
    assert bench.store.settle([outcome]) == [Settled.ACCEPTED]
    assert bench.store.settle([outcome]) == [Settled.REPEATED]
    assert ids(bench.claim()) == ["queued"]


def test_a_full_disk_fails_the_operations_that_need_space_and_no_others_of_their_commit(bench: Bench) -> None:
    bench.enqueue("first")
    with full_disk(bench), pytest.raises(StoreFull):
        bench.store.enqueue([NewJob(id=f"n{number}", kind="send", arguments="{}") for number in range(1_000)])
    assert [job.id for job in bench.store.jobs(JobFilter()).jobs] == ["first"]
    assert len(bench.store.events()) == 1


# Another program's lock


def test_a_lock_held_for_too_long_by_another_program_is_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "jobs.db", timeout=timedelta(milliseconds=20))
    bench.enqueue("before")
    with closing(sqlite3.connect(bench.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match=r"jobs.db is locked by another program for too long .*try again"):
            bench.enqueue("meanwhile")
        # In a log-structured database reading goes on.
        assert bench.store.job("before").state is State.QUEUED
        other.execute("ROLLBACK")
    assert not bench.enqueue("meanwhile").is_duplicate
    bench.store.close()


def test_another_program_that_writes_to_the_same_file_too_is_no_trouble(bench: Bench) -> None:
    """Our tables live in the user's database."""

    def write_now_and_then() -> None:
        with closing(sqlite3.connect(bench.path, isolation_level=None, timeout=30)) as other:
            other.execute("CREATE TABLE theirs (a)")
            while not is_done.wait(0.001):
                other.execute("INSERT INTO theirs VALUES (1)")

    is_done = Event()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(write_now_and_then)
        try:
            for number in range(100):
                bench.enqueue(f"job-{number}")
                (lease,) = bench.claim()
                assert bench.store.settle([Outcome(lease, Succeed("1"))]) == [Settled.ACCEPTED]
        finally:
            is_done.set()
        other.result()
    assert bench.store.counts() == {"send": {"succeeded": 100}}


def test_a_file_that_was_deleted_under_us_is_named_and_nothing_is_written_into_the_void(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "jobs.db")
    bench.enqueue("before")
    bench.path.unlink()
    with pytest.raises(StoreDamaged, match="was deleted or replaced while it was open"):
        bench.enqueue("after")
    bench.store.close()


# A file that cannot be written


TRY_TO_USE = """
    import os, sys
    from urllib.parse import quote
    from mulligan.errors import StoreError
    from mulligan.records.job import JobFilter, NewJob
    from mulligan.store.sqlite import SqliteStore

    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        store = SqliteStore("sqlite:///" + quote(sys.argv[1]))
        print(*(job.id for job in store.jobs(JobFilter()).jobs), *(event.type for event in store.events(job="first")))
        store.enqueue([NewJob(id="mine", kind="send", arguments="{}")])
    except StoreError as error:
        print(type(error).__name__, error)
    else:
        print("written")
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach: pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="mulligan-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o700)


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "answer"),
    [
        (0o666, 0o777, "written"),
        (0o444, 0o777, "StoreReadOnly"),
        (0o444, 0o555, "StoreReadOnly"),
        (0o666, 0o555, "StoreReadOnly"),
        (0o000, 0o777, "StoreUnavailable"),
    ],
    ids=["all is well", "the file", "file and folder", "the folder", "not even read"],
)
def test_a_file_that_may_not_be_written_is_named_in_one_sentence(
    open_folder: Path, file_mode: int, folder_mode: int, answer: str
) -> None:
    path = open_folder / "jobs?#%.db"
    store = SqliteStore(f"sqlite:///{quote(str(path))}", threaded=False)
    store.enqueue([NewJob(id="first", kind="send", arguments="{}")])
    store.close()
    for file in open_folder.iterdir():
        file.chmod(file_mode)
    open_folder.chmod(folder_mode)
    *read, said = in_a_child(TRY_TO_USE, path).splitlines()
    assert said.startswith(answer), said
    assert read == (["first job.enqueued"] if file_mode else []), "what cannot be written can be read"
    if answer == "StoreReadOnly":
        assert f"{path} cannot be written: " in said
        assert "give this user write access" in said


EXAMINE = """
    import encodings.unicode_escape  # that user may not be able to reach it later
    import os, sys
    from mulligan.records.finding import Level, Limits
    from mulligan.store.sqlite import SqliteStore

    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    for finding in SqliteStore("sqlite:///" + sys.argv[1]).examine(Limits()):
        if finding.level is Level.PROBLEM:
            print(finding.code, finding.found, finding.remedy)
"""


@pytest.mark.parametrize("has_lock", [True, False])
@pytest.mark.parametrize(
    ("file_mode", "folder_mode"),
    [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)],
    ids=["the file", "file and folder", "the folder"],
)
def test_the_doctor_of_a_user_with_read_permission_only_reports_just_that(
    open_folder: Path, file_mode: int, folder_mode: int, *, has_lock: bool
) -> None:
    path = open_folder / "jobs.db"
    SqliteStore(f"sqlite:///{path}", threaded=False).close()
    path.chmod(file_mode)
    lock = path.with_name("jobs.db-lock")
    lock.chmod(0o666)
    if not has_lock:
        lock.unlink()
    open_folder.chmod(folder_mode)
    problem, *others = in_a_child(EXAMINE, path).splitlines()
    # The test opens the file, or its folder, to that user by opening it to all.
    assert all(each.startswith("sqlite.permissions ") for each in others)
    assert problem.startswith(f"sqlite.lock this user may not write to {path}: ")
    assert "jobs can be read" in problem
    assert "give this user write access to the file and its folder" in problem


def in_a_child(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.strip()


# Rows damaged manually

# Columns that cannot be read any more: the row is named, the others are not touched.
UNREADABLE: list[dict[str, Any]] = [
    {"tags": "garbage"},
    {"tags": '{"a":1}'},
    {"tags": "[1]"},
    {"tags": "[" * 5_000},
    {"code_failures": "garbage"},
    {"code_failures": '{"a":"x"}'},
    {"state": "nonsense"},
    {"state": ""},
]
# Rows that contradict themselves: no statement can move them on.
CONTRADICTING: list[dict[str, Any]] = [
    {"error_code": "X"},
    {"error_message": "X"},
    {"error_group": "X"},
    {"result": "1"},
    {"result": "garbage"},
    {"finished_at": 1},
    {"trigger": "x"},
    {"progress": 7.5},
    {"failures": 2**63 - 1},
]
# Odd, but usable.
ODD: list[dict[str, Any]] = [
    {"arguments": "garbage"},
    {"arguments": ""},
    {"due_at": -(2**63)},
    {"submitted_at": -(2**63)},
    {"rank": -(2**63)},
    {"priority": 2**63 - 1},
    {"deadline": 2**63 - 1},
    {"updated_at": 2**63 - 1},
    {"previous_delay": 2**63 - 1},
    {"max_attempts": 0},
    {"attempt": -5},
]


def named(values: dict[str, Any]) -> str:
    return ",".join(f"{name}={str(value)[:12]}" for name, value in values.items())


@pytest.mark.parametrize("values", UNREADABLE, ids=named)
def test_a_row_that_cannot_be_read_is_named(bench: Bench, values: dict[str, Any]) -> None:
    bench.enqueue("bad", dedupe_key="k")
    bench.damage("bad", **values)
    for look in (
        lambda: bench.store.job("bad"),
        lambda: bench.move(Move.MANUAL_CANCEL, "bad"),
        lambda: bench.enqueue("bad"),
    ):
        with pytest.raises(StoreDamaged, match="the row of job 'bad' is damaged: "):
            look()


@pytest.mark.parametrize("values", UNREADABLE, ids=named)
def test_a_list_shows_the_others_and_names_the_damaged(bench: Bench, values: dict[str, Any]) -> None:
    for name in ("a", "bad", "c"):
        bench.enqueue(name, tags=("eu",))
    bench.damage("bad", **values)
    page = bench.store.jobs(JobFilter())
    assert [job.id for job in page.jobs] == ["c", "a"]
    (damaged,) = page.damaged
    assert damaged.startswith("the row of job 'bad' is damaged: ")
    assert [job.id for job in bench.store.jobs(JobFilter(tag="eu")).jobs] == ["c", "a"]
    assert sum(bench.store.counts()["send"].values()) == 3


def test_pages_go_on_past_damaged_rows(bench: Bench) -> None:
    for name in "abcdef":
        bench.enqueue(name)
    for name in "cd":
        bench.damage(name, tags="garbage")
    seen, damaged, cursor = "", 0, None
    for _ in range(3):
        page = bench.store.jobs(JobFilter(), limit=2, cursor=cursor)
        seen += "".join(job.id for job in page.jobs)
        damaged += len(page.damaged)
        cursor = page.cursor
    assert (seen, damaged, cursor) == ("feba", 2, None)


@pytest.mark.parametrize("delay", [timedelta(0), MINUTE], ids=["queued", "waiting"])
@pytest.mark.parametrize("values", [*UNREADABLE, *CONTRADICTING, *ODD], ids=named)
def test_a_damaged_row_stops_no_other_job(bench: Bench, values: dict[str, Any], delay: timedelta) -> None:
    bench.enqueue("bad", delay=delay, deadline=HOUR, dedupe_key="k")
    bench.damage("bad", **values)
    for name in ("c1", "c2", "c3"):
        bench.enqueue(name, delay=delay)
    bench.clock.advance(MINUTE)
    leases = [lease for _ in range(5) for lease in bench.claim(limit=1)]
    assert [name for name in ids(leases) if name != "bad"] == ["c1", "c2", "c3"]
    answers = bench.store.settle([Outcome(lease, Retry(HOUR, deadline_passed(), {})) for lease in leases])
    assert answers.count(Settled.ACCEPTED) >= 3
    assert {bench.store.job(name).state for name in ("c1", "c2", "c3")} == {State.WAITING}
    # Nor does it keep a worker awake for nothing.
    assert bench.store.claim(quiet()).next_due == HOUR


def test_an_attempt_number_that_cannot_grow_fails_its_job_and_stops_no_other(bench: Bench) -> None:
    bench.enqueue("bad")
    bench.damage("bad", attempt=2**63 - 1)
    bench.enqueue("good")
    assert ids(bench.claim()) == ["good"]
    assert bench.store.job("bad").error_code == "UNSTORABLE"


def quiet() -> Claim:
    return Claim(incarnation="w", number=999_999, kinds=["nothing"], limit=1, lease=MINUTE)


@pytest.mark.parametrize("delay", [timedelta(0), MINUTE], ids=["queued", "waiting"])
@pytest.mark.parametrize("values", CONTRADICTING[:6], ids=named)
def test_a_row_that_nothing_can_move_fails_and_can_be_revived(
    bench: Bench, values: dict[str, Any], delay: timedelta
) -> None:
    bench.enqueue("bad", delay=delay, arguments='{"a":1}', tags=("eu",))
    bench.damage("bad", **values)
    bench.clock.advance(MINUTE)
    bench.claim()
    bench.claim()
    job = bench.store.job("bad")
    assert (job.state, job.error_code, job.attempt) == (State.FAILED, "UNSTORABLE", 0)
    assert job.error_message == "The record of this job was damaged in the database."
    event = bench.store.events(job="bad")[-1]
    assert (event.type, event.code, event.data["message"]) == ("job.failed", "UNSTORABLE", job.error_message)
    bench.move(Move.MANUAL_RETRY, "bad")
    (lease,) = bench.claim()
    assert (lease.fence.id, lease.arguments, lease.job.tags) == ("bad", '{"a":1}', ("eu",))
    assert bench.store.settle([Outcome(lease, Succeed("1"))]) == [Settled.ACCEPTED]


def test_many_damaged_waiting_rows_delay_no_job_behind_them(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mulligan.store.promote.PROMOTE_PASS", 3)
    for number in range(7):
        bench.enqueue(f"bad{number}", delay=timedelta(seconds=number))
        bench.damage(f"bad{number}", error_code="X")
    for number in range(7):
        bench.enqueue(f"good{number}", delay=timedelta(seconds=10 + number))
    bench.clock.advance(MINUTE)
    taken = [name for _ in range(9) for name in ids(bench.claim())]
    assert taken == [f"good{number}" for number in range(7)]
    assert bench.store.counts()["send"] == {"failed": 7, "running": 7}


@pytest.mark.parametrize("values", CONTRADICTING, ids=named)
def test_damaged_rows_do_not_keep_others_from_expiring(bench: Bench, values: dict[str, Any]) -> None:
    for name in ("bad", "good", "fine"):
        bench.enqueue(name, deadline=MINUTE)
        bench.clock.advance(timedelta(seconds=1))
    bench.damage("bad", **values)
    bench.clock.advance(HOUR)
    for _ in range(4):
        bench.store.expire(deadline_passed(), limit=1)
    assert [bench.store.job(name).error_code for name in ("good", "fine")] == ["DEADLINE", "DEADLINE"]
    assert bench.store.job("bad").state is State.FAILED


@pytest.mark.parametrize("decision", [Succeed("1"), Fail(deadline_passed(), {}), Retry(HOUR, deadline_passed(), {})])
@pytest.mark.parametrize("values", [*UNREADABLE[:6], *CONTRADICTING, *ODD], ids=named)
def test_a_row_damaged_while_it_ran_loses_no_other_outcome(
    bench: Bench, values: dict[str, Any], decision: Succeed | Fail | Retry
) -> None:
    for name in ("before", "bad", "after"):
        bench.enqueue(name)
    leases = bench.claim()
    bench.damage("bad", **values)
    answers = bench.store.settle([Outcome(lease, decision) for lease in leases])
    assert (answers[0], answers[2]) == (Settled.ACCEPTED, Settled.ACCEPTED)
    again = bench.store.settle([Outcome(lease, decision) for lease in leases])
    assert (again[0], again[2]) == (Settled.REPEATED, Settled.REPEATED)
    if answers[1] is Settled.UNSTORABLE:
        job = bench.store.job("bad")
        assert (job.state, job.error_code) == (State.FAILED, "UNSTORABLE")
        assert again[1] is Settled.REPEATED


@pytest.mark.parametrize("values", [{"leased_by": "w"}, {"lease_until": 5}, {"cancel_requested": 1}], ids=named)
def test_a_waiting_row_with_a_lease_is_no_lease(bench: Bench, values: dict[str, Any]) -> None:
    bench.enqueue("bad", delay=MINUTE)
    bench.enqueue("good", delay=MINUTE)
    bench.damage("bad", **values)
    assert bench.store.overdue(besides="no worker", limit=10) == []
    bench.clock.advance(MINUTE)
    assert ids(bench.claim()) == ["good"]
    assert bench.store.job("bad").error_code == "UNSTORABLE"


def test_a_move_on_a_row_that_contradicts_itself_names_it(bench: Bench) -> None:
    bench.enqueue("bad")
    bench.damage("bad", error_code="X")
    with pytest.raises(StoreDamaged, match="the row of job 'bad' is damaged: CHECK constraint failed"):
        bench.move(Move.MANUAL_CANCEL, "bad")
    with pytest.raises(IllegalMove):
        bench.move(Move.MANUAL_RETRY, "bad")


def test_a_damaged_event_does_not_stop_the_reader_of_the_log(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.enqueue(name)
    with closing(sqlite3.connect(bench.path, isolation_level=None)) as shell:
        shell.execute("PRAGMA ignore_check_constraints = 1")
        shell.execute("UPDATE mulligan_events SET data = 'garbage' WHERE job = 'b'")
    assert [(event.job, event.data) for event in bench.store.events()] == [
        ("a", {}),
        ("b", {"damaged": "garbage"}),
        ("c", {}),
    ]


def test_the_lease_of_a_damaged_row_still_shows_what_was_asked(bench: Bench) -> None:
    bench.enqueue("bad", arguments='{"a":1}')
    bench.damage("bad", tags="garbage")
    (lease,) = bench.claim()
    assert (lease.arguments, lease.kind) == ('{"a":1}', "send")
    with pytest.raises(StoreDamaged, match="the row of job 'bad' is damaged"):
        _ = lease.job
