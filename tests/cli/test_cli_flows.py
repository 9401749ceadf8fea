"""The main workflows, with the real command and a real database file."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulligan import App, State

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_worker_runs_jobs_and_ends_cleanly_on_sigterm(
    start: Callable[..., Any], shop: str, works: App, enqueue: Callable[..., str], until: Callable[..., Any]
) -> None:
    job = enqueue("fine")
    worker = start("worker", shop, "--concurrency", "3", "--queues", "default,bulk")
    assert worker.line() == (
        "Worker for 2 tasks (convert, mark) on queues default, bulk, 3 jobs at a time, database sqlite:///jobs.db. "
        "Ctrl-C stops it.\n"
    )
    until(lambda: works.job(job).state is State.SUCCEEDED, "the job's success")
    worker.send(signal.SIGTERM)
    code, logged = worker.end()
    assert code == 0
    assert "no queue is named 'bulk'; known are: 'default'; only options(queue='bulk')" in logged
    assert "no queue is named 'default'" not in logged
    assert works.workers() == []


def test_a_worker_logs_in_the_configured_format(
    start: Callable[..., Any],
    shop: str,
    works: App,
    enqueue: Callable[..., str],
    until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MULLIGAN_LOG_FORMAT", "json")
    job = enqueue("bad")
    worker = start("worker", shop, "--json")
    assert json.loads(worker.line())["worker"]["kinds"] == ["convert", "mark"]
    until(lambda: works.job(job).state is State.FAILED, "the job's failure")
    worker.send(signal.SIGTERM)
    code, logged = worker.end()
    assert code == 0
    lines = [json.loads(line) for line in logged.splitlines()]
    assert any(line["level"] == "WARNING" and job in line["message"] for line in lines)


def test_a_failed_job_is_found_explained_and_retried(command: Run, enqueue: Callable[..., str], works: App) -> None:
    job = enqueue("bad", run=True)
    database = ("--database", "sqlite:///jobs.db")
    listed = command("jobs", "list", "--state", "failed", *database)
    assert job[-12:] in listed.stdout
    assert "NOT_PDF: not a PDF" in listed.stdout
    explained = command("jobs", "explain", job, *database)
    assert "no retry follows, because NOT_PDF is final: a retry cannot help" in explained.stdout
    assert f"mulligan jobs retry {job}" in explained.stdout
    retried = command("jobs", "retry", job, "--actor", "anna", "--reason", "mended", *database)
    assert (retried.returncode, retried.stderr) == (0, "")
    assert f"{job} is queued." in retried.stdout
    (asked,) = [event for event in works.events(job) if event.type == "job.retry_requested"]
    assert (asked.actor, asked.data["reason"]) == ("anna", "mended")


def test_exit_codes_distinguish_done_wrong_usage_not_found_and_not_now(
    command: Run, enqueue: Callable[..., str]
) -> None:
    done = enqueue("fine", run=True)
    database = ("--database", "sqlite:///jobs.db")
    codes = {
        "done": command("jobs", "show", done, *database).returncode,
        "usage": command("jobs", "snooze", done, "soon", *database).returncode,
        "not found": command("jobs", "cancel", "nobody", *database).returncode,
        "not now": command("jobs", "cancel", done, *database).returncode,
    }
    assert codes == {"done": 0, "usage": 2, "not found": 4, "not now": 5}


def test_follow_prints_new_events_and_ends_on_ctrl_c(start: Callable[..., Any], enqueue: Callable[..., str]) -> None:
    first = enqueue("fine")
    program = start("events", "--follow", "--json", "--database", "sqlite:///jobs.db")
    assert json.loads(program.line())["job"] == first
    second = enqueue("fine")
    seen = json.loads(program.line())
    assert (seen["type"], seen["job"]) == ("job.enqueued", second)
    program.send(signal.SIGINT)
    assert program.end() == (0, "")


def test_follow_ends_when_its_reader_has_closed_the_pipe(
    start: Callable[..., Any], enqueue: Callable[..., str]
) -> None:
    enqueue("fine")
    program = start("events", "--follow", "--database", "sqlite:///jobs.db")
    assert "job.enqueued" in program.line()
    program.process.stdout.close()
    assert program.end() == (0, "")


@pytest.mark.parametrize("arguments", [("jobs", "list"), ("events", "--follow"), ("events", "--json")])
def test_a_closed_pipe_is_not_an_error(
    arguments: tuple[str, ...], start: Callable[..., Any], enqueue: Callable[..., str], closed_pipe: int
) -> None:
    enqueue("fine")
    program = start(*arguments, "--database", "sqlite:///jobs.db", stdout=closed_pipe)
    assert program.end() == (0, "")


def test_a_schedule_is_printed_attempt_by_attempt(command: Run, shop: str) -> None:
    printed = command("policies", "schedule", "mark", "--app", shop)
    assert printed.returncode == 0, printed.stderr
    rows = [line.split() for line in printed.stdout.splitlines()]
    assert ["1", "retry", "1m", "1m"] in rows
    assert ["2", "retry", "5m", "6m"] in rows
    assert ["3", "retry", "15m", "21m"] in rows
    assert ["4", "fails", "for", "good", "21m"] in rows


def test_reading_creates_no_database(command: Run, shop: str, tmp_path: Path) -> None:
    nothing = command("jobs", "list")
    assert nothing.returncode == 2
    assert "neither an app nor a database is named" in nothing.stderr
    of_app = command("jobs", "list", "--app", shop)
    assert of_app.returncode == 0
    assert "No jobs yet." in of_app.stdout
    assert not list(tmp_path.glob("*.db*"))
