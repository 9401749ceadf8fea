"""`mulligan alerts`: as text and as JSON, with an exit code for monitoring."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from mulligan import App

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")


def test_without_a_worker_the_command_looks_itself_and_fails(invoke: Invoke, works: App) -> None:
    works.migrate()
    shown = invoke("alerts", *HERE)
    assert shown.exit_code == 5
    line = next(line for line in shown.stdout.splitlines() if "workers.alive" in line)
    assert line.startswith("firing")
    assert "start one: mulligan worker MODULE:APP" in line
    assert "No worker evaluates the alerts at present (none ever did)" in shown.stdout
    found = json.loads(invoke("alerts", "--json", *HERE).stdout)
    assert (found["is_stale"], found["alerts"][0]["check"]) == (True, "workers.alive")
    assert len(found["rules"]) > 30
    silenced = invoke("alerts", "silence", "workers.alive", "--for", "2h", "--reason", "a migration", *HERE)
    assert silenced.stdout.startswith("Alert workers.alive is silenced until ")
    shown = invoke("alerts", *HERE)
    assert (shown.exit_code, shown.stdout.splitlines()[1].startswith("firing, silenced")) == (0, True)
    assert "notified again" in invoke("alerts", "unsilence", "workers.alive", *HERE).stdout


def test_rules_are_listed_set_and_taken_back(invoke: Invoke, read_json: ReadJson, works: App) -> None:
    works.migrate()
    said = invoke("alerts", "set", "jobs.depth", "--threshold", "5000", "--after", "10m", *HERE).stdout
    assert said == "Alert jobs.depth fires for a warning beyond 5,000 jobs that lasts for 10m.\n"
    rule = next(line for line in invoke("alerts", "rules", *HERE).stdout.splitlines() if line.startswith("jobs.depth"))
    assert rule.split() == ["jobs.depth", "warning", "5,000", "jobs", "10m", "5m", "set", "by", "a", "person"]
    assert invoke("alerts", "set", "jobs.depth", "--off", *HERE).stdout == "Alert jobs.depth fires never: it is off.\n"
    found = read_json(invoke("alerts", "set", "jobs.depth", "--default", "--json", *HERE))
    assert (found["is_on"], found["is_edited"], found["threshold"]) == (True, False, 10_000.0)
    found = read_json(invoke("alerts", "set", "jobs.waiting", "--threshold", "5m", "--json", *HERE))
    assert (found["threshold"], found["unit"]) == (300.0, "seconds")


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("set", "jobs.depth"), 2, "give terms, such as --threshold 5000"),
        (("set", "jobs.depth", "--default", "--off"), 2, "give terms, such as --threshold 5000"),
        (("set", "jobs.dept", "--off"), 4, "did you mean 'jobs.depth'?"),
        (("set", "jobs.depth", "--threshold", "many"), 2, "a number (jobs) from 1"),
        (("silence", "jobs.dept"), 4, "did you mean 'jobs.depth'?"),
        (("silence", "jobs.depth", "--for", "soon"), 2, "soon"),
    ],
)
def test_mistakes_are_explained(invoke: Invoke, works: App, given: tuple[str, ...], code: int, said: str) -> None:
    works.migrate()
    result = invoke("alerts", *given, *HERE)
    assert result.exit_code == code, result.output
    assert said in result.output
