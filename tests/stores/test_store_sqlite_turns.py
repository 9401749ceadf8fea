"""Who writes to a SQLite file: a caller that finds no other write does it itself, others share a commit."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mulligan.errors import StoreClosed
from mulligan.records.job import JobFilter, NewJob
from mulligan.store.sqlite import SqliteStore
from mulligan.store.sqlite.database import Database
from mulligan.store.sqlite.writer import Operation, Writer

SOON = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    yield store
    store.close()


@pytest.fixture
def data(store: SqliteStore) -> Database:
    return store._database


def new(number: int) -> NewJob:
    return NewJob(id=f"job-{number:06}", kind="send", arguments="{}")


class Caller(threading.Thread):
    """Makes a call in its own thread, and keeps what it raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.join(SOON)
        assert not self.is_alive()


class LongWrite:
    """A write that lasts until it is let go."""

    def __init__(self, data: Database) -> None:
        self._began, self._go = threading.Event(), threading.Event()
        self._caller = Caller(lambda: data.write(self._wait))
        assert self._began.wait(SOON)

    def _wait(self, db: Any) -> None:
        db.execute("UPDATE mulligan_log SET pruned = pruned")
        self._began.set()
        assert self._go.wait(SOON)

    def end(self) -> None:
        self._go.set()
        self._caller.end()
        assert self._caller.error is None


def test_a_caller_that_finds_no_other_write_writes_in_its_own_thread(data: Database) -> None:
    assert data.write(lambda _db: threading.get_ident()) == threading.get_ident()


def test_callers_that_come_during_a_write_share_the_next_commit(
    store: SqliteStore, data: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    run_group = Writer.run_group

    def record(writer: Writer, operations: Sequence[Operation[Any]]) -> None:
        groups.append(len(operations))
        run_group(writer, operations)

    waiting: list[Operation[Any]] = []
    wait_for = data._wait_for

    def wait(operation: Operation[Any]) -> Any:
        waiting.append(operation)
        return wait_for(operation)

    monkeypatch.setattr(Writer, "run_group", record)
    monkeypatch.setattr(data, "_wait_for", wait)
    long = LongWrite(data)
    callers = [Caller(lambda number=number: store.enqueue([new(number)])) for number in range(5)]  # type: ignore[misc]
    until(lambda: len(waiting) == 5)
    long.end()
    for caller in callers:
        caller.end()
        assert caller.error is None
    # The thread may have taken the first of them before the others came.
    assert sum(groups) == 5
    assert len(groups) <= 2
    assert len(store.jobs(JobFilter(), limit=10).jobs) == 5


def test_a_write_inside_a_write_is_a_part_of_it(store: SqliteStore, data: Database) -> None:
    def write_and_fail(_db: Any) -> None:
        store.enqueue([new(1)])
        raise RuntimeError("afterwards")

    with pytest.raises(RuntimeError, match="afterwards"):
        data.write(write_and_fail)
    assert store.jobs(JobFilter(), limit=10).jobs == ()


def test_a_thread_that_writes_all_the_time_does_not_keep_others_from_writing(data: Database) -> None:
    is_over = False

    def write_on() -> None:
        while not is_over:
            data.write(lambda _db: None)

    busy = [Caller(write_on) for _ in range(2)]
    for _ in range(20):
        began = time.monotonic()
        data.write(lambda _db: None)
        assert time.monotonic() - began < 5
    is_over = True
    for caller in busy:
        caller.end()
        assert caller.error is None


def test_closing_waits_for_the_write_of_another_thread(store: SqliteStore, data: Database) -> None:
    long = LongWrite(data)
    closing = Caller(store.close)
    until(lambda: data._is_closed)
    assert closing.is_alive()
    long.end()
    closing.end()
    assert closing.error is None
    with pytest.raises(StoreClosed):
        store.enqueue([new(1)])


class Struck(Exception):
    """Raised in a thread from outside, as a timeout does."""


@pytest.mark.parametrize("strikes", [150])
def test_a_caller_struck_at_any_moment_leaves_the_store_usable(
    store: SqliteStore, data: Database, strikes: int
) -> None:
    acknowledged: list[str] = []
    is_over = False

    def enqueue_on() -> None:
        number = 0
        while not is_over:
            number += 1
            try:
                (job,) = store.enqueue([new(number)])
                acknowledged.append(job.id)
            except Struck:
                pass

    caller = Caller(enqueue_on)
    until(lambda: len(acknowledged) > 3)
    for strike in range(strikes):
        time.sleep(0.0003 + strike % 17 * 0.00011)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller.ident or 0), ctypes.py_object(Struck))
    is_over = True
    time.sleep(0.01)
    caller.join(SOON)
    assert not caller.is_alive()
    # Another thread can write, nothing acknowledged is lost, and nothing is half written.
    done = Caller(lambda: store.enqueue([new(0)]))
    done.end()
    assert done.error is None
    with store._database._turn:
        assert data._turn_of is None
    stored = data.read(lambda db: {id_ for (id_,) in db.execute("SELECT id FROM mulligan_jobs")})
    events = data.read(lambda db: {id_ for (id_,) in db.execute("SELECT job FROM mulligan_events")})
    assert stored == events
    assert stored >= {*acknowledged, "job-000000"}


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
