"""`mulligan redrive`: preview, start, follow and cancel, as text and as JSON."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from live import working
from mulligan import App, JobFilter, State

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]
PATIENCE = 20.0
HERE = ("--database", "sqlite:///jobs.db")
ALL = ("redrive", "--code", "NOT_PDF", *HERE)


@pytest.fixture
def failed(enqueue: Enqueue) -> list[str]:
    enqueue("fine", run=True)
    return [enqueue("bad", run=True, owner=owner) for owner in ("acme", "other", "other")]


def begun(invoke: Invoke, read_json: ReadJson, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = read_json(invoke(*ALL, "--yes", "--json", *more))
    return found


def test_a_preview_counts_and_changes_nothing(
    invoke: Invoke, works: App, failed: list[str], read_json: ReadJson
) -> None:
    shown = invoke(*ALL, "--preview").stdout
    assert "convert  NOT_PDF  3" in shown and "3 jobs would be retried, at most 50/s, the first 5 alone." in shown
    assert "alone.\n\nFor example: " in shown and "\\n" not in shown
    assert "Nothing was changed." in shown
    found = read_json(invoke(*ALL, "--owner", "other", "--preview", "--json"))
    assert (found["is_dry"], found["matched"], found["sample"]) == (True, 2, failed[1:])
    assert found["matches"] == [{"kind": "convert", "code": "NOT_PDF", "number": 2}]
    assert found["filter"] == {"state": "failed", "code": "NOT_PDF", "owner": "other"}
    assert works.redrives() == [] and {works.job(job).state for job in failed} == {State.FAILED}


@pytest.mark.parametrize("sure", [(), ("--yes",), ("--yes", "--follow"), ("--yes", "--request-id", "incident-7")])
def test_without_matches_no_redrive_begins(
    invoke: Invoke, works: App, failed: list[str], read_json: ReadJson, sure: tuple[str, ...]
) -> None:
    none = ("redrive", "--code", "NONE", *sure, *HERE)
    assert invoke(*none).stdout == "No job matches.\n"
    assert read_json(invoke(*none, "--json"))["id"] == ""
    assert works.redrives() == []


def test_a_request_id_is_refused_for_other_jobs(invoke: Invoke, works: App, failed: list[str]) -> None:
    assert invoke(*ALL, "--request-id", "incident-7", "--yes").exit_code == 0
    refused = invoke("redrive", "--owner", "other", "--request-id", "incident-7", "--yes", *HERE)
    assert refused.exit_code == 5 and "use another request id to start a new one" in refused.stderr
    assert len(works.redrives()) == 1


@pytest.mark.parametrize("other", [("--rate", "100/s"), ("--canary", "4"), ("--abort-above", "0.4")])
def test_a_request_id_is_refused_for_other_terms(
    invoke: Invoke, works: App, failed: list[str], other: tuple[str, ...]
) -> None:
    assert invoke(*ALL, "--request-id", "incident-7", "--yes").exit_code == 0
    refused = invoke(*ALL, "--request-id", "incident-7", "--yes", *other)
    assert refused.exit_code == 5
    assert "which has other terms (rate 50/s, canary 5, abort_above 0.5); repeat the same call" in refused.stderr
    (one,) = works.redrives()
    assert (str(one.rate), one.canary, one.abort_above) == ("50/s", 5, 0.5)


def test_a_person_is_asked_for_confirmation(invoke: Invoke, works: App, failed: list[str]) -> None:
    refused = invoke(*ALL)
    assert refused.exit_code == 2 and "add --yes" in refused.stderr
    shown = in_terminal(*ALL, typed="n\n")
    assert "Retry 3 jobs at 50/s? [y/N]" in shown and "Nothing was changed." in shown
    assert works.redrives() == []
    assert "has begun: 3 jobs, at most 50/s, the first 5 alone." in in_terminal(*ALL, typed="y\n")
    assert len(works.redrives()) == 1


def in_terminal(*words: str, typed: str = "") -> str:
    """Run the command in its own terminal and return what it shows."""
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "mulligan", *words], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    with contextlib.suppress(OSError):
        while part := os.read(ours, 4_096):
            shown += part
    os.close(ours)
    assert program.wait(PATIENCE) == 0, shown.decode()
    return shown.decode()


def test_a_redrive_is_started_listed_shown_and_carried_out_by_workers(
    invoke: Invoke, works: App, failed: list[str], read_json: ReadJson
) -> None:
    said = invoke(*ALL, "--yes", "--actor", "ann", "--reason", "rules changed", "--rate", "10/s").stdout
    assert "has begun: 3 jobs" in said and "none is running" in said
    (one,) = works.redrives()
    assert f"mulligan redrive show {one.id}" in said
    assert one.id[-12:] in invoke("redrive", "list", *HERE).stdout
    shown = invoke("redrive", "show", one.id, *HERE).stdout
    assert "canary" in shown and "ann: rules changed" in shown and "code NOT_PDF" in shown
    works.tick()
    shown = read_json(invoke("redrive", "show", one.id, "--json", *HERE))
    assert (shown["state"], shown["retried"], shown["skipped"], shown["kinds_left"]) == ("done", 3, {}, [])
    assert "course" not in shown
    listed = read_json(invoke("redrive", "list", "--json", *HERE))["redrives"]
    assert listed == [shown]
    assert "redrive.finished" in invoke("events", *HERE).stdout


def test_the_same_request_id_returns_the_same_redrive(invoke: Invoke, failed: list[str], read_json: ReadJson) -> None:
    first = begun(invoke, read_json, "--request-id", "incident-7")
    assert begun(invoke, read_json, "--request-id", "incident-7") == first | {"is_repeated": True}
    assert first["request_id"] == "incident-7"
    said = invoke(*ALL, "--yes", "--request-id", "incident-7").stdout
    assert f"Redrive {first['id']} exists already with this request id: 3 jobs, at most 50/s" in said
    assert "has begun" not in said and "It is canary." in said
    for words in (("list",), ("show", first["id"])):
        assert "incident-7" in invoke("redrive", *words, *HERE).stdout


def test_a_redrive_is_cancelled_once(invoke: Invoke, works: App, failed: list[str], read_json: ReadJson) -> None:
    one = begun(invoke, read_json)
    enough = ("--reason", "enough", "--actor", "ann", *HERE)
    assert "is cancelled: 0 of 3 jobs retried." in invoke("redrive", "cancel", one["id"], *enough).stdout
    assert "cancelled: by ann: enough" in invoke("redrive", "show", one["id"], *HERE).stdout
    again = invoke("redrive", "cancel", one["id"], "--actor", "bob", *HERE)
    assert (again.exit_code, "was cancelled earlier (by ann: enough): 0 of 3" in again.stdout) == (0, True)
    assert read_json(invoke("redrive", "cancel", one["id"], "--json", *HERE))["state"] == "cancelled"
    other = begun(invoke, read_json)
    works.tick()
    refused = invoke("redrive", "cancel", other["id"], *HERE)
    assert refused.exit_code == 5 and "it is done" in refused.stderr


@pytest.mark.parametrize("verb", ["show", "cancel"])
def test_a_missing_redrive_is_not_found(invoke: Invoke, failed: list[str], verb: str) -> None:
    refused = invoke("redrive", verb, "nobody", "--json", *HERE)
    assert refused.exit_code == 4
    assert json.loads(refused.stderr)["error"]["type"] == "RedriveNotFound"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "select jobs"),
        (("--code", "X", "--rate", "fast", "--yes"), "is not a rate"),
        (("--state", "queued", "--yes"), "only jobs that are over"),
        (("--code", "X", "--canary", "101"), "0<=x<=100"),
        (("--code", "X", "--abort-above", "2"), "0<=x<=1"),
    ],
)
def test_impossible_terms_are_wrong_usage(invoke: Invoke, failed: list[str], words: tuple[str, ...], said: str) -> None:
    refused = invoke("redrive", *words, *HERE)
    assert refused.exit_code == 2 and said in refused.stderr


def test_the_help_explains_a_redrive(invoke: Invoke) -> None:
    shown = invoke("redrive", "--help").stdout
    for word in ("canaries", "--preview", "--abort-above", "mulligan redrive list", "15 minutes", "survives"):
        assert word in shown


def test_follow_prints_a_line_for_each_change_and_ends_with_the_redrive(
    invoke: Invoke, works: App, failed: list[str], read_json: ReadJson
) -> None:
    one = begun(invoke, read_json)
    with working(works):
        followed = invoke("redrive", "show", one["id"], "--follow", *HERE)
    assert followed.exit_code == 0
    assert followed.stdout.splitlines()[-1] == "done: 3 of 3 retried"
    lines = invoke("redrive", "show", one["id"], "--follow", "--json", *HERE).stdout.splitlines()
    assert [json.loads(one)["state"] for one in lines] == ["done"]


def test_follow_exits_with_5_if_the_redrive_stops(invoke: Invoke, works: App, enqueue: Enqueue) -> None:
    for _ in range(8):
        enqueue("bad", run=True)
    with working(works):
        followed = invoke(*ALL, "--yes", "--canary", "2", "--follow")
    assert followed.exit_code == 5
    last = followed.stdout.splitlines()[-1]
    assert last.startswith("stopped: 2 of 8 retried, 2 did not, 2 of 2 canaries did not succeed")


def test_a_terminal_shows_a_progress_bar(works: App, failed: list[str]) -> None:
    one = works.redrive(JobFilter(code="NOT_PDF"))
    works.tick()
    shown = in_terminal("redrive", "show", one.id, "--follow", *HERE)
    assert "━" in shown and "100%" in shown and "done: 3 of 3" in shown


def test_ctrl_c_does_not_stop_the_redrive(works: App, failed: list[str], start: Callable[..., Any]) -> None:
    one = works.redrive(JobFilter(code="NOT_PDF"))
    program = start("redrive", "show", one.id, "--follow", *HERE)
    assert program.line() == "canary: 0 of 3 retried\n"
    program.send(signal.SIGINT)
    assert program.line() == "\n"
    assert "The redrive goes on" in program.line()
    assert program.end() == (0, "")
    assert not works.redrive_status(one.id).state.is_over
