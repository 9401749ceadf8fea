"""`mulligan failures` and `mulligan stats`: as text and as JSON."""

from collections.abc import Callable
from typing import Any

from click.testing import Result

from mulligan import App, FinalError

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")


def fail(works: App, number: int = 1) -> str:
    """A group with this many failed jobs."""
    if "breaks" not in works.tasks:

        @works.task("breaks")
        def breaks() -> None:
            raise FinalError("the disk 17 is full", code="IO_ERROR")

    for _ in range(number):
        works.tasks["breaks"].options(owner="acme").enqueue()
    works.run_until_idle(timeout="30s")
    works.run_duty("project")
    return works.failures().groups[0].id


def test_groups_are_listed_and_shown(invoke: Invoke, read_json: ReadJson, works: App) -> None:
    works.migrate()
    assert invoke("failures", *HERE).stdout == "No failures.\n"
    group = fail(works, 2)
    heading, line = invoke("failures", *HERE).stdout.splitlines()
    assert heading.split()[:4] == ["Group", "State", "Impact", "Failures"]
    assert line.split()[:3] == [group, "open,", "new"]
    assert line.endswith("the disk # is full")
    found = read_json(invoke("failures", "show", group, "--json", *HERE))
    assert (found["failures"], found["failed"], found["top_owners"][0]["name"]) == (2, 2, "acme")
    shown = invoke("failures", "show", group, *HERE).stdout
    assert "2 attempts of 2 jobs" in shown
    assert f"mulligan failures retry {group}" in shown
    assert invoke("failures", "show", "nothing", *HERE).exit_code == 4


def test_groups_are_ignored_resolved_and_reopened(invoke: Invoke, read_json: ReadJson, works: App) -> None:
    group = fail(works)
    said = invoke("failures", "ignore", group, "--for", "7d", "--growth", "10", "--reason", "known", *HERE).stdout
    assert "is ignored" in said
    assert "until it has 10 failures" in said
    assert invoke("failures", *HERE).stdout == "No failures.\n"
    assert len(read_json(invoke("failures", "--all", "--json", *HERE))["groups"]) == 1
    assert invoke("failures", "resolve", group, *HERE).stdout.startswith(f"Group {group} is resolved")
    assert read_json(invoke("failures", "reopen", group, "--json", *HERE))["state"] == "open"
    assert invoke("failures", "ignore", group, "--growth", "1", *HERE).exit_code == 2


def test_the_jobs_of_a_group_are_retried(invoke: Invoke, read_json: ReadJson, works: App) -> None:
    group = fail(works, 3)
    assert read_json(invoke("failures", "retry", group, "--preview", "--json", *HERE))["matched"] == 3
    begun = read_json(invoke("failures", "retry", group, "--yes", "--reason", "mended", "--json", *HERE))
    assert (begun["matched"], begun["filter"]["group"]) == (3, group)


def test_statistics_are_shown_and_rebuilt(invoke: Invoke, read_json: ReadJson, works: App) -> None:
    works.migrate()
    assert invoke("stats", *HERE).stdout.startswith("Nothing happened in this time.")
    fail(works, 2)
    shown = invoke("stats", "--span", "day", *HERE).stdout
    assert shown.splitlines()[0].split() == ["Day", "Enqueued", "Started", "Failed"]
    assert "Success by attempt" in shown
    found = read_json(invoke("stats", "--span", "minute", "--kind", "breaks", "--json", *HERE))
    assert sum(row["number"] for row in found["rows"] if row["outcome"] == "failed") == 2
    invoke("stats", "rebuild", *HERE)
    assert "numbers are too low" in invoke("stats", *HERE).stdout
    assert "events counted" in invoke("duties", "run", "project", *HERE).stdout
    assert read_json(invoke("stats", "--span", "day", "--json", *HERE))["rows"]
