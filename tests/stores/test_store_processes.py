"""Many processes on one SQLite file: nothing locked, nothing doubled, nothing acknowledged and lost.

Each test is one fresh interpreter that forks its processes before any of them opens the store.
"""

import json
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

from mulligan.records.job import NewJob
from mulligan.store.sqlite import SqliteStore

PRELUDE = """
    import json, os, signal, sys, traceback
    from datetime import timedelta
    from mulligan.errors import StoreError
    from mulligan.failure.decision import Release, Retry, Succeed
    from mulligan.failure.verdict import worker_lost
    from mulligan.records.job import JobFilter, NewJob
    from mulligan.store.messages import Claim, Outcome, Settled
    from mulligan.store.sqlite import SqliteStore

    URL = "sqlite:///" + sys.argv[1]

    def new(job_id, **options):
        return NewJob(id=job_id, kind="send", arguments="{}", **options)

    def claim(store, worker, number, limit=5):
        return store.claim(
            Claim(incarnation=worker, number=number, kinds=["send"], limit=limit, lease=timedelta(hours=1))
        ).leases

    def processes(number, work):
        '''Run `work(place)` in so many processes that start at once; what each returned, or its error.'''
        start_reader, start_writer = os.pipe()
        readers = []
        for place in range(number):
            reader, writer = os.pipe()
            if os.fork() == 0:
                os.close(start_writer)
                os.read(start_reader, 1)  # ends when the last writer is closed: all at once
                try:
                    answer = work(place)
                except BaseException:
                    answer = {"error": traceback.format_exc()}
                with os.fdopen(writer, "w") as file:
                    json.dump(answer, file)
                os._exit(0)
            os.close(writer)
            readers.append(reader)
        os.close(start_writer)
        answers = [json.load(os.fdopen(reader)) for reader in readers]
        for _ in range(number):
            os.wait()
        return answers

    def tell(answer):
        json.dump(answer, sys.stdout)
"""


def tried(code: str, path: Path) -> Any:
    """Run the code in a fresh interpreter; what it told."""
    # Python 3.12 warns of a fork beside a thread, which is what some of them are about.
    silent = ("-W", "ignore:This process:DeprecationWarning")
    command = [sys.executable, *silent, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code), str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return json.loads(ended.stdout)


def rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute(statement).fetchall()


def test_a_file_that_is_open_twice_in_one_process_loses_nothing_when_another_closes_it(tmp_path: Path) -> None:
    """The last process to close the file removes its log: it must see that this one still has it open."""
    path = tmp_path / "jobs.db"
    with closing(SqliteStore(f"sqlite:///{path}")) as first, closing(SqliteStore(f"sqlite:///{path}")) as second:
        tried('store = SqliteStore(URL); store.enqueue([new("elsewhere")]); store.close(); tell(None)', path)
        first.enqueue([NewJob(id="first", kind="send", arguments="{}")])
        second.enqueue([NewJob(id="second", kind="send", arguments="{}")])
        stored = tried("tell(sorted(job.id for job in SqliteStore(URL).jobs(JobFilter()).jobs))", path)
    assert stored == ["elsewhere", "first", "second"]


def test_many_processes_that_open_a_new_file_at_once_all_get_it(tmp_path: Path) -> None:
    answers = tried(
        """
        def work(place, round):
            store = SqliteStore(URL + str(round), threaded=False)
            store.enqueue([new(f"{place}")])
            store.close()

        tell([processes(8, lambda place: work(place, round)) for round in range(4)])
        """,
        tmp_path / "jobs.db",
    )
    assert not [answer["error"] for answers_of_round in answers for answer in answers_of_round if answer]
    for number in range(4):
        assert rows(tmp_path / f"jobs.db{number}", "SELECT count(*) FROM mulligan_jobs") == [(8,)]


def test_one_dedupe_key_from_many_processes_is_one_job(tmp_path: Path) -> None:
    answers = tried(
        """
        def work(place):
            store = SqliteStore(URL)
            jobs = [store.enqueue([new(f"{place}-{number}", dedupe_key="k")])[0] for number in range(25)]
            store.close()
            return [[job.id, job.is_duplicate] for job in jobs]

        tell(processes(4, work))
        """,
        tmp_path / "jobs.db",
    )
    jobs = [job for answer in answers for job in answer]
    assert len(jobs) == 100
    assert len({job_id for job_id, _ in jobs}) == 1
    assert sum(not is_duplicate for _, is_duplicate in jobs) == 1
    assert rows(tmp_path / "jobs.db", "SELECT count(*) FROM mulligan_jobs") == [(1,)]
    assert rows(tmp_path / "jobs.db", "SELECT type FROM mulligan_events") == [("job.enqueued",)]


def test_processes_that_all_write_heavily_lose_and_double_nothing(tmp_path: Path) -> None:
    answers = tried(
        """
        JOBS, PROCESSES = 60, 4

        def work(place):
            store, mine, number = SqliteStore(URL), [], 0
            for job in range(JOBS):
                store.enqueue([new(f"{place}-{job}")])
                number += 1
                for lease in claim(store, f"w{place}", number, limit=2):
                    # Every third is retried at once, to be run by any worker.
                    is_first = lease.fence.attempt == 1 and lease.fence.id.endswith("3")
                    decision = Retry(timedelta(0), worker_lost(), {}) if is_first else Succeed('"done"')
                    assert store.settle([Outcome(lease, decision)]) == [Settled.ACCEPTED]
                    assert store.settle([Outcome(lease, decision)]) == [Settled.REPEATED]
                    if not is_first:
                        mine.append(lease.fence.id)
            while leases := claim(store, f"w{place}", number := number + 1):
                for lease in leases:
                    assert store.settle([Outcome(lease, Succeed('"done"'))]) == [Settled.ACCEPTED]
                    mine.append(lease.fence.id)
            store.close()
            return mine

        tell(processes(PROCESSES, work))
        """,
        tmp_path / "jobs.db",
    )
    assert not [answer["error"] for answer in answers if isinstance(answer, dict)]
    done = sorted(job for answer in answers for job in answer)
    assert done == sorted(f"{place}-{job}" for place in range(4) for job in range(60))
    assert rows(tmp_path / "jobs.db", "SELECT state, count(*) FROM mulligan_jobs GROUP BY 1") == [("succeeded", 240)]
    succeeded = "SELECT count(*), count(DISTINCT job) FROM mulligan_events WHERE type = 'job.succeeded'"
    assert rows(tmp_path / "jobs.db", succeeded) == [(240, 240)]


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    rounds = tried(
        """
        def killed(round, after):
            '''Enqueue without end and say so each time, until killed.'''
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reader)
                store, number = SqliteStore(URL), 0
                while True:
                    number += 1
                    jobs = store.enqueue([new(f"{round}-{number}-{part}") for part in range(3)])
                    os.write(writer, (" ".join(job.id for job in jobs) + "\\n").encode())
            os.close(writer)
            lines = os.fdopen(reader)
            heard = [next(lines) for _ in range(after)]
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            heard += lines
            return [line.split() for line in heard if line.endswith("\\n")]

        tell([killed(round, 1 + round * 7) for round in range(8)])
        """,
        tmp_path / "jobs.db",
    )
    acknowledged = [job for heard in rounds for jobs in heard for job in jobs]
    assert len(acknowledged) > 3 * 8 * 20
    stored = [job for (job,) in rows(tmp_path / "jobs.db", "SELECT id FROM mulligan_jobs")]
    assert set(acknowledged) <= set(stored)
    assert len(stored) % 3 == 0, "all or none, also of what was not acknowledged"
    events = "SELECT count(*), count(DISTINCT job) FROM mulligan_events"
    assert rows(tmp_path / "jobs.db", events) == [(len(stored), len(stored))]
    assert len(stored) <= len(acknowledged) + 3 * 8


def test_a_worker_killed_in_the_middle_leaves_jobs_that_others_can_take(tmp_path: Path) -> None:
    answer = tried(
        """
        store = SqliteStore(URL, threaded=False)
        store.enqueue([new(f"{number:03}") for number in range(200)])
        store.close()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            store, number = SqliteStore(URL), 0
            while True:
                number += 1
                for lease in claim(store, "killed", number, limit=3):
                    store.settle([Outcome(lease, Succeed("1"))])
                    os.write(writer, (lease.fence.id + "\\n").encode())
        os.close(writer)
        lines = os.fdopen(reader)
        done = [next(lines) for _ in range(40)]
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done += lines

        store = SqliteStore(URL)
        left = store.adopt("killed", before=10**9, held=[])
        for lease in left:
            assert store.settle([Outcome(lease, Release({"why": "killed"}))]) == [Settled.ACCEPTED]
        rest, number = [], 0
        while leases := claim(store, "another", number := number + 1, limit=50):
            assert set(store.settle([Outcome(lease, Succeed("2")) for lease in leases])) == {Settled.ACCEPTED}
            rest += [lease.fence.id for lease in leases]
        tell([[line.strip() for line in done if line.endswith("\\n")], len(left), rest, store.counts()])
        store.close()
        """,
        tmp_path / "jobs.db",
    )
    done, left, rest, counts = answer
    assert counts == {"send": {"succeeded": 200}}
    assert left <= 3
    assert not set(done) & set(rest)
    assert 199 <= len(done) + len(rest) <= 200, "one may have been settled and not yet told"


def test_a_store_used_after_a_fork_says_so_and_the_parent_is_unharmed(tmp_path: Path) -> None:
    answer = tried(
        """
        store = SqliteStore(URL)
        store.enqueue([new("before")])
        changes = store.changes()
        said = []

        def in_child(end):
            reader, writer = os.pipe()
            if os.fork() == 0:
                for call in (lambda: store.enqueue([new("child")]), store.counts, lambda: store.job("before")):
                    try:
                        call()
                    except StoreError as error:
                        os.write(writer, f"{error}\\n".encode())
                store.close()
                os.close(writer)
                end()
            os.close(writer)
            said.extend(os.fdopen(reader).read().splitlines())
            _, status = os.wait()
            store.enqueue([new(f"after-{len(said)}")])
            return status

        # At once, and through all that an interpreter does at its end.
        statuses = [in_child(lambda: os._exit(0)), in_child(lambda: sys.exit(0))]
        tell([statuses, said, store.counts(), changes.wait(10)])
        changes.close()
        store.close()
        """,
        tmp_path / "jobs.db",
    )
    statuses, said, counts, changed = answer
    assert statuses == [0, 0]
    assert len(said) == 6
    told = "this store was opened before the process forked and cannot be used in the child; "
    told += "open the app in each process, or start processes with 'spawn'"
    assert set(said) == {told}
    assert (counts, changed) == ({"send": {"queued": 3}}, True)
    assert rows(tmp_path / "jobs.db", "SELECT count(*) FROM mulligan_jobs") == [(3,)]
