"""`runs status` and `runs retry`, and a worker that is killed: as processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from apps.runs.__main__ import runs
from click.testing import CliRunner, Result
from runs_world import HUNDREDTH, World, honest

from apps.runs import reports
from live import eventually
from mulligan import JobFilter

ROOT = Path(__file__).parents[3]


def _arguments(world: World, *arguments: str) -> list[str]:
    place = ["--config", str(world.file), "--url", world.app.settings.database_url]
    return [sys.executable, "-m", "apps.runs", *place, *arguments]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "USER": "ann"}


def run(world: World, *arguments: str) -> Result:
    """In this process: starting a new one takes longer than the command."""
    place = ["--config", str(world.file), "--url", world.app.settings.database_url]
    return CliRunner(env={"USER": "ann"}).invoke(runs, [*place, *arguments])


@contextmanager
def served(world: World, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    options = ["serve", "--port", "0", *arguments]
    with subprocess.Popen(
        _arguments(world, *options),
        env=_environment() | {"MULLIGAN_WORKER_LEASE_TTL_SEC": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)


@pytest.fixture
def failed_of_each_store(world: World) -> World:
    return _fail(world)


@pytest.fixture
def failed(quick_world: World) -> World:
    return _fail(quick_world)


def _fail(world: World) -> World:
    """One run failed for good, one waits for its retry, one passed, and one is of a category that is not allowed."""
    world.submit(honest("broken"), honest("waiting"), honest("fine"))
    world.break_answers("garbage", run="broken")
    world.break_answers("broken", run="waiting")
    world.verify_all()
    world.submit(honest("stranded", "taxi"))
    world.app.pause(kind="verify", actor="test")
    world.poll()
    world.app.run_until_idle(timeout="30s")
    world.app.resume(kind="verify", actor="test")
    world.configure(categories=["frozen-lake"])
    return world


def test_r5_status_shows_numbers_classes_and_next_retries(failed_of_each_store: World) -> None:
    failed = failed_of_each_store
    told = run(failed, "status")
    assert told.exit_code == 0, told.stderr
    lines = told.stdout.splitlines()
    assert [line.split() for line in lines[:6]] == [
        ["Discovered", "1"],
        ["Processing", "0"],
        ["Passed", "0"],
        ["NeedsReview", "1"],
        ["Failed", "0"],
        ["Error", "2"],
    ]
    assert "taxi: 1 not claimed, the category is no longer allowed" in lines
    rows = {line.split()[0]: line for line in lines[8:] if line}
    assert "final" in rows["broken"] and "REPLAY_INVALID" in rows["broken"]
    assert "retryable" in rows["waiting"] and "1/7" in rows["waiting"]
    assert f"{failed.job('waiting').due_at:%Y-%m-%d %H:%M:%S}Z" in rows["waiting"]


def test_r5_status_as_json(failed: World) -> None:
    told = json.loads(run(failed, "status", "--json", "--word", "NeedsReview").stdout)
    assert told["words"] == {
        "Discovered": 1,
        "Processing": 0,
        "Passed": 0,
        "NeedsReview": 1,
        "Failed": 0,
        "Error": 2,
    }
    assert told["no_longer_allowed"] == {"taxi": 1}
    (fine,) = told["runs"]
    assert (fine["id"], fine["status"], fine["error_class"], fine["next_retry_at"]) == (
        *("fine", "NeedsReview"),
        *(None, None),
    )


def test_r2_retry_starts_a_failed_run_again(failed_of_each_store: World) -> None:
    failed = failed_of_each_store
    told = run(failed, "retry", "broken", "--reason", "the replay was mended")
    assert (told.exit_code, told.stdout) == (0, "Retry queued for broken.\n")
    failed.app.run_until_idle(timeout="30s")
    assert failed.outcome("broken") == "Passed"
    (event,) = [each for each in failed.app.events(failed.job("broken").id) if each.type == "job.retry_requested"]
    assert (event.actor, event.data["reason"]) == ("ann", "the replay was mended")


def test_r2_retry_replaces_a_waiting_retry(failed: World) -> None:
    assert run(failed, "retry", "waiting").exit_code == 0
    failed.app.run_until_idle(timeout="30s")
    assert (failed.outcome("waiting"), failed.board.fetched.count("waiting")) == ("Passed", 2)


def test_r2_retry_of_all_that_failed_for_good(failed: World) -> None:
    told = run(failed, "retry", "--all", "--class", "final")
    assert (told.exit_code, told.stdout) == (0, "Retry queued for broken.\n")
    assert run(failed, "retry", "--all", "--class", "final").stdout == "No run has failed for good.\n"


def test_r2_retry_of_all_leaves_out_what_cannot_be_read(failed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And finds those beyond one page."""
    failed.board.add("frozen-lake", {"id": "unreadable", "category": "frozen-lake"}, "unreadable", b"")
    failed.submit(honest("second"))
    failed.break_answers("garbage", run="second")
    failed.verify_all()
    monkeypatch.setattr(reports, "PAGE", 1)
    told = run(failed, "retry", "--all")
    assert (told.exit_code, told.stderr) == (0, "")
    assert sorted(told.stdout.splitlines()) == ["Retry queued for broken.", "Retry queued for second."]


def test_r2_a_run_whose_job_was_deleted_keeps_no_other_from_being_retried(failed: World) -> None:
    failed.app.purge(JobFilter(state="succeeded", kind="verify"), older_than=0, dry_run=False, actor="ann")
    told = run(failed, "retry", "fine", "broken")
    assert (told.exit_code, told.stdout) == (5, "Retry queued for broken.\n")
    assert told.stderr == "fine is not retried: its history was deleted by the retention of jobs\n"


def test_retry_says_what_is_not_possible(failed: World) -> None:
    unknown = run(failed, "retry", "nothing")
    assert (unknown.exit_code, unknown.stderr) == (4, "There is no run 'nothing'.\n")
    done = run(failed, "retry", "fine")
    assert (done.exit_code, "fine is not retried" in done.stderr) == (5, True)
    assert run(failed, "retry").exit_code == 2
    assert run(failed, "retry", "fine", "--all").exit_code == 2


def test_a_missing_configuration_is_said_in_one_line(quick_world: World) -> None:
    quick_world.file.unlink()
    told = run(quick_world, "status")
    assert (told.exit_code, told.stderr.count("\n")) == (2, 1)
    assert "No such file" in told.stderr


def test_r1_a_worker_that_is_killed_loses_no_run(world: World) -> None:
    """Killed while it waits for a replay; another worker takes the run over, and no attempt is charged."""
    world.configure(retry=HUNDREDTH)
    world.submit(*(honest(f"run-{number}", seed=number) for number in range(10)))
    world.break_answers("silent", run="run-3", times=1)
    with served(world) as process:
        assert process.stdout is not None
        assert httpx2.get(process.stdout.readline().split()[-1], trust_env=False).status_code == 200
        world.poll()
        eventually(lambda: world.number_stored() == 10 and "run-3" in world.board.fetched)
        eventually(lambda: world.job("run-3").state == "running")
        process.send_signal(signal.SIGKILL)
        process.wait()
    with served(world) as process:
        assert process.stdout is not None and process.stdout.readline().startswith("Open ")
        eventually(lambda: world.app.counts(JobFilter(kind="verify")).groups == {"succeeded": 10}, seconds=60)
    assert all(world.outcome(run) for run in world.stored())
    assert (world.job("run-3").failures, world.job("run-3").attempt) == (0, 2)


def test_without_a_command_a_leaderboard_is_served_too(tmp_path: Path) -> None:
    """And SIGTERM ends everything cleanly."""
    port = _free_port()
    place = ["--config", str(tmp_path / "new.yaml"), "--url", f"sqlite:///{tmp_path}/new.db"]
    options = ["--port", "0", "--leaderboard-port", str(port)]
    with subprocess.Popen(
        [sys.executable, "-m", "apps.runs", *place, *options],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[0].startswith("Wrote ") and str(port) in lines[1]
        address = lines[2].split()[-1]
        with httpx2.Client(base_url=address, trust_env=False) as client:
            eventually(lambda: client.get("/runs/run-00001").status_code == 200)
            assert "run-00001" in client.get("/").text
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
