"""The lock file of a SQLite database: waited for within bounds, its holder named, gone with its process."""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from mulligan.errors import StoreUnavailable
from mulligan.records.job import JobFilter, NewJob
from mulligan.store.sqlite import SqliteStore
from mulligan.store.sqlite.writer import Operation

SHORT = timedelta(milliseconds=100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a database with one job."""
    path = tmp_path / "jobs.db"
    with closing(SqliteStore(f"sqlite:///{path}", threaded=False)) as store:
        store.enqueue([new("first")])
    return path


def new(job_id: str) -> NewJob:
    return NewJob(id=job_id, kind="send", arguments="{}")


@contextmanager
def held(path: Path) -> Iterator[None]:
    with path.with_name("jobs.db-lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_all_can_be_read_and_the_store_closed_while_another_process_holds_the_lock(path: Path) -> None:
    with held(path), closing(SqliteStore(f"sqlite:///{path}")) as store:
        assert [job.id for job in store.jobs(JobFilter()).jobs] == ["first"]
        assert [event.type for event in store.events(job="first")] == ["job.enqueued"]


@pytest.mark.parametrize("threaded", [True, False])
def test_a_write_gives_up_in_time_and_names_the_holder_of_the_lock(path: Path, *, threaded: bool) -> None:
    with closing(SqliteStore(f"sqlite:///{path}", threaded=threaded, timeout=SHORT)) as store:
        with held(path):
            for _ in range(3):
                with pytest.raises(StoreUnavailable) as caught:
                    store.enqueue([new("second")])
                assert f"process {os.getpid()} (" in str(caught.value)
                assert Path(sys.argv[0]).name in str(caught.value)
                assert "MULLIGAN_STORE_TIMEOUT_SEC" in str(caught.value)
        assert not store.enqueue([new("second")])[0].is_duplicate, "what was refused is not stored later"


def test_a_write_goes_on_as_soon_as_the_lock_is_free(path: Path) -> None:
    """Also for a store that once gave up, and no other process holds the lock while it writes."""
    with (
        closing(SqliteStore(f"sqlite:///{path}", timeout=SHORT)) as impatient,
        held(path),
        pytest.raises(StoreUnavailable),
    ):
        impatient.enqueue([new("second")])
    with (
        closing(SqliteStore(f"sqlite:///{path}", threaded=False)) as store,
        ThreadPoolExecutor(1) as pool,
    ):
        with held(path):
            waiting = pool.submit(store.enqueue, [new("third")])
        assert [job.id for job in waiting.result(10)] == ["third"]
        assert store._database.write(lambda _: is_free(path)) is False
        assert is_free(path)


def is_free(path: Path) -> bool:
    with path.with_name("jobs.db-lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_caller_that_gives_up_while_it_is_answered_does_not_end_the_writer(path: Path) -> None:
    with closing(SqliteStore(f"sqlite:///{path}", timeout=SHORT)) as store:
        store.enqueue([new("second")])
        waiting = store._database._queue
        assert waiting is not None
        first, second = Operation(lambda _: "first"), Operation(lambda _: "second")
        gave_up, answer = threading.Event(), first.future.set_exception

        def give_up_first(error: BaseException | None) -> None:
            assert first.future.cancel()
            gave_up.set()
            answer(error)

        first.future.set_exception = give_up_first  # type: ignore[method-assign]
        with held(path):
            waiting.put(first)
            assert gave_up.wait(10)
        waiting.put(second)
        assert second.future.result(10) == "second"


def test_many_stores_of_one_process_that_wait_for_each_other_all_get_it(path: Path) -> None:
    stores = [SqliteStore(f"sqlite:///{path}", threaded=number % 2 == 0) for number in range(6)]
    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(lambda n: [stores[n].enqueue([new(f"{n}-{m}")]) for m in range(30)], range(len(stores))))
    assert stores[0].counts() == {"send": {"queued": 181}}
    for store in stores:
        store.close()


def test_a_program_that_writes_for_long_is_named_too(path: Path) -> None:
    with (
        closing(SqliteStore(f"sqlite:///{path}", threaded=False, timeout=SHORT)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=rf"locked by another program.* process {os.getpid()} \("):
            store.enqueue([new("second")])


# The lock ends with its process

FORKING = """
    import os, signal, subprocess, sys
    from mulligan.records.job import NewJob
    from mulligan.store.sqlite import SqliteStore

    store = SqliteStore("sqlite:///" + sys.argv[1], threaded=False)
    store.enqueue([NewJob(id="second", kind="send", arguments="{}")])

    def leave_behind():
        '''What outlives this process, and ends with its stdin.'''
        if sys.argv[2] == "program":
            program = [sys.executable, "-c", "import sys; print('there', flush=True); sys.stdin.read()"]
            subprocess.Popen(program, close_fds=False)
        elif os.fork() == 0:
            print("there", flush=True)
            sys.stdin.read()
            os._exit(0)

    def die(_):
        '''While the lock is held.'''
        if sys.argv[3] == "while it is held":
            leave_behind()
        os.kill(os.getpid(), signal.SIGKILL)

    if sys.argv[3] == "before":
        leave_behind()
    store._database.write(die)
"""


@pytest.mark.parametrize("moment", ["before", "while it is held"])
@pytest.mark.parametrize("what", ["fork", "program"])
def test_what_a_killed_process_left_behind_does_not_hold_its_lock(path: Path, what: str, moment: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(FORKING), str(path), what, moment]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"there\n"
        assert parent.wait(30) == -signal.SIGKILL
        # What it left behind lives on until the pipe is closed.
        with closing(SqliteStore(f"sqlite:///{path}", threaded=False, timeout=timedelta(seconds=3))) as store:
            assert not store.enqueue([new("third")])[0].is_duplicate


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_takes_no_lock_from_its_parent(path: Path) -> None:
    """Neither by closing its copy nor at its end."""

    def fork_and_look(_: object) -> tuple[bool, int]:
        if (child := os.fork()) == 0:
            os._exit(0)
        return is_free(path), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    with closing(SqliteStore(f"sqlite:///{path}", threaded=False)) as store:
        assert store._database.write(fork_and_look) == (False, 0)
        assert is_free(path)
