"""`mulligan policies`: the policies in words, and as a schedule of attempts."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]

APP = """
from mulligan import App, Exponential, Fixed, RetryPolicy, Window
from datetime import timedelta

app = App("sqlite:///jobs.db")

def my_backoff(failures, previous_delay, draw):
    return timedelta(seconds=failures)

@app.task(
    timeout="30s",
    retry=RetryPolicy(
        max_attempts=3,
        backoff=Exponential("5s", factor=3, jitter=0.2),
        limits={"IO_ERROR": 1, "NOT_PDF": 0},
        deadline="2h",
        windows=[Window("22:00", "06:00", timezone="Europe/Berlin")],
    ),
)
def convert(path: str) -> None: ...

@app.task(retry=RetryPolicy(max_attempts=1))
def once() -> None: ...

@app.task(retry=RetryPolicy(max_attempts=1_000, backoff=my_backoff))
def often() -> None: ...
"""


@pytest.fixture(autouse=True)
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policed.py").write_text(APP)
    monkeypatch.setenv("MULLIGAN_APP", "policed:app")


def test_policies_are_described_in_words(invoke: Invoke) -> None:
    shown = invoke("policies", "show", "convert").stdout
    assert shown.splitlines() == [
        "convert",
        "  It is tried at most 3 times.",
        "  Between attempts it waits 5s ×3, ±20 %.",  # noqa: RUF001
        "  IO_ERROR is retried at most once.",
        "  NOT_PDF is never retried.",
        "  It must be done within 2h of its enqueue.",
        "  Retries run only every day 22:00–06:00 Europe/Berlin.",  # noqa: RUF001
        "  An attempt may take 30s.",
        "  It fails after 3 crashes in a row, or if it is snoozed more than 100 times.",
    ]


def test_without_a_kind_all_policies_are_described(invoke: Invoke) -> None:
    shown = invoke("policies").stdout
    assert shown == invoke("policies", "show").stdout
    assert [line for line in shown.splitlines() if not line.startswith(" ")] == ["convert", "once", "often"]
    assert "  It is tried at most once." in shown
    assert "  Between attempts it waits as my_backoff() returns." in shown


def test_policies_are_printed_as_json(invoke: Invoke, read_json: ReadJson) -> None:
    found = read_json(invoke("policies", "--json"))["policies"]
    assert [policy["kind"] for policy in found] == ["convert", "once", "often"]
    assert (found[0]["max_attempts"], found[0]["max_retries"], found[0]["timeout"]) == (3, 2, 30)
    assert found[0]["limits"] == {"IO_ERROR": 1, "NOT_PDF": 0}


def test_a_schedule_shows_delays_jitter_and_other_terms(invoke: Invoke) -> None:
    lines = invoke("policies", "schedule", "convert").stdout.splitlines()
    assert [line.split() for line in lines[3:6]] == [
        ["1", "retry", "5s", "4s", "to", "6s", "5s"],
        ["2", "retry", "15s", "12s", "to", "18s", "20s"],
        ["3", "fails", "for", "good", "20s"],
    ]
    assert "NOT_PDF is never retried." in lines


def test_a_schedule_as_json_is_in_seconds(invoke: Invoke, read_json: ReadJson) -> None:
    found = read_json(invoke("policies", "schedule", "often", "--json"))["schedule"]
    assert [row["delay"] for row in found[:3]] == [1, 2, 3]
    assert (found[-1]["failure"], found[-1]["then"], found[-1]["delay"]) == (1_000, "fails for good", None)
    assert found[2]["elapsed"] == timedelta(seconds=6).total_seconds()


def test_a_long_schedule_says_where_it_was_cut(invoke: Invoke) -> None:
    lines = invoke("policies", "schedule", "often").stdout.splitlines()
    assert any(line.startswith("…") for line in lines)
    assert any(line.startswith("1,000") for line in lines)


@pytest.mark.parametrize("command", ["show", "schedule"])
def test_an_unknown_kind_is_not_found(invoke: Invoke, command: str) -> None:
    missing = invoke("policies", command, "convrt")
    assert missing.exit_code == 4
    possible = "did you mean 'convert'? known are: 'convert', 'often', 'once'"
    assert missing.stderr == f"Error: no task is named 'convrt'; {possible}\n"
