"""The SQLite store: the whole suite on a file, every rule in memory, then what only SQLite can get wrong."""

import fcntl
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

from conformance.bench import IS_SOAK, worker
from conformance.fence import FenceRules
from conformance.retries import GeneralSettle, RetryRules
from conformance.settle import SettleRules
from conformance.suite import StoreSuite
from mulligan.errors import BadUrl, IllegalMove, SchemaMismatch, StoreClosed, StoreDamaged, StoreError, StoreUnavailable
from mulligan.failure.decision import Fail, Succeed
from mulligan.failure.verdict import deadline_passed
from mulligan.lifecycle import Move
from mulligan.records.job import JobFilter, Lease, NewJob
from mulligan.store import open_store
from mulligan.store.messages import Beat, Claim, Outcome, Request
from mulligan.store.sqlite import SqliteStore, database, schema
from mulligan.store.sqlite.writer import Operation
from mulligan.testing.virtual import VirtualClock

HOUR = timedelta(hours=1)


class TestFile(StoreSuite):
    def open_store(self, now: Callable[[], datetime]) -> SqliteStore:
        return SqliteStore(f"sqlite:///{self.folder}/jobs.db", now=now, services=self.services)

    open_twin = open_store


class TestMemory(StoreSuite):
    every_case = IS_SOAK

    def open_store(self, now: Callable[[], datetime]) -> SqliteStore:
        return SqliteStore("sqlite:///:memory:", now=now, threaded=False, services=self.services)


class TestGeneralSettle(GeneralSettle, FenceRules, SettleRules, RetryRules):
    def open_store(self, now: Callable[[], datetime]) -> SqliteStore:
        return SqliteStore("sqlite:///:memory:", now=now, threaded=False, services=self.services)


def test_no_part_of_the_suite_hides_a_test_of_another() -> None:
    names = Counter(name for part in StoreSuite.__mro__ for name, value in vars(part).items() if isfunction(value))
    assert [name for name, number in names.items() if number > 1 and not name.startswith("__")] == []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(f"sqlite:///{path}", threaded=False)
    yield store
    store.close()


def new(number: int, **options: Any) -> NewJob:
    return NewJob(**{"id": f"job-{number:06}", "kind": "send", "arguments": "{}", **options})


# URLs


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "only SQLite and PostgreSQL are supported"),
        ("jobs.db", "only SQLite and PostgreSQL are supported"),
        (None, "only SQLite and PostgreSQL are supported"),
        (b"sqlite:///jobs.db", "only SQLite and PostgreSQL are supported"),
        ("mysql://u:secret@h/db", "only SQLite and PostgreSQL are supported"),
        ("SQLITE:///jobs.db", "only SQLite and PostgreSQL are supported"),
        ("sqlite:", "does not begin with 'sqlite:///'"),
        ("sqlite:jobs.db", "does not begin with 'sqlite:///'"),
        ("sqlite:/jobs.db", "does not begin with 'sqlite:///'"),
        ("sqlite://jobs.db", "it needs three slashes before the path"),
        ("sqlite://", "it names no file; 'sqlite:///:memory:' keeps jobs in memory"),
        ("sqlite:///", "it names no file; 'sqlite:///:memory:' keeps jobs in memory"),
        ("sqlite://?synchronous=normal", "it names no file; 'sqlite:///:memory:' keeps jobs in memory"),
        ("sqlite:///jobs.db?mode=ro", "the only option is 'synchronous'"),
        ("sqlite:///jobs.db?synchronous=off", "the only option is 'synchronous'"),
        ("sqlite:///jobs.db?synchronous", "the only option is 'synchronous'"),
        ("sqlite:///.", "'.' is a folder"),
        ("sqlite:///a%00b", "cannot be the name of a file"),
        ("sqlite:///\ud800", "cannot be the name of a file"),
        ("sqlite:///" + "x" * 300, "cannot be the name of a file"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_bad_url_says_what_is_wrong_with_it(url: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(BadUrl, match="is not a usable database URL") as refusal:
        open_store(url)
    assert problem in str(refusal.value)
    assert "secret" not in str(refusal.value)
    assert "use 'sqlite:///jobs.db'" in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["jobs.db", "a b ü.db", "with%20space.db", "x.db?synchronous=normal", "x.db?synchronous=FULL"]
)
def test_a_good_url_opens_a_file(name: str, tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/{name}").close()
    assert any(file.name.endswith(".db") for file in tmp_path.iterdir())


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"nowhere/jobs\.db cannot be opened: does its folder exist"):
        open_store(f"sqlite:///{tmp_path}/nowhere/jobs.db")


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    text = "dear diary, today I wrote a file that is long enough to be taken for a database. " * 20
    path.write_text(text)
    with pytest.raises(StoreDamaged, match=r"jobs\.db is not a healthy SQLite database: file is not a database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_a_foreign_database_keeps_its_tables(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (a)")
        other.execute("INSERT INTO theirs VALUES (1)")
    other.close()
    store = SqliteStore(f"sqlite:///{path}", threaded=False)
    store.enqueue([new(1)])
    store.close()
    assert rows(path, "SELECT a FROM theirs") == [(1,)]


def test_a_database_whose_end_is_missing_is_reported(path: Path) -> None:
    store = SqliteStore(f"sqlite:///{path}", threaded=False)
    store.enqueue([new(number) for number in range(500)])
    store.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with (
        pytest.raises(StoreDamaged, match=r"is not a healthy SQLite database.*restore it from a backup"),
        closing(SqliteStore(f"sqlite:///{path}", threaded=False)) as store,
    ):
        store.jobs(JobFilter(), limit=1_000)


# Versions


def test_a_database_of_a_newer_version_is_refused_and_not_changed(path: Path) -> None:
    before = made_by_a_newer_version(path, oldest_code=99)
    with pytest.raises(SchemaMismatch, match=r"made by a newer mulligan \(schema 99\).*upgrade mulligan") as refusal:
        open_store(f"sqlite:///{path}")
    assert "nothing was changed" in str(refusal.value)
    assert dump(path) == before


def test_a_newer_database_that_this_version_can_work_with_is_used(path: Path) -> None:
    made_by_a_newer_version(path, oldest_code=1)
    store = open_store(f"sqlite:///{path}")
    (job,) = store.enqueue([new(2)])
    assert store.job(job.id) == job
    store.close()
    assert rows(path, "SELECT max(version) FROM mulligan_schema") == [(99,)]


def test_a_migration_that_fails_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (schema.VERSION + 1, "999_broken", "CREATE TABLE mulligan_more (a);\nCREATE NONSENSE;\n")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, broken])
        patch.setattr(schema, "VERSION", broken[0])
        with pytest.raises(StoreError, match="syntax error"):
            open_store(f"sqlite:///{path}")
    assert rows(path, "SELECT name FROM sqlite_master") == []
    open_store(f"sqlite:///{path}").close()


def test_opening_again_changes_nothing(path: Path) -> None:
    open_store(f"sqlite:///{path}").close()
    before = dump(path)
    open_store(f"sqlite:///{path}").close()
    assert dump(path) == before


def made_by_a_newer_version(path: Path, *, oldest_code: int) -> list[str]:
    store = open_store(f"sqlite:///{path}")
    store.enqueue([new(1)])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO mulligan_schema VALUES (99, '099_future', ?)", (oldest_code,))
    other.close()
    return dump(path)


# Group commit


def test_operations_that_arrive_together_are_committed_together(store: SqliteStore) -> None:
    commits: list[str] = []
    database_of(store)._connection.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    answers = together(store, [lambda number=number: store.enqueue([new(number)]) for number in range(50)])
    assert [job.id for ((job,), error) in answers if error is None] == [new(number).id for number in range(50)]
    assert commits == ["COMMIT"]


def test_an_operation_that_fails_takes_no_other_of_its_commit_with_it(store: SqliteStore, path: Path) -> None:
    store.enqueue([new(0)])
    answers = together(
        store,
        [
            lambda: store.enqueue([new(1)]),
            lambda: store.enqueue([new(2), new(3, owner="\ud800")]),
            lambda: store.move(Request(id="r1", move=Move.MANUAL_RETRY, job="job-000000")),
            lambda: store.move(Request(id="r2", move=Move.MANUAL_CANCEL, job="job-000000")),
            lambda: store.enqueue([new(4, arguments="no json")]),
            lambda: store.enqueue([new(5)]),
        ],
    )
    errors = [error and type(error) for _, error in answers]
    assert errors == [None, UnicodeEncodeError, IllegalMove, None, StoreError, None]
    assert rows(path, "SELECT id, state FROM mulligan_jobs ORDER BY id") == [
        ("job-000000", "cancelled"),
        ("job-000001", "queued"),
        ("job-000005", "queued"),
    ]
    assert rows(path, "SELECT count(*) FROM mulligan_events") == [(4,)]


def test_what_fails_after_it_wrote_leaves_nothing_behind(store: SqliteStore, path: Path) -> None:
    def write_then_fail(db: Any) -> None:
        db.execute("DELETE FROM mulligan_jobs")
        raise RuntimeError("in the middle")

    store.enqueue([new(1)])
    with pytest.raises(RuntimeError, match="in the middle"):
        database_of(store).write(write_then_fail)
    assert rows(path, "SELECT count(*) FROM mulligan_jobs") == [(1,)]
    store.enqueue([new(2)])


def together(store: SqliteStore, calls: list[Callable[[], Any]]) -> list[tuple[Any, BaseException | None]]:
    """Make these calls in one commit; what each returned and raised."""
    operations: list[Operation[Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_of(store), "write", lambda work: operations.append(Operation(work)))
        for call in calls:
            call()
    database_of(store)._writer.run_group(operations)
    return [
        (None if error else operation.future.result(), error)
        for operation in operations
        for error in [operation.future.exception(timeout=0)]
    ]


# Closing


def test_a_closed_store_says_so(path: Path) -> None:
    for threaded in (True, False):
        store = SqliteStore(f"sqlite:///{path}", threaded=threaded)
        store.close()
        for call in (lambda: store.enqueue([new(1)]), lambda: store.job("x"), store.now):  # noqa: B023
            with pytest.raises(StoreClosed, match="the store is closed"):
                call()


def test_an_operation_that_comes_while_the_store_closes_is_answered(path: Path) -> None:
    store = SqliteStore(f"sqlite:///{path}")
    data = database_of(store)
    queue = data._queue
    assert queue is not None

    class Late:
        """The store is closed just before the operation gets into the queue."""

        def put(self, operation: Any) -> None:
            if operation is not None and not data._is_closed:
                store.close()
            queue.put(operation)

        def __getattr__(self, name: str) -> Any:
            return getattr(queue, name)

    data._queue = Late()  # type: ignore[assignment]
    data._is_turn_wanted = True
    with pytest.raises(StoreClosed, match="the store is closed"):
        store.enqueue([new(1)])


def test_a_lock_that_cannot_be_had_fails_the_operation_but_not_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(f"sqlite:///{path}")
    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", lambda *_: (_ for _ in ()).throw(OSError(37, "No locks available")))
        with pytest.raises(StoreUnavailable, match=r"cannot be used now: .*No locks available"):
            store.enqueue([new(1)])
    assert len(store.enqueue([new(1)])) == 1
    store.close()


def test_the_lock_is_held_around_every_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And around the switch to WAL: of two processes that make it at once, one is told 'locked' whatever its
    timeout."""
    lock = path.with_name("jobs.db-lock")
    seen: dict[str, bool] = {}

    def is_held() -> bool:
        with lock.open() as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def traced(*arguments: Any, **options: Any) -> Any:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(
            lambda text: seen.update({text: seen.get(text, True) and is_held()}) if text in guarded else None
        )
        return connection

    guarded = {"PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE", "COMMIT"}
    connect = database.sqlite3.connect
    monkeypatch.setattr(database.sqlite3, "connect", traced)
    store = SqliteStore(f"sqlite:///{path}", threaded=False)
    seen.pop("COMMIT")  # a reader's own ends its snapshot and writes nothing
    store.enqueue([new(1)])
    store.close()
    assert seen == dict.fromkeys(guarded, True)
    assert not is_held()


@pytest.mark.parametrize("way", ["one by one", "by a lone caller", "in a group"])
def test_the_lock_is_held_around_every_checkpoint(way: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the WAL-reset bug of SQLite, which needs a checkpoint that coincides with a commit.

    Only a checkpoint writes to the file itself, so the file must not change while the lock is free.
    """
    monkeypatch.setattr(database, "CHECKPOINT_PAGES", 1)
    SqliteStore(f"sqlite:///{path}", threaded=False).close()
    while_held: list[bool] = []
    while_free: list[bool] = []
    # Kept open: closing it would release the locks of this process, those of SQLite among them.
    with path.open("rb") as file:
        last = file.read()

        def has_changed() -> bool:
            nonlocal last
            before, last = last, os.pread(file.fileno(), path.stat().st_size, 0)
            return before != last

        def watched_flock(descriptor: int, operation: int) -> None:
            if operation == fcntl.LOCK_UN:
                while_held.append(has_changed())
                flock(descriptor, operation)
            else:
                flock(descriptor, operation)
                while_free.append(has_changed())

        flock = fcntl.flock
        monkeypatch.setattr("fcntl.flock", watched_flock)
        store = SqliteStore(f"sqlite:///{path}", threaded=way != "one by one")
        for number in range(5):
            # A caller that finds another write leaves its own to the thread.
            database_of(store)._is_turn_wanted = way == "in a group"
            store.enqueue([new(number)])
            assert store.job(new(number).id).kind == "send"
        store.close()
        while_free.append(has_changed())
    assert while_held == [*[True] * 5, False], "each write has its checkpoint; closing finds nothing left"
    assert while_free == [False] * 7


# Time and space


def test_without_a_given_time_the_store_goes_by_the_machines(store: SqliteStore) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    (job,) = store.enqueue([new(1, delay=HOUR)])
    assert before <= job.enqueued_at <= store.now() <= datetime.now(UTC) + timedelta(milliseconds=1)
    assert job.due_at == job.enqueued_at + HOUR


def test_the_log_beside_the_file_is_written_back_and_begun_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "CHECKPOINT_PAGES", 25)
    store = SqliteStore(f"sqlite:///{path}")
    log = path.with_name("jobs.db-wal")
    store.enqueue([large(0)])
    of_a_commit = log.stat().st_size
    sizes = []
    for number in range(1, 100):
        store.enqueue([large(number)])
        sizes.append(log.stat().st_size)
    # A commit that reaches so many pages writes them back, and the next one begins at the log's start.
    assert 100_000 < max(sizes) < 100_000 + 2 * of_a_commit
    assert store.counts() == {"send": {"queued": 100}}
    store.close()


def test_a_log_that_a_long_read_made_large_is_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "CHECKPOINT_PAGES", 25)
    monkeypatch.setattr(database, "TRUNCATE_BYTES", 100_000)
    store = SqliteStore(f"sqlite:///{path}")
    log = path.with_name("jobs.db-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        # SQLite keeps in the log what a reader may still need.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM mulligan_jobs").fetchall()
        for number in range(100):
            store.enqueue([large(number)])
        assert log.stat().st_size > 400_000
        reader.execute("COMMIT")
    # The first commit writes the log back, the second begins it again.
    store.enqueue([new(100)])
    store.enqueue([new(101)])
    assert log.stat().st_size <= 100_000
    assert store.counts() == {"send": {"queued": 102}}
    store.close()


def large(number: int) -> NewJob:
    return new(number, arguments='"' + "x" * 10_000 + '"')


# Growth: the work of an operation does not depend on jobs that are not its business


@pytest.mark.parametrize(
    "crowd",
    ["waiting for later", "ready in another lane", "succeeded", "failed", "of another owner", "ready in its own lane"],
)
def test_the_work_of_an_operation_does_not_grow_with_jobs_beside_it(crowd: str) -> None:
    few, many = work_beside(crowd, 20), work_beside(crowd, 1_500)
    grown = {name: (few[name], many[name]) for name in few if many[name] > few[name] * 1.2}
    assert grown == {}, "instructions of SQLite's machine, beside few and many"


def work_beside(crowd: str, number: int) -> dict[str, int]:
    clock = VirtualClock()
    store = SqliteStore("sqlite:///:memory:", now=clock.now, threaded=False)
    numbers = iter(range(1_000_000))

    def enqueue(how_many: int = 1, **options: Any) -> None:
        store.enqueue([new(next(numbers), **options) for _ in range(how_many)])

    def claim(kind: str, limit: int) -> list[Lease]:
        claim = Claim(incarnation="w", number=next(numbers), kinds=[kind], limit=limit, lease=HOUR)
        return store.claim(claim).leases

    match crowd:
        case "waiting for later":
            enqueue(number, delay=HOUR, deadline=2 * HOUR)
        case "ready in another lane":
            enqueue(number, kind="another")
        case "of another owner":
            enqueue(number, kind="another", owner="acme")
        case "ready in its own lane":
            enqueue(number)
        case "succeeded":
            enqueue(number, kind="done")
            store.settle([Outcome(lease, Succeed("1")) for lease in claim("done", number)])
        case "failed":
            enqueue(number, kind="done")
            store.settle([Outcome(lease, Fail(deadline_passed(), {})) for lease in claim("done", number)])

    work: dict[str, int] = {}
    connection = database_of(store)._connection

    def measured(name: str, call: Callable[[], Any]) -> Any:
        steps = [0]

        def count() -> None:
            steps[0] += 1

        connection.set_progress_handler(count, 1)
        answer = call()
        connection.set_progress_handler(None, 0)
        work[name] = steps[0]
        return answer

    enqueue(20)
    measured("enqueue", lambda: enqueue(dedupe_key="a"))
    measured("enqueue a duplicate", lambda: enqueue(dedupe_key="a"))
    leases = measured("claim", lambda: claim("send", 10))
    measured("claim nothing", lambda: claim("nothing", 10))
    beat = Beat(worker=worker("w"), lease=HOUR, extend=[lease.fence for lease in leases])
    measured("beat", lambda: store.beat(beat))
    fails = [Outcome(lease, Fail(deadline_passed(), {})) for lease in leases]
    measured("settle", lambda: store.settle(fails))
    measured("settle again", lambda: store.settle(fails))
    failed = leases[0].fence.id
    measured("retry", lambda: store.move(Request(id="r1", move=Move.MANUAL_RETRY, job=failed)))
    measured("cancel", lambda: store.move(Request(id="r2", move=Move.MANUAL_CANCEL, job=failed)))
    measured("expire", lambda: store.expire(deadline_passed(), limit=10))
    measured("overdue", lambda: store.overdue(besides="w", limit=10))
    measured("job", lambda: store.job(failed))
    measured("jobs", lambda: store.jobs(JobFilter(), limit=5))
    measured("jobs that failed", lambda: store.jobs(JobFilter(state="failed"), limit=5))
    measured("events of a job", lambda: store.events(job=failed))
    measured("new events", lambda: store.events(after=store.last_position() - 5))
    store.close()
    return work


# Words


def database_of(store: SqliteStore) -> database.Database:
    return store._database


def rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def dump(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()
