"""The output for people and programs: escaped strings, JSON everywhere, one line for an error."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mulligan import App, FinalError
from mulligan.cli.root import COMMANDS, root
from mulligan.logs import JsonFormatter, TextFormatter, configure
from mulligan.values.text import safe, safe_lines

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
HERE = ("--database", "sqlite:///jobs.db")
NASTY = "\x1b[2J\x9b31m\r\x07\u202eback [bold]not markup[/bold] :smile:"


@pytest.fixture
def nasty(app: App) -> str:
    """A job with every string that could control a terminal."""

    @app.task
    def fail(text: str) -> None:
        raise FinalError(text)

    job = fail.enqueue(NASTY)
    app.run_until_idle(timeout=20)
    # As an older or a newer version might have stored it.
    stored = {"kind": "ki\u202end", "owner": NASTY, "tags": json.dumps([NASTY]), "error": NASTY}
    app.store._database.write(  # type: ignore[attr-defined]
        lambda db: db.execute(
            "UPDATE mulligan_jobs SET kind = :kind, owner = :owner, tags = :tags, error_message = :error", stored
        )
    )
    app.cancel(fail.options(delay="1h").enqueue(NASTY).id, actor=NASTY, reason=NASTY)
    return job.id


def steers(text: str) -> bool:
    return any(character in text for character in "\x1b\x9b\r\x07\u202e")


@pytest.mark.parametrize(
    "command", [("jobs", "list"), ("jobs", "show"), ("jobs", "show", "--detail"), ("jobs", "explain"), ("events",)]
)
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_no_string_of_a_job_can_control_the_terminal(
    invoke: Invoke, nasty: str, command: tuple[str, ...], option: tuple[str, ...]
) -> None:
    names_a_job = command[-1] not in ("list", "events")
    shown = invoke(*command, *([nasty] if names_a_job else []), *option, *HERE)
    assert shown.exit_code == 0
    assert not steers(shown.stdout)
    assert "[bold]not markup[/bold] :smile:" in shown.stdout


def test_an_error_message_cannot_control_the_terminal(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "nasty.py").write_text(f"raise ValueError({NASTY!r})")
    refused = invoke("jobs", "list", "--app", "nasty:app")
    assert "not markup" in refused.stderr
    assert not steers(refused.stderr)


def test_control_characters_are_escaped() -> None:
    assert safe("a\x1b[2J\nb\t\x9b\u202e\ud800") == "a\\x1b[2J\\nb\\t\\x9b\\u202e\\ud800"
    assert safe("ä ∑ 語 €") == "ä ∑ 語 €"
    assert safe_lines("a\n\tb\x1b") == "a\n    b\\x1b"


def test_bytes_that_are_not_a_string_are_wrong_usage(invoke: Invoke, enqueue: Enqueue) -> None:
    enqueue()
    for command in (("show", "\udcff"), ("list", "--owner", "a\0b"), ("cancel", "x", "--reason", "\udcff")):
        assert invoke("jobs", *command, *HERE).exit_code == 2


# JSON


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "jobs", "list", *HERE),
        ("jobs", "--json", "list", *HERE),
        ("jobs", "list", *HERE, "--json"),
        (*HERE, "jobs", "list", "--json"),
    ],
)
def test_global_options_work_before_and_after_the_command(
    invoke: Invoke, enqueue: Enqueue, arguments: tuple[str, ...]
) -> None:
    job = enqueue()
    found = invoke(*arguments)
    assert [found["id"] for found in json.loads(found.stdout)["jobs"]] == [job]


@pytest.mark.parametrize(
    ("arguments", "type_", "code"),
    [
        (("jobs", "show", "nobody"), "JobNotFound", 4),
        (("jobs", "list", "--state", "lost"), "Usage", 2),
        (("jobs", "dance"), "Usage", 2),
        (("dance",), "Usage", 2),
        (("--dance",), "Usage", 2),
        (("jobs", "show"), "Usage", 2),
        (("jobs", "list", "--app", "nowhere:app"), "ConfigurationError", 2),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_an_error_is_an_object_on_stderr(
    invoke: Invoke, enqueue: Enqueue, arguments: tuple[str, ...], type_: str, code: int, is_first: bool
) -> None:
    enqueue()
    given = ("--json", *HERE, *arguments) if is_first else (*HERE, *arguments, "--json")
    failed = invoke(*given)
    assert (failed.exit_code, failed.stdout) == (code, "")
    error = json.loads(failed.stderr)["error"]
    assert error["type"] == type_
    assert error["message"]


def test_every_command_takes_the_global_options() -> None:
    def leaves(command: Any) -> list[Any]:
        below = getattr(command, "commands", {}).values()
        return [command, *(leaf for child in below for leaf in leaves(child))]

    for name in COMMANDS:
        for command in leaves(root.get_command(None, name)):  # type: ignore[arg-type]
            options = {option for parameter in command.params for option in parameter.opts}
            assert options >= {"--app", "--database", "--json"}, command.name


def test_help_names_every_command_and_the_exit_codes(invoke: Invoke) -> None:
    shown = invoke("--help").stdout
    assert all(name in shown for name in COMMANDS)
    assert "0 done, 2 wrong usage or settings, 4 not found, 5 not possible" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_help_of_each_says(name: str) -> None:
    command = root.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    assert command.get_short_help_str(limit=100) == COMMANDS[name][1]


def test_help_is_shown_without_the_engine() -> None:
    """A person who asks for help waits for what it imports."""
    program = "import sys\ntry:\n    import mulligan.__main__ as m; m.main()\nfinally:\n    print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True)
    imported = set(shown.stdout.splitlines()[-1].split())
    assert "mulligan.cli.root" in imported
    assert not {"mulligan.app", "mulligan.store.store", "mulligan.worker.worker", "psycopg", "rich"} & imported


def test_the_version_is_printed(invoke: Invoke) -> None:
    shown = invoke("--version")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("mulligan 0.")


# The demo: only its options are tested here


def test_the_demo_gets_its_options(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr("mulligan.cli.demo.session.run_demo", lambda **options: given.append(options))
    assert invoke("demo", "--seconds", "2.5").exit_code == 0
    assert invoke("demo", "--json", "--database", "sqlite:///demo.db").exit_code == 0
    assert given == [
        {"seconds": 2.5, "database": None, "as_json": False},
        {"seconds": None, "database": "sqlite:///demo.db", "as_json": True},
    ]
    assert invoke("demo", "--seconds", "0").exit_code == 2


# Logs


def a_record(message: str, **changes: Any) -> logging.LogRecord:
    fields = {"name": "mulligan.worker", "levelname": "INFO", "levelno": 20, "created": 0.0, "msg": message}
    return logging.makeLogRecord(fields | changes)


def an_error() -> Any:
    try:
        raise ValueError("evil\n1970-01-01 00:00:00Z INFO    mulligan.worker: forged\x1b[2J")
    except ValueError as error:
        return type(error), error, error.__traceback__


def test_a_log_line_for_people_cannot_be_forged() -> None:
    logged = TextFormatter().format(a_record("job\n%s\x1b", args=("x",), exc_info=an_error()))
    lines = logged.split("\n")
    assert lines[0] == "1970-01-01 00:00:00Z INFO    mulligan.worker: job\\nx\\x1b"
    assert all(line.startswith("    | ") for line in lines[1:])
    assert "\x1b" not in logged


def test_a_log_line_for_collectors_is_one_object() -> None:
    logged = JsonFormatter().format(a_record("two\nlines \x1b", exc_info=an_error(), job="f3a1"))
    assert "\n" not in logged
    assert "\x1b" not in logged
    found = json.loads(logged)
    assert (found["level"], found["message"], found["job"]) == ("INFO", "two\nlines \x1b", "f3a1")
    assert found["at"] == "1970-01-01T00:00:00+00:00"
    assert "ValueError: evil" in found["exception"]


def bare_logging(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    bare = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "getLogger", lambda: bare)
    return bare


def test_logging_is_configured_by_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = bare_logging(monkeypatch)
    configure("DEBUG", "json")
    (handler,) = bare.handlers
    assert bare.level == logging.DEBUG
    assert isinstance(handler.formatter, JsonFormatter)
    monkeypatch.undo()


def test_the_logging_of_an_app_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = bare_logging(monkeypatch)
    own = logging.NullHandler()
    bare.addHandler(own)
    configure("INFO", "text")
    assert bare.handlers == [own]
    monkeypatch.undo()


@pytest.mark.parametrize("group", [(), ("jobs",), ("policies",), ("duties",), ("schedules",)])
def test_the_summary_of_each_command_is_not_cut_in_the_list(
    invoke: Callable[..., Result], group: tuple[str, ...]
) -> None:
    assert "..." not in invoke(*group, "--help").stdout.partition("Commands:")[2]


@pytest.mark.parametrize("words", [("limits", NASTY), ("jobs", NASTY), (NASTY,), ("events", "--limit", NASTY)])
def test_a_usage_error_cannot_control_the_terminal(invoke: Invoke, words: tuple[str, ...]) -> None:
    refused = invoke(*words)
    assert refused.exit_code == 2
    assert not set(refused.stderr) & set("\x1b\x9b\r\x07\u202e")


@pytest.mark.parametrize("words", [(), ("jobs",)])
def test_without_a_command_the_help_is_shown(invoke: Invoke, words: tuple[str, ...]) -> None:
    shown = invoke(*words)
    assert "\nCommands:\n" in shown.stdout + shown.stderr


def test_a_mistyped_command_is_answered_with_a_suggestion(invoke: Invoke) -> None:
    assert "No such command 'bathces'. Did you mean 'batches'?" in invoke("bathces").stderr
    assert "No such command 'xyzzy'.\n" in invoke("xyzzy").stderr
