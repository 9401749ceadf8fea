"""Tasks in child processes: real children of a real worker, really killed."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import isolated_tasks as tasks
import pytest

from live import SOON, eventually, working
from mulligan import App, RetryPolicy, State
from mulligan.errors import BadTask
from mulligan.failure.decision import Release
from mulligan.failure.verdict import Ledger, worker_lost
from mulligan.records.job import Job, NewJob
from mulligan.store.messages import Claim, Outcome, Settled
from mulligan.testing import crashing, sandbox
from mulligan.values.size import BadSize, describe_size, parse_size


@pytest.fixture
def app() -> Iterator[App]:
    with tasks.app as app:
        yield app


def is_gone(pid: int) -> bool:
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie without a parent is no longer a process of the test.
    with contextlib.suppress(FileNotFoundError):
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def written(name: str) -> str:
    path = Path(name)
    eventually(lambda: path.exists() and path.read_text())
    return path.read_text()


def lose(app: App, job: Job[Any]) -> None:
    """Its worker dies, and another worker notices."""
    claim = Claim(incarnation="dead", number=1, kinds=[job.kind], limit=1, lease=app.settings.worker_lease_ttl)
    (lease,) = app.store.claim(claim).leases
    outcome = Outcome(lease, Release({}, ledger=Ledger.LOSSES, verdict=worker_lost()))
    assert app.store.settle([outcome]) == [Settled.ACCEPTED]
    assert app.job(job.id).losses == 1


# Killers


def test_a_task_that_kills_its_process_fails_after_three_crashes_and_harms_no_other_job(app: App) -> None:
    killers = {
        tasks.app.tasks["exits"].enqueue().id: ("CRASHED", "ended with exit status 9"),
        tasks.segfaults.enqueue().id: ("SEGFAULT", "in segfaults"),
        tasks.eats_memory.enqueue().id: ("OUT_OF_MEMORY", "in eats_memory"),
        tasks.nibbles_memory.enqueue().id: ("OUT_OF_MEMORY", "MemoryError"),
        tasks.killed_by_the_system.enqueue().id: ("OUT_OF_MEMORY", "SIGKILL"),
    }
    others = app.enqueue_many([tasks.beside.bind(number) for number in range(30)] + [tasks.pid.bind()] * 10)
    app.run_until_idle(concurrency=4, timeout="120s")
    for job_id, (code, detail) in killers.items():
        found = app.job(job_id)
        assert (found.state, found.error_code, found.crashes, found.attempt) == (State.FAILED, code, 3, 3), found.kind
        assert (found.failures, found.losses) == (0, 0), found.kind
        released = [event for event in app.events(job_id) if event.type == "job.released"]
        assert [event.code for event in released] == [code, code]
        assert detail in app.events(job_id)[-1].data["detail"]
    for job in others:
        found = app.job(job.id)
        assert (found.state, found.attempt, found.crashes) == (State.SUCCEEDED, 1, 0)


def test_a_dead_child_is_noticed_although_a_fork_keeps_the_connection_open(app: App) -> None:
    job = tasks.forks_and_dies.enqueue()
    app.run_until_idle(timeout="60s")
    assert (app.job(job.id).error_code, app.job(job.id).crashes) == ("CRASHED", 3)
    assert "exit status 3" in app.events(job.id)[-1].data["detail"]
    fork = int(written("forked"))
    eventually(lambda: not is_alive(fork))


def test_a_success_clears_the_crashes_before_it(app: App) -> None:
    job = tasks.pid_by_default.enqueue()
    lose(app, job)
    app.run_until_idle(timeout="60s")
    assert app.job(job.id).losses == 0


# Where a task runs


def test_children_are_kept_warm_and_are_no_more_than_attempts_run_at_once(app: App) -> None:
    jobs = app.enqueue_many([tasks.pid.bind(), tasks.pid_async.bind()] * 6)
    app.run_until_idle(concurrency=2, timeout="60s")
    pids = {app.wait(job) for job in jobs}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids
    assert not any(is_alive(pid) for pid in pids), "they end with their worker"


def test_a_child_killed_while_idle_is_replaced_and_no_job_is_charged(app: App) -> None:
    with working(app, concurrency=1):
        first = app.wait(tasks.pid.enqueue(), timeout=SOON)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: not is_alive(first))
        second = tasks.pid.enqueue()
        assert app.wait(second, timeout=SOON) != first
    assert (app.job(second.id).attempt, app.job(second.id).crashes) == (1, 0)


def test_a_job_whose_worker_was_lost_runs_in_a_child_unless_its_task_never_does(app: App) -> None:
    suspect, never = tasks.pid_by_default.enqueue(), tasks.pid_never_isolated.enqueue()
    lose(app, suspect)
    lose(app, never)
    plain = tasks.pid_by_default.enqueue()
    app.run_until_idle(timeout="60s")
    assert app.wait(suspect) != os.getpid()
    assert app.wait(never) == os.getpid()
    assert app.wait(plain) == os.getpid()


def test_a_suspect_that_no_child_can_load_runs_in_the_worker_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with App(f"sqlite:///{tmp_path}/own.db") as app:

        @app.task
        async def local() -> int:
            return os.getpid()

        job = local.enqueue()
        lose(app, job)
        app.run_until_idle(timeout="60s")
        assert app.wait(job) == os.getpid()
    assert "a job of task 'local' that lost its worker runs in this worker" in caplog.text


def test_a_suspect_in_the_worker_can_still_be_timed_out(tmp_path: Path) -> None:
    import asyncio

    with App(f"sqlite:///{tmp_path}/own.db") as app:

        @app.task(timeout="200ms", retry=RetryPolicy(1))
        async def local() -> None:
            await asyncio.sleep(600)

        job = local.enqueue()
        lose(app, job)
        app.run_until_idle(timeout="60s")
        assert app.job(job.id).error_code == "TIMEOUT"


def test_a_task_that_must_be_isolated_and_cannot_is_an_error_at_the_start(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/own.db") as app:
        app.task("local", isolate=True)(lambda: None)
        with pytest.raises(BadTask, match="'local' runs in a child process, which cannot load it: the app is not a gl"):
            app.run_until_idle(timeout="60s")


def test_a_task_defined_in_a_function_is_found_missing_at_the_start(app: App) -> None:
    app.task("late", isolate=True)(lambda: None)
    try:
        with pytest.raises(BadTask, match=r"'late' runs in a child process, .* define it at the top of a module"):
            app.run_until_idle(timeout="60s")
    finally:
        del app.tasks._tasks["late"]


def test_an_app_that_a_child_cannot_import_is_an_error_at_the_start(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOLATED_TASKS_BROKEN", "1")
    with pytest.raises(BadTask, match="RuntimeError: this module was broken by a deploy"):
        app.run_until_idle(timeout="60s")


def test_an_app_broken_while_its_worker_runs_fails_isolated_jobs_and_counts_no_crash(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working(app, concurrency=1):
        pid = app.wait(tasks.pid.enqueue(), timeout=SOON)
        monkeypatch.setenv("ISOLATED_TASKS_BROKEN", "1")
        os.kill(pid, signal.SIGKILL)
        job = tasks.pid.enqueue()
        eventually(lambda: app.job(job.id).state is State.WAITING)
    assert (app.job(job.id).failures, app.job(job.id).crashes) == (1, 0)
    retried = app.events(job.id)[-1]
    assert (retried.code, "broken by a deploy" in retried.data["detail"]) == ("IMPORT_FAILED", True)


SCRIPT = """
    import os, sys
    from mulligan import App

    app = App(sys.argv[1])

    @app.task(isolate=True)
    def pid() -> int:
        return os.getpid()

    job = pid.enqueue()
    app.run_until_idle(timeout="60s")
    print(app.wait(job) != os.getpid(), len(app.jobs().jobs))
"""


def test_children_read_a_script_up_to_where_it_uses_the_app(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(textwrap.dedent(SCRIPT))
    ran = subprocess.run(
        [sys.executable, script, f"sqlite:///{tmp_path}/script.db"], capture_output=True, text=True, timeout=SOON
    )
    assert (ran.stdout, ran.stderr) == ("True 1\n", "")


# What a task sees


def test_the_attempt_is_the_same_in_a_child(app: App) -> None:
    job = tasks.introduces_itself.enqueue()
    app.run_until_idle(timeout="60s")
    assert app.wait(job) == ["1", "introduces_itself", job.id, f"{job.id}:step"]


def test_progress_in_a_child_is_seen_while_it_runs(app: App) -> None:
    with working(app):
        job = tasks.shows_progress.enqueue()
        eventually(lambda: app.job(job.id).progress_text == "half way")
        Path("go on").touch()
        eventually(lambda: app.job(job.id).progress_text == "nearly")
        Path("finish").touch()
        app.wait(job, timeout=SOON)


def test_a_plain_function_in_a_child_may_run_a_loop_of_its_own(app: App) -> None:
    job = tasks.runs_a_loop_of_its_own.enqueue()
    app.run_until_idle(timeout="60s")
    assert app.wait(job) == 7


def test_failures_in_a_child_are_judged_as_in_the_worker(app: App) -> None:
    pairs = [[app.tasks[f"{name} {where}"].enqueue().id for where in ("inline", "isolated")] for name in tasks.FAILURES]
    app.run_until_idle(concurrency=2, timeout="60s")

    def said(job: str) -> tuple[Any, ...]:
        last = app.events(job)[-1]
        reasons = last.data["reasons"] | {"policy": ""}
        return last.type, last.code, last.data["message"], last.data["class"], reasons, app.job(job).failures

    for inline, isolated in pairs:
        assert said(isolated) == said(inline)
    assert {app.job(isolated).error_code or app.events(isolated)[-1].code for _, isolated in pairs} == {
        "TEAPOT",
        "NOT_PDF",
        "RATE_LIMITED",
        "DISK_FULL",
        "UNKNOWN",
        "RESULT_INVALID",
        "OUT_OF_MEMORY",
    }


def test_a_child_works_on_the_database_of_its_worker(app: App, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mulligan", "worker", "isolated_tasks:app", "--database"]
    job = tasks.enqueues_another.enqueue()
    app.close()
    Path("jobs.db").rename(tmp_path / "other.db")
    with contextlib.ExitStack() as stack:
        worker = stack.enter_context(process([*command, f"sqlite:///{tmp_path}/other.db"]))
        other = stack.enter_context(App(f"sqlite:///{tmp_path}/other.db"))
        enqueued: str = other.wait(job.id, timeout=SOON)
        eventually(lambda: other.job(enqueued).state is State.SUCCEEDED)
        worker.terminate()
        worker.wait(SOON)


def test_output_and_log_of_a_child_go_through_its_worker_and_are_no_answer(app: App) -> None:
    job = tasks.talks.enqueue()
    with worker_process() as worker:
        assert app.wait(job, timeout=SOON) == "", "there is nothing to read from"
        worker.terminate()
        out, err = worker.communicate(timeout=SOON)
    assert '{"type": "AttemptSucceeded", "result": "1"}\n\0\0\0\1x\n' in out
    assert "to stderr\n" in err
    assert f"WARNING shop: logged in a child [job_id={job.id} kind=" in err


# Stopping it


def test_a_child_that_sleeps_in_c_beyond_its_timeout_is_killed_and_times_out(app: App) -> None:
    job = tasks.sleeps_in_c.enqueue()
    app.run_until_idle(timeout="60s")
    found = app.job(job.id)
    assert (found.error_code, found.failures, found.crashes) == ("TIMEOUT", 1, 0)


def test_the_start_of_a_child_does_not_count_towards_the_timeout(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.pid, "timeout", tasks.sleeps_in_c.timeout)
    jobs = app.enqueue_many([tasks.pid.bind()] * 4)
    app.run_until_idle(concurrency=4, timeout="60s")
    assert {app.job(job.id).attempt for job in jobs} == {1}


def test_programs_a_killed_child_had_started_die_with_it(app: App) -> None:
    job = tasks.starts_a_program_and_waits.enqueue()
    app.run_until_idle(timeout="60s")
    assert app.job(job.id).error_code == "TIMEOUT"
    program = int(written("program"))
    eventually(lambda: not is_alive(program))


@pytest.mark.skipif(
    sys.platform != "linux",
    reason="finding the processes of a child by their environment needs /proc, which only Linux has",
)
@pytest.mark.parametrize(
    "task",
    [tasks.starts_sessions_and_waits, tasks.starts_sessions_and_dies, tasks.starts_sessions],
    ids=lambda task: task.name,
)
def test_a_program_in_its_own_session_does_not_outlive_its_child(app: App, task: Any) -> None:
    task.enqueue()
    app.run_until_idle(timeout="60s")
    programs = [int(pid) for pid in written("programs").split()]
    assert len(programs) > 1
    for program in programs:
        eventually(partial(is_gone, program), seconds=5)


@pytest.mark.parametrize("task", [tasks.cleans_up, tasks.cleans_up_async])
def test_a_cancelled_child_may_clean_up_before_it_is_gone(app: App, task: Any) -> None:
    with working(app):
        job = task.enqueue()
        pid = int(written("started"))
        app.cancel(job.id)
        eventually(lambda: app.job(job.id).state is State.CANCELLED)
        assert written("cleaned") == "True False"
        assert not is_alive(pid), "it is not used again"


def test_a_cancelled_child_that_does_not_stop_is_killed(app: App) -> None:
    with working(app):
        job = tasks.stubborn_in_c.enqueue()
        pid = int(written("started"))
        app.cancel(job.id)
        eventually(lambda: app.job(job.id).state is State.CANCELLED)
        assert not is_alive(pid)


def test_a_child_whose_lease_is_lost_is_stopped(app: App) -> None:
    with working(app, concurrency=2):
        job = tasks.cleans_up.enqueue()
        written("started")
        with contextlib.closing(sqlite3.connect("jobs.db", timeout=10)) as connection:
            # Of another kind, so that this worker does not take the second attempt.
            connection.execute("UPDATE mulligan_jobs SET lease_until = 1, kind = 'elsewhere'")
            connection.commit()
        (lease,) = app.store.adopt(app.workers()[0].incarnation, before=10**6, held=[])
        outcome = Outcome(lease, Release({"why": "test"}), reclaimed_by="another")
        assert app.store.settle([outcome]) == [Settled.ACCEPTED]
        assert written("cleaned") == "True True"
    assert app.job(job.id).crashes == 0


def test_a_child_that_holds_the_interpreter_keeps_its_lease(app: App, tmp_path: Path) -> None:
    with App(settings=app.settings) as other, working(app):
        other.task("something else")(lambda: None)
        job = tasks.holds_the_interpreter.enqueue()
        with working(other):
            assert app.wait(job, timeout=SOON) == 1
    assert app.job(job.id).losses == 0


# Without a worker


@contextlib.contextmanager
def process(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as started:  # type: ignore[call-overload]
        try:
            yield started
        finally:
            started.kill()


def worker_process() -> contextlib.AbstractContextManager["subprocess.Popen[str]"]:
    return process([sys.executable, "-m", "mulligan", "worker", "isolated_tasks:app"])


@pytest.mark.parametrize("task", [tasks.cleans_up, tasks.stubborn_in_c], ids=["in python", "in c"])
def test_children_end_when_their_worker_is_killed(app: App, task: Any) -> None:
    task.enqueue()
    with worker_process() as worker:
        pid = int(written("started"))
        assert is_alive(pid)
        worker.kill()
        eventually(lambda: not is_alive(pid))


@pytest.mark.skipif(
    sys.platform != "linux",
    reason="finding the processes of a child by their environment needs /proc, which only Linux has",
)
def test_a_program_in_its_own_session_does_not_outlive_a_killed_worker(app: App) -> None:
    tasks.starts_sessions_and_waits.enqueue()
    with worker_process() as worker:
        child_of_the_child, _, daemon = (int(pid) for pid in written("programs").split())
        assert is_alive(child_of_the_child) and is_alive(daemon)
        worker.kill()
        eventually(lambda: not is_alive(child_of_the_child) and not is_alive(daemon))


# In a sandbox, and by name


def test_a_sandbox_runs_isolated_tasks_inline(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/own.db")
    app.task("here", memory="1G")(os.getpid)
    app.task("killer", isolate=True, retry=RetryPolicy(1))(crashing())
    with sandbox(app) as box:
        here, killer = app.tasks["here"].enqueue(), app.tasks["killer"].enqueue()
        box.run()
        assert app.wait(here) == os.getpid()
        assert "in a sandbox is the process of your tests" in app.events(killer.id)[-1].data["detail"]


@pytest.mark.parametrize(
    ("text", "size"), [("512M", 2**29), ("2g", 2**31), (" 64 ".strip(), 64), ("1KiB", 1024), ("3mb", 3 * 2**20), (7, 7)]
)
def test_sizes(text: int | str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "bad", ["", "M", "-1M", "1.5G", "1 X", "12345678901234567890", 0, -1, True, 1.5, None, "9999T"]
)
def test_invalid_sizes(bad: Any) -> None:
    with pytest.raises(BadSize, match=r"is not a size; use a number of bytes or a string such as '512M' or '2G'"):
        parse_size(bad)


def test_sizes_for_people() -> None:
    assert [describe_size(size) for size in (5, 1024, 2**20, 3 * 2**29)] == ["5B", "1K", "1M", "1.5G"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"isolate": "yes"}, "isolate of task 'task' is 'yes', but it must be True, False or None"),
        ({"memory": "lots"}, "memory of task 'task': 'lots' is not a size"),
        ({"memory": "1M"}, "memory of task 'task' is '1M', but it must be at least 64M"),
        ({"memory": "1G", "isolate": False}, "has a memory limit, which needs a separate process"),
    ],
)
def test_isolation_that_makes_no_sense_is_refused(options: dict[str, Any], problem: str, tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/own.db")
    with pytest.raises(BadTask, match=problem):
        app.task("task", **options)(lambda: None)


def test_a_memory_limit_isolates(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/own.db")
    assert app.task("task", memory="64M")(lambda: None).isolate is True


def test_a_child_releases_a_job_of_another_version(app: App) -> None:
    (job,) = app.store.enqueue([NewJob(id=app.wiring.new_id(), kind="segfaults", arguments='{"region":"us"}')])
    app.run_until_idle(timeout="60s")
    found = app.job(job.id)
    assert (found.state, found.waiting_for, found.crashes) == (State.WAITING, "another version", 0)


def test_a_task_that_runs_at_most_once_dies_once(app: App) -> None:
    job = tasks.dies_only_once.enqueue()
    app.run_until_idle(retries=True, timeout="60s")
    found = app.job(job.id)
    assert (found.state, found.error_code, found.crashes) == (State.FAILED, "OUT_OF_MEMORY", 1)
    assert Path("deaths").read_text() == "x"
