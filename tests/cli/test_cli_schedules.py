"""`mulligan schedules`: list, pause, run and remove, as text and as JSON."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from mulligan import App

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]
CLOCKWORK = """
from mulligan import App

app = App("sqlite:///jobs.db")


@app.cron("30 2 * * *", name="nightly", timezone="Europe/Berlin")
@app.cron("*/5 * * * *", args=["us"], missed="skip")
@app.task
def report(region: str = "eu") -> None: ...
"""
HERE = ("--database", "sqlite:///jobs.db")
THERE = ("--app", "clockwork:app")


@pytest.fixture(autouse=True)
def clockwork(app: App, tmp_path: Any) -> None:
    (tmp_path / "clockwork.py").write_text(CLOCKWORK)
    app.migrate()


def test_schedules_are_listed_with_their_next_ticks(invoke: Invoke, read_json: ReadJson) -> None:
    lines = invoke("schedules", *THERE).stdout.splitlines()
    assert lines[0].split() == ["Schedule", "Task", "Expression", "Zone", "Last", "Next", "About"]
    assert lines[1].startswith("nightly   report  30 2 * * *   Europe/Berlin  never")
    nightly, report = read_json(invoke("schedules", "--json", *THERE))["schedules"]
    assert (nightly["name"], nightly["timezone"], nightly["missed"]) == ("nightly", "Europe/Berlin", "once")
    assert (report["expression"], report["missed"], len(report["next"])) == ("*/5 * * * *", "skip", 3)
    assert (report["last_job"], report["paused"], report["is_orphaned"]) == (None, None, False)


def test_an_empty_list_of_schedules_says_how_to_create_one(invoke: Invoke) -> None:
    assert invoke("schedules", *HERE).stdout.startswith("No schedules. Put @app.cron above @app.task")


@pytest.mark.parametrize("words", [("schedules", "pause", "nightly"), ("pause", "--schedule", "nightly")])
def test_a_schedule_is_paused_for_a_while_and_resumed(
    invoke: Invoke, read_json: ReadJson, words: tuple[str, ...]
) -> None:
    said = invoke(*words, "--for", "30m", "--actor", "ann", "--reason", "a move", *THERE)
    assert said.exit_code == 0
    assert said.stdout.startswith("nightly is paused until ")
    assert said.stdout.endswith('(in 30m) by ann because "a move".\n')
    assert 'by ann because "a move"' in invoke("schedules", *THERE).stdout
    nightly, report = read_json(invoke("schedules", "--json", *THERE))["schedules"]
    assert (nightly["paused"]["actor"], report["paused"]) == ("ann", None)
    assert "schedule.paused" in invoke("events", *HERE).stdout
    again = ("resume", *words[1:]) if words[0] == "pause" else ("schedules", "resume", "nightly")
    assert invoke(*again, *THERE).stdout == "nightly is resumed.\n"
    assert "was not paused" in invoke(*again, *THERE).stdout


def test_the_list_says_when_none_of_them_runs(invoke: Invoke) -> None:
    invoke("duties", "pause", "schedule", "--actor", "ann", *THERE)
    said = invoke("schedules", *THERE).stdout
    assert said.endswith("\n\nNone of them runs: the duty 'schedule' is paused until it is resumed by ann.\n")


def test_a_schedule_is_run_manually(invoke: Invoke, app: App, read_json: ReadJson) -> None:
    job = read_json(invoke("schedules", "run", "nightly", "--actor", "ann", "--json", *THERE))
    assert (job["kind"], job["state"], job["tags"]) == ("report", "queued", ["schedule:nightly"])
    said = invoke("schedules", "run", "nightly", *THERE).stdout
    assert said.startswith("nightly was enqueued now as job ")
    nightly, _ = read_json(invoke("schedules", "--json", *THERE))["schedules"]
    assert nightly["last_job"] in said
    assert nightly["last_state"] == "queued"


def test_only_an_orphaned_schedule_is_removed(invoke: Invoke, app: App) -> None:
    invoke("duties", "run", "schedule", *THERE)
    refused = invoke("schedules", "remove", "nightly", "--json", *THERE)
    assert refused.exit_code == 5
    assert json.loads(refused.stderr)["error"]["type"] == "ScheduleInUse"
    app.store._database.write(  # type: ignore[attr-defined]
        lambda db: db.execute("UPDATE mulligan_schedules SET seen_at = seen_at - 300000000")
    )
    assert "no code defines it any more" in invoke("schedules", *HERE).stdout
    assert invoke("schedules", "remove", "nightly", *HERE).stdout == "nightly was removed; its jobs stay.\n"
    assert [record.name for record in app.store.schedules()] == ["report"]


def test_a_manual_run_needs_the_app(invoke: Invoke) -> None:
    invoke("duties", "run", "schedule", *THERE)
    refused = invoke("schedules", "run", "nightly", *HERE)
    assert refused.exit_code == 2
    assert "name its app with --app" in refused.stderr


@pytest.mark.parametrize("verb", ["run", "pause", "resume", "remove"])
def test_an_unknown_schedule_is_not_found(invoke: Invoke, verb: str) -> None:
    refused = invoke("schedules", verb, "weekly", *THERE)
    assert refused.exit_code == 4
    assert "no schedule is named 'weekly'; known are: 'nightly', 'report'" in refused.stderr


@pytest.mark.parametrize("words", [(), ("--duty", "retry", "--schedule", "nightly")])
@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_one_thing_is_paused_at_a_time(invoke: Invoke, verb: str, words: tuple[str, ...]) -> None:
    refused = invoke(verb, *words, *THERE)
    assert refused.exit_code == 2
    assert "or --schedule NAME or --intake NAME." in refused.stderr
