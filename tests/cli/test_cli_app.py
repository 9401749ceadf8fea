"""The app and the database of a command, and the errors for wrong names."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mulligan import App

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]

MODULES = {
    "plain": "x = 1",
    "two": "from mulligan import App\nfirst = App('sqlite:///a.db')\nsecond = App('sqlite:///b.db')\nthing = 'app'",
    "leaking": "raise ValueError('password=hunter2')",
    "needy": "import requests_of_nowhere",
    "broken": "def f(:",
    "raising": "\n\nraise ValueError('no configuration')",
    "leaving": "import sys\nsys.exit(3)",
    "unset": "from mulligan import App\napp = App(settings=None)\n",
    "empty": "from mulligan import App\napp = App('sqlite:///jobs.db')",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "tasks.py").write_text(MODULES["two"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("plain", "'plain' does not name an app: write MODULE:APP, such as 'shop.tasks:app'"),
        (":app", "':app' does not name an app"),
        ("nowhere:app", "there is no module 'nowhere': looked in "),
        ("nowhere.tasks:app", "there is no module 'nowhere': looked in "),
        ("package.nothing:app", "there is no module 'package.nothing': looked in "),
        ("needy:app", "importing 'needy' failed: it needs the module 'requests_of_nowhere', which is not installed"),
        ("broken:app", "importing 'broken' raised SyntaxError: "),
        ("raising:app", "importing 'raising' raised ValueError: no configuration ("),
        ("leaking:app", "importing 'leaking' raised ValueError: password=••• ("),
        ("leaving:app", "importing 'leaving' raised SystemExit: 3"),
        ("plain:app", "'plain' has no 'app'; it has no App"),
        ("two:app", "'two' has no 'app'; its apps are: two:first, two:second"),
        ("two:thing", "'two:thing' is not an App but a str; its apps are: two:first, two:second"),
        ("folder.py:app", "'folder.py' is a folder, not a file"),
        ("nowhere/shop.py:app", "there is no file 'nowhere/shop.py'"),
        ("two.py:app", "'two.py' has no 'app'; its apps are: two.py:first, two.py:second"),
    ],
)
def test_an_app_that_cannot_be_loaded_says_why(invoke: Invoke, name: str, message: str) -> None:
    refused = invoke("jobs", "list", "--app", name)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"Error: {message}")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["two:first", "package.tasks:first", "two.py:second", "package/tasks.py:first"])
def test_an_app_is_named_by_module_or_by_file(invoke: Invoke, name: str) -> None:
    assert invoke("jobs", "list", "--app", name).exit_code == 0


def test_the_app_may_come_from_the_environment_or_the_settings_file(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mulligan.toml").write_text('app = "nowhere:app"')
    assert "there is no module 'nowhere'" in invoke("policies").stderr
    monkeypatch.setenv("MULLIGAN_APP", "two:first")
    assert invoke("policies").stdout.startswith("This app has no tasks.")
    assert "there is no module 'other'" in invoke("policies", "--app", "other:app").stderr


def test_a_bad_setting_stops_the_start_with_its_name(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_LOG_LEVEL", "LOUD")
    refused = invoke("jobs", "list", "--database", "sqlite:///jobs.db")
    assert refused.exit_code == 2
    assert "MULLIGAN_LOG_LEVEL is 'LOUD'" in refused.stderr


def test_the_database_named_on_the_command_line_wins_over_all_others(
    invoke: Invoke, enqueue: Enqueue, read_json: ReadJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = enqueue()
    monkeypatch.setenv("MULLIGAN_DATABASE_URL", "sqlite:///elsewhere.db")
    for app in ((), ("--app", "two:first")):
        found = read_json(invoke("jobs", "list", "--database", "sqlite:///jobs.db", "--json", *app))
        assert [found["id"] for found in found["jobs"]] == [job]


def test_the_database_may_come_from_the_environment(
    invoke: Invoke, enqueue: Enqueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = enqueue()
    monkeypatch.setenv("MULLIGAN_DATABASE_URL", "sqlite:///jobs.db")
    assert invoke("jobs", "show", job).exit_code == 0


READING = [("jobs", "list"), ("jobs", "show", "x"), ("jobs", "cancel", "x"), ("events",), ("workers",)]


@pytest.mark.parametrize("command", READING)
def test_without_an_app_and_a_database_a_command_says_what_to_name(
    invoke: Invoke, tmp_path: Path, command: tuple[str, ...]
) -> None:
    refused = invoke(*command)
    assert refused.exit_code == 2
    assert "neither an app nor a database is named" in refused.stderr
    assert "--database URL or --app MODULE:APP" in refused.stderr
    assert not list(tmp_path.glob("*.db*"))


@pytest.mark.parametrize("command", [*READING, ("events", "--follow")])
def test_reading_does_not_create_a_missing_database(invoke: Invoke, tmp_path: Path, command: tuple[str, ...]) -> None:
    refused = invoke(*command, "--database", "sqlite:///missing.db")
    assert refused.exit_code == 5
    assert refused.stderr.startswith("Error: there is no database sqlite:///missing.db; name one with")
    assert not list(tmp_path.glob("*.db*"))


def test_an_unused_app_is_empty(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("jobs", "list", "--app", "two:first").stdout.startswith("No jobs yet.")
    assert invoke("jobs", "cancel", "x", "--app", "two:first").exit_code == 4
    assert invoke("events", "--follow", "--app", "two:first").exit_code == 5
    assert not list(tmp_path.glob("*.db*"))


def test_the_default_file_is_used_if_it_exists(invoke: Invoke) -> None:
    with App("sqlite:///mulligan.db") as app:
        app.migrate()
    assert invoke("jobs", "list").stdout.startswith("No jobs yet.")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("jobs.db", 2),
        ("mysql://u:secret@h/db", 2),
        ("postgresql://u:secret@127.0.0.1:1/db", 5),
        ("sqlite://jobs.db", 2),
        ("sqlite:///text.db", 5),
        ("sqlite:///pipe.db", 2),
        ("sqlite:////dev/null", 2),
    ],
)
def test_a_database_that_cannot_be_used_says_why(invoke: Invoke, tmp_path: Path, url: str, code: int) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    (tmp_path / "text.db").write_text("no database at all " * 100)
    refused = invoke("jobs", "list", "--database", url)
    assert refused.exit_code == code
    assert refused.stderr.startswith("Error: ")
    assert "secret" not in refused.stderr


def test_a_worker_needs_an_app(invoke: Invoke) -> None:
    refused = invoke("worker")
    assert refused.exit_code == 2
    assert "this needs an app: name it with" in refused.stderr


def test_a_worker_refuses_an_app_without_tasks(command: Callable[..., Any], tmp_path: Path) -> None:
    refused = command("worker", "empty:app")
    assert refused.returncode == 2
    assert "the app has no tasks to run" in refused.stderr
    assert not list(tmp_path.glob("*.db*"))


@pytest.mark.parametrize("queues", ["", "a,,b", ","])
def test_a_worker_refuses_empty_queue_names(invoke: Invoke, queues: str) -> None:
    assert invoke("worker", "empty:app", "--queues", queues).exit_code == 2


@pytest.mark.parametrize("command", [("policies",), ("policies", "show"), ("policies", "schedule", "x")])
def test_policies_need_an_app(invoke: Invoke, command: tuple[str, ...]) -> None:
    refused = invoke(*command, "--json")
    assert refused.exit_code == 2
    assert json.loads(refused.stderr)["error"]["type"] == "ConfigurationError"
