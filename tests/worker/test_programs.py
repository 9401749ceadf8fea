"""Real programs run by real tasks: their results, and that no process is left behind."""

import asyncio
import contextlib
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from live import SOON, eventually, working
from mulligan import App, FinalError, ProgramFailed, ProgramTimedOut, RetryPolicy, Rule, State, attempt
from mulligan.errors import BadProgram
from mulligan.failure.decision import Cancel
from mulligan.failure.verdict import Failure
from mulligan.program import Output, program
from mulligan.program.interrupt import Interrupted, interrupt
from mulligan.program.streams import Head, Lines, Tail
from mulligan.program.warden import WARDEN
from mulligan.settings import Settings
from mulligan.store.messages import Outcome, Settled
from mulligan.testing import sandbox

ONCE = RetryPolicy(1)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def is_alive(pid: int) -> bool:
    """A zombie counts as dead."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids(place: Path) -> list[int]:
    return [int(line) for line in place.read_text().split()] if place.exists() else []


def family(place: Path) -> list[str]:
    """A program with a child; both ignore SIGTERM and write down their process ids."""
    child = f"trap '' TERM; echo $$ >> {place}; while :; do sleep 1; done"
    return ["sh", "-c", f"trap '' TERM; echo $$ >> {place}; sh -c \"$1\" & wait; wait", "sh", child]


def both(app: App, body: Callable[..., Any], **options: Any) -> list[Any]:
    """The same program run by a plain task and by an async one."""

    def plain() -> None:
        attempt().run(*body())

    async def fluid() -> None:
        await attempt().run_async(*body())

    return [app.task(**options)(plain), app.task(**options)(fluid)]


# Results


def test_a_program_gives_its_output_the_end_of_its_stderr_and_how_long_it_took() -> None:
    output = attempt().run(python("import sys; print('ünder'); print('note', file=sys.stderr)"))
    assert (output.exit, output.stdout, output.text) == (0, "ünder\n".encode(), "ünder\n")
    assert (output.stderr, output.is_cut) == ("note", False)
    assert 0 < output.seconds < SOON


def test_outside_a_worker_both_forms_run_it() -> None:
    assert attempt().run(["echo", Path("a")]).text == "a\n"
    assert asyncio.run(attempt().run_async(["echo", Path("b")])).text == "b\n"


def test_no_shell_looks_at_the_arguments(tmp_path: Path) -> None:
    nasty = "a; $(touch pwned) `touch pwned` && *\n'"
    assert attempt().run(["printf", "%s", nasty], cwd=tmp_path).text == nasty
    assert list(tmp_path.iterdir()) == []


def test_cwd_env_and_input_are_those_given(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), dict(os.environ).get('HOME'), os.environ['MINE'], len(sys.stdin.read()))"
    output = attempt().run(python(code), cwd=tmp_path, env={"MINE": "1"}, input="x" * 1_000_000)
    assert output.text.split() == [str(tmp_path), "None", "1", "1000000"]
    assert attempt().run(["cat"]).stdout == b"", "without input there is nothing to read"
    assert attempt().run(["true"], input=b"y" * 1_000_000).exit == 0, "a program need not read it"


def test_output_can_go_to_a_file_instead(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        assert attempt().run(["echo", "kept"], stdout=file).stdout == b""
    assert (tmp_path / "out").read_text() == "kept\n"


def test_an_exit_status_can_be_accepted() -> None:
    assert attempt().run(["sh", "-c", "exit 3"], accept=(0, 3)).exit == 3


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "the list is empty"),
        ("ls -l", "there is no shell to split a string"),
        (["ls", 1], "1 is of type int; every item must be a string or a path"),
        (["ls", b"x"], "of type bytes"),
        (["ls", "a\0b"], "NUL"),
        ([""], "its first item, the program, is empty"),
        ({"ls"}, "give a list"),
    ],
)
def test_an_impossible_command_is_refused_before_anything_starts(argv: Any, said: str) -> None:
    with pytest.raises(BadProgram, match=said):
        attempt().run(argv)


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": "soon"}, {"env": {"A=B": "1"}}, {"env": {"A": 1}}, {"env": {"A": "\0"}}]
)
def test_invalid_options_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be run|duration"):
        attempt().run(["true"], **options)
    with pytest.raises(TypeError, match="shell"):
        attempt().run(["true"], shell=True)  # type: ignore[call-arg]


# Output


def test_a_line_ends_at_a_line_feed_or_a_carriage_return_wherever_it_was_cut() -> None:
    text = b"one\r\ntwo\rthree\r\rfour\n\nfi\xc3\xbcve"
    for size in range(1, len(text) + 1):
        lines = Lines()
        pieces = [piece for at in range(0, len(text), size) for piece in lines.feed(text[at : at + size])]
        found = [line for line, _ in [*pieces, *lines.close()] if line]
        assert found == ["one", "two", "three", "four", "fiüve"]


def test_the_tail_is_what_a_terminal_would_show_and_bounded() -> None:
    tail, lines = Tail(limit=40), Lines()
    for line, stays in [*lines.feed(b"start\r\nframe=1\rframe=2\rframe=3\nend"), *lines.close()]:
        tail.add(line, stays)
    assert tail.text == "start\nframe=3\nend"
    for number in range(1000):
        tail.add(f"line {number}", True)
    assert tail.text.splitlines()[-1] == "line 999"
    assert len(tail.text) <= 40


def test_an_endless_line_is_bounded() -> None:
    found = [line for line, _ in Lines().feed(b"x" * 1_000_000 + b"\n" + b"y" * 1_000_000)]
    assert 1_900_000 < sum(map(len, found)) <= 2_000_000
    assert max(map(len, found)) <= 8192
    head = Head(limit=10)
    head.add(b"12345678")
    assert not head.is_cut
    head.add(b"90ab")
    assert (head.bytes, head.is_cut) == (b"1234567890", True)


def test_much_output_on_both_streams_does_not_block_it() -> None:
    code = "import sys; [(sys.stdout.write('o' * 100_000), sys.stderr.write('e' * 99_999 + '\\n')) for _ in range(150)]"
    output = attempt().run(python(code))
    assert (len(output.stdout), output.is_cut) == (10 * 1024 * 1024, True)
    assert 0 < len(output.stderr) <= 16 * 1024


def test_progress_is_read_from_both_streams_and_shown_on_the_job(app: App) -> None:
    seen: list[str] = []
    go_on = threading.Event()

    def read(line: str) -> Any:
        seen.append(line)
        if line == "half":
            return 0.5, "half way"
        if line == "waiting":
            assert go_on.wait(SOON)
        return 0.25 if line == "quarter" else None

    @app.task
    async def convert() -> None:
        script = "printf 'quarter\\rhalf\\rwaiting\\n' >&2; echo; echo last"
        await attempt().run_async(["sh", "-c", script], progress=read)

    with working(app):
        job = convert.enqueue()
        eventually(lambda: app.job(job.id).progress == 0.5)
        go_on.set()
        app.wait(job, timeout=SOON)
    assert sorted(seen) == ["half", "last", "quarter", "waiting"]


@pytest.mark.parametrize("answer", ["raise", "nonsense"])
def test_an_error_in_progress_is_logged_and_the_program_continues(caplog: Any, answer: str) -> None:
    asked: list[str] = []

    def mistaken(line: str) -> Any:
        asked.append(line)
        return float("N/A") if answer == "raise" else "half"

    assert attempt().run(["sh", "-c", "echo 1; echo 2"], progress=mistaken).text == "1\n2\n"
    assert asked == ["1"]
    (record,) = [record for record in caplog.records if record.name == "mulligan.program"]
    assert record.levelno == logging.WARNING
    assert "progress= raised at line '1'" in record.getMessage()


def test_a_final_error_raised_by_progress_ends_the_program(tmp_path: Path) -> None:
    def strict(line: str) -> None:
        raise FinalError("this file is broken", code="BROKEN")

    with pytest.raises(FinalError, match="broken"):
        attempt().run(["sh", "-c", f"echo $$ > {tmp_path}/pid; echo line; sleep 600"], progress=strict)
    assert not any(map(is_alive, pids(tmp_path / "pid")))


# Failures


@pytest.mark.parametrize(
    ("script", "exit_", "signal_", "said"),
    [
        ("exit 3", 3, None, "'sh' failed: exit status 3"),
        ("kill -TERM $$", None, 15, "'sh' failed: signal 15, SIGTERM"),
        ("kill -KILL $$", None, 9, "'sh' was killed (signal 9, SIGKILL), and not by mulligan: most likely for lack of"),
        ("exit 137", 137, None, "'sh' was killed (exit status 137), and not by mulligan: most likely for lack of mem"),
    ],
)
def test_a_failure_says_how_it_ended(script: str, exit_: int | None, signal_: int | None, said: str) -> None:
    with pytest.raises(ProgramFailed) as raised:
        attempt().run(["sh", "-c", f"echo why >&2; {script}"])
    assert (raised.value.exit, raised.value.signal, raised.value.stderr) == (exit_, signal_, "why")
    assert said in str(raised.value)
    assert "why" not in str(raised.value)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["sh", "-c", "exit 137"], "OUT_OF_MEMORY"),
        (["sh", "-c", "kill -KILL $$"], "OUT_OF_MEMORY"),
        (["sh", "-c", "kill -SEGV $$"], "PROGRAM_CRASHED"),
        (["sh", "-c", "exit 1"], "PROGRAM_FAILED"),
        (["no-such-program-here"], "PROGRAM_MISSING"),
    ],
)
def test_each_way_to_fail_has_its_code_in_plain_and_async_tasks(app: App, argv: list[str], code: str) -> None:
    jobs = [task.enqueue() for task in both(app, lambda: (argv,), retry=ONCE)]
    app.run_until_idle(timeout=SOON)
    assert [app.job(job.id).error_code for job in jobs] == [code, code]


def test_a_program_out_of_time_is_a_retryable_timeout(app: App) -> None:
    @app.task
    def slow() -> None:
        attempt().run(["sh", "-c", "echo slow >&2; exec sleep 600"], timeout="300ms")

    job = slow.enqueue()
    app.run_until_idle(timeout=SOON)
    assert (app.job(job.id).state, app.job(job.id).waiting_for) == (State.WAITING, "retry")
    event = app.events(job.id)[-1]
    assert (event.code, event.data["class"]) == ("TIMEOUT", "retryable")
    assert "'sh' was killed: it had not ended after 300ms" in event.data["detail"]
    assert "slow" in event.data["detail"]
    with pytest.raises(TimeoutError) as raised:
        attempt().run(["sleep", "600"], timeout=0.1)
    assert isinstance(raised.value, ProgramTimedOut)
    assert Failure.of(raised.value).exit is None, "its failure is the timeout, not the kill"


def test_rules_see_exit_status_and_stderr_and_people_do_not(tmp_path: Path) -> None:
    rules = [Rule("NO_MOOV", "final", exit=1, message="moov atom not found")]
    with App(f"sqlite:///{tmp_path}/jobs.db", rules=rules) as app:

        @app.task
        async def probe() -> None:
            try:
                await attempt().run_async(["sh", "-c", "echo '[mov] moov atom not found' >&2; exit 1"])
            except ProgramFailed as error:
                raise error

        @app.task(retry=ONCE)
        def wrapped() -> None:
            try:
                attempt().run(["sh", "-c", "echo 'deep reason' >&2; exit 1"])
            except ProgramFailed as error:
                raise ValueError("could not convert") from error

        job, other = probe.enqueue(), wrapped.enqueue()
        app.run_until_idle(timeout=SOON)
        assert (app.job(job.id).error_code, app.job(job.id).attempt) == ("NO_MOOV", 1)
        assert "moov" not in (app.job(job.id).error_message or "")
        assert "moov atom not found" in app.events(job.id)[-1].data["detail"]
        assert "deep reason" in app.events(other.id)[-1].data["detail"]


def test_a_missing_folder_is_not_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        attempt().run(["true"], cwd=tmp_path / "nowhere")
    assert "_execute_child" not in Failure.of(raised.value).detail


# Cleanup


def test_processes_it_leaves_running_are_killed_and_do_not_block_the_task(tmp_path: Path) -> None:
    script = (
        f"sh -c 'echo $$ >> {tmp_path}/pids; exec sleep 600' & while [ ! -s {tmp_path}/pids ]; do :; done; echo done"
    )
    output = attempt().run(["sh", "-c", script])
    assert (output.text, output.seconds < SOON) == ("done\n", True)
    (pid,) = pids(tmp_path / "pids")
    eventually(lambda: not is_alive(pid))


def test_a_timeout_kills_all_processes_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "GRACE", 0.2)
    place = tmp_path / "pids"
    with pytest.raises(ProgramTimedOut):
        attempt().run(family(place), timeout=2)
    assert len(pids(place)) == 2
    eventually(lambda: not any(map(is_alive, pids(place))))


def test_a_program_that_is_asked_to_stop_has_time_to_clean_up(tmp_path: Path) -> None:
    script = f"trap 'echo cleaned > {tmp_path}/note; echo bye >&2; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    up = threading.Event()
    with pytest.raises(Interrupted):
        program.run(["sh", "-c", script], on_line=lambda _line: up.set(), is_stopped=up.is_set)
    assert (tmp_path / "note").read_text() == "cleaned\n"


@pytest.mark.parametrize("how", ["plain", "async"])
@pytest.mark.parametrize("why", ["cancel", "timeout", "shutdown", "lost"])
def test_whatever_stops_the_attempt_stops_its_program_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, why: str
) -> None:
    monkeypatch.setattr(program, "GRACE", 0.2)
    place = tmp_path / "pids"
    settings = Settings(database_url=f"sqlite:///{tmp_path}/jobs.db", worker_lease_ttl=timedelta(seconds=1))
    with App(settings=settings) as app:
        timeout = 3 if why == "timeout" else 600
        tasks = both(app, lambda: (family(place),), retry=ONCE, timeout=timeout)
        task = tasks[how == "async"]

        async def scene() -> None:
            worker = app.wiring.build_worker(1)
            running = asyncio.create_task(worker.run())
            job = task.enqueue()
            await asyncio.to_thread(eventually, lambda: len(pids(place)) == 2)
            match why:
                case "cancel":
                    app.cancel(job.id)
                case "shutdown":
                    worker.stop()
                    worker.stop()
                case "lost":
                    take_away(app, tmp_path)
            await asyncio.to_thread(eventually, lambda: not any(map(is_alive, pids(place))))
            await asyncio.to_thread(eventually, lambda: app.job(job.id).state is not State.RUNNING)
            worker.stop()
            worker.stop()
            await running
            expected = {"cancel": State.CANCELLED, "timeout": State.FAILED, "shutdown": State.QUEUED}
            assert app.job(job.id).state is expected.get(why, app.job(job.id).state)
            assert app.job(job.id).error_code == ("TIMEOUT" if why == "timeout" else None)

        asyncio.run(scene())


def take_away(app: App, tmp_path: Path) -> None:
    """Another worker took the lease and snoozed the job for long."""
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("UPDATE mulligan_jobs SET lease_until = 1")
        connection.commit()
    (lease,) = app.store.adopt(app.workers()[0].incarnation, before=10**6, held=[])
    outcome = Outcome(lease, Cancel({"why": "test"}), reclaimed_by="another")
    assert app.store.settle([outcome]) == [Settled.ACCEPTED]


def test_a_program_left_in_the_background_ends_with_its_task(app: App, tmp_path: Path) -> None:
    place, left = tmp_path / "pids", []

    @app.task
    async def careless() -> None:
        left.append(asyncio.ensure_future(attempt().run_async(family(place))))
        await asyncio.to_thread(eventually, lambda: len(pids(place)) == 2)

    careless.enqueue()
    with working(app):
        eventually(lambda: app.store.counts() == {"careless": {"succeeded": 1}})
        eventually(lambda: not any(map(is_alive, pids(place))))
        eventually(lambda: left[0].done())


def test_a_task_that_was_stopped_starts_no_further_program(app: App, tmp_path: Path) -> None:
    started, touched = threading.Event(), tmp_path / "touched"

    @app.task
    def stubborn() -> None:
        try:
            started.set()
            while True:
                time.sleep(0.01)
        finally:
            attempt().run(["touch", touched])

    with working(app):
        job = stubborn.enqueue()
        assert started.wait(SOON)
        app.cancel(job.id)
        eventually(lambda: app.job(job.id).state is State.CANCELLED)
    assert not touched.exists()


def test_interruptions_at_any_moment_leave_no_program_behind(tmp_path: Path) -> None:
    """Raising in the middle of a start would leave a program, so nothing is raised in a thread that runs one."""
    for number in range(60):
        stopped = threading.Event()
        ended: list[Any] = []

        def body(stopped: threading.Event = stopped, ended: list[Any] = ended, number: int = number) -> None:
            try:
                while True:
                    program.run(["sleep", f"{600 + number}.25"], is_stopped=stopped.is_set)
            except BaseException as error:
                ended.append(type(error))

        thread = threading.Thread(target=body)
        thread.start()
        stopped.wait(0.0003 * number)
        stopped.set()
        interrupt(thread)
        thread.join(SOON)
        assert ended == [Interrupted]
    assert not running_programs(".25")


def running_programs(mark: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = place.read_text().split("\0")
            if command[0] == "sleep" and command[1].endswith(mark):
                found.append(" ".join(command))
    return found


KILLED = """
    import sys
    from pathlib import Path
    from mulligan import App, attempt

    app = App(sys.argv[1])

    @app.task
    def convert() -> None:
        attempt().run(sys.argv[3:], progress=lambda line: Path(sys.argv[2]).touch())

    app.run()
"""


def test_a_worker_that_is_killed_takes_its_programs_with_it(app: App, tmp_path: Path) -> None:
    script, place, read = tmp_path / "killed.py", tmp_path / "pids", tmp_path / "read"
    script.write_text(textwrap.dedent(KILLED))
    app.task("convert")(lambda: None).enqueue()
    shell, option, commands, *rest = family(place)
    program = [shell, option, f"echo ready; {commands}", *rest]
    worker = subprocess.Popen([sys.executable, script, f"sqlite:///{tmp_path}/jobs.db", read, *program])
    # Its output is read only once the warden knows of it.
    eventually(lambda: read.exists() and len(pids(place)) == 2)
    worker.kill()
    worker.wait()
    eventually(lambda: not any(map(is_alive, pids(place))))


def test_a_warden_that_was_killed_is_replaced(tmp_path: Path) -> None:
    attempt().run(["true"])
    first = WARDEN._pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not is_alive(first))
    attempt().run(["true"])
    assert WARDEN._pid not in (None, first)
    assert is_alive(WARDEN._pid or 0)


# Where it may be called


def test_blocking_the_event_loop_is_refused_with_the_alternative(app: App) -> None:
    said: list[str] = []

    @app.task
    async def mistaken() -> str:
        with pytest.raises(RuntimeError, match=r"use .await attempt\(\)\.run_async") as raised:
            attempt().run(["true"])
        said.append(str(raised.value))
        return (await asyncio.to_thread(attempt().run, ["echo", "aside"])).text

    job = mistaken.enqueue()
    app.run_until_idle(timeout=SOON)
    assert app.wait(job) == "aside\n"
    assert said


def test_in_a_sandbox_programs_run_for_real_and_virtual_time_does_not_run_out(app: App) -> None:
    async def fluid() -> Output:
        return await attempt().run_async(["sh", "-c", "sleep 0.2; echo real"], timeout="1m")

    @app.task(timeout="2m")
    async def swift() -> str:
        return (await fluid()).text

    @app.task(timeout="2m")
    def steady() -> str:
        return attempt().run(["sh", "-c", "sleep 0.2; echo real"], timeout="1m").text

    with sandbox(app) as box:
        jobs = [swift.enqueue(), steady.enqueue()]
        before = box.now
        box.run()
        assert [app.wait(job) for job in jobs] == ["real\n", "real\n"]
        assert box.now - before < timedelta(seconds=30)


# The fence


def test_the_fence_is_the_attempts_number_in_plain_and_async_tasks(app: App) -> None:
    @app.task
    def plain() -> int:
        return attempt().fence()

    @app.task
    async def fluid() -> int:
        return await attempt().fence_async()

    jobs = [plain.enqueue(), fluid.enqueue()]
    app.run_until_idle(timeout=SOON)
    assert [app.wait(job) for job in jobs] == [1, 1]
    assert attempt().fence() == 0, "outside a worker nothing is fenced"


def test_a_lost_lease_has_no_fence(app: App, tmp_path: Path) -> None:
    caught: list[BaseException] = []

    @app.task
    def late() -> None:
        take_away(app, tmp_path)
        for _ in range(2):
            try:
                attempt().fence()
            except BaseException as error:
                caught.append(error)
        assert attempt().lost

    late.enqueue()
    with working(app):
        eventually(lambda: len(caught) == 2)
    assert [type(error).__name__ for error in caught] == ["LeaseLost", "LeaseLost"]
    assert "attempt 1 of job" in str(caught[0])
