"""`mulligan events`, `workers` and `migrate`."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mulligan import App, JobFilter, Service
from mulligan.store.messages import Beat, WorkerRecord

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")


def test_the_newest_events_are_shown_oldest_first(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    _, second, third = enqueue(), enqueue(), enqueue()
    found = read_json(invoke("events", "--limit", "2", "--json", *HERE))
    assert [event["job"] for event in found["events"]] == [second, third]


def test_the_log_can_be_read_from_any_position(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    made = [enqueue() for _ in range(3)]
    first = read_json(invoke("events", "--after", "0", "--limit", "2", "--json", *HERE))
    rest = read_json(invoke("events", "--after", str(first["after"]), "--json", *HERE))
    assert [event["job"] for event in first["events"] + rest["events"]] == made


def test_the_events_of_one_job_are_shown_from_its_beginning(invoke: Invoke, enqueue: Enqueue) -> None:
    job, other = enqueue("bad", run=True), enqueue()
    shown = invoke("events", "--job", job, *HERE).stdout
    assert other not in shown
    assert [line.split()[4] for line in shown.splitlines()[1:]] == ["job.enqueued", "job.started", "job.failed"]
    assert "NOT_PDF: not a PDF" in shown


def test_a_failure_is_shown_with_its_exception(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    job = enqueue("flaky", run=True)
    raised = "(OSError: the disk hiccuped)"
    for words in (("events",), ("jobs", "show", job)):
        (line,) = [line for line in invoke(*words, *HERE).stdout.splitlines() if "job.retried" in line]
        assert "UNKNOWN: Something went wrong." in line and f" {raised} (after " in line
    assert raised in "".join(read_json(invoke("jobs", "explain", job, "--json", *HERE))["happened"])
    assert read_json(invoke("events", "--json", *HERE))["events"][-1]["data"]["error"] == "OSError: the disk hiccuped"


def test_an_event_of_a_service_names_the_service_and_the_failure(invoke: Invoke) -> None:
    with App("sqlite:///jobs.db", services=[Service("gateway", window=2)]) as app:

        @app.task(service="gateway")
        def call() -> None:
            raise ConnectionError("no answer")

        app.enqueue_many([call.bind(), call.bind()])
        app.run_until_idle(timeout=20)
    (line,) = [line for line in invoke("events", *HERE).stdout.splitlines() if "service.opened" in line]
    assert line.endswith(" gateway, 2 of its last 2 calls failed")


@pytest.mark.parametrize("option", [(), ("--follow",)])
def test_the_events_of_a_missing_job_are_not_found(invoke: Invoke, enqueue: Enqueue, option: tuple[str, ...]) -> None:
    enqueue()
    assert invoke("events", "--job", "nobody", *option, *HERE).exit_code == 4


def test_an_empty_log_says_what_to_do_next(invoke: Invoke, works: App) -> None:
    works.migrate()
    assert invoke("events", *HERE).stdout.startswith("No events.")


def test_the_list_of_workers_says_which_are_alive(invoke: Invoke, works: App, read_json: ReadJson) -> None:
    works.migrate()
    assert invoke("workers", *HERE).stdout == "No workers. Start one with: mulligan worker MODULE:APP\n"
    worker = WorkerRecord(
        incarnation="w1", host="box", pid=42, queues=None, kinds=("convert",), concurrency=3, version="1.4"
    )
    works.store.beat(Beat(worker=worker, lease=timedelta(seconds=60)))
    (found,) = read_json(invoke("workers", "--json", *HERE))["workers"]
    assert (found["host"], found["kinds"], found["is_alive"]) == ("box", ["convert"], True)
    assert found["version"] == "1.4"
    works.store._database.write(  # type: ignore[attr-defined]
        lambda db: db.execute("UPDATE mulligan_workers SET seen_at = seen_at - 61000000")
    )
    listed = invoke("workers", *HERE).stdout
    assert "1m 1s ago, silent" in listed
    assert "Version" in listed


def test_migrate_creates_a_database_and_says_so(invoke: Invoke, tmp_path: Path, read_json: ReadJson) -> None:
    made = invoke("migrate", "--database", "sqlite:///new.db")
    assert made.stdout.endswith("sqlite:///new.db was created and is up to date.\n")
    assert (tmp_path / "new.db").exists()
    again = read_json(invoke("migrate", "--database", "sqlite:///new.db", "--json"))
    assert again == {"database": "sqlite:///new.db", "is_new": False, "applied": []}


def test_events_are_filtered_by_what_was_asked_for(invoke: Invoke, read_json: ReadJson) -> None:
    with App("sqlite:///jobs.db") as app:

        @app.task
        def send() -> None: ...

        @app.task
        def call() -> None: ...

        batch = app.batch("spring", owner="acme")
        batch.add(send.bind(), call.bind())
        batch.publish()
        app.enqueue_many([send.bind()] * 3)
        app.run_until_idle(timeout=20)
        everything = app.events(limit=1_000)

    def shown(*options: str) -> list[int]:
        return [event["position"] for event in read_json(invoke("events", *options, "--json", *HERE))["events"]]

    def positions(fits: Callable[[Any], bool]) -> list[int]:
        return [event.position for event in everything if fits(event)]

    assert shown("--kind", "call") == positions(lambda event: event.kind == "call")
    assert shown("--owner", "acme") == positions(lambda event: event.owner == "acme")
    assert shown("--batch", batch.id[-8:]) == positions(lambda event: event.batch == batch.id)
    types = ("job.succeeded", "batch.settled")
    assert shown("--type", types[0], "--type", types[1]) == positions(lambda event: event.type in types)
    assert (
        shown("--kind", "send", "--type", "job.started", "--limit", "2")
        == positions(lambda event: (event.kind, event.type) == ("send", "job.started"))[-2:]
    )
    assert shown("--owner", "nobody") == []
    assert "No events match." in invoke("events", "--owner", "nobody", *HERE).stdout
    assert invoke("events", "--type", "job.exploded", *HERE).exit_code == 2
    (first,) = read_json(invoke("events", "--after", "0", "--limit", "1", "--json", *HERE))["events"]
    assert {name: first[name] for name in ("batch", "queue", "service", "cost")} == {
        "batch": batch.id,
        "queue": "default",
        "service": "",
        "cost": 0,
    }


def test_events_that_are_far_back_are_found(invoke: Invoke, read_json: ReadJson) -> None:
    with App("sqlite:///jobs.db") as app:

        @app.task
        def send() -> None: ...

        rare = send.options(owner="acme").enqueue()
        app.enqueue_many([send.bind()] * 700)
        end = app.last_position()
    found = read_json(invoke("events", "--owner", "acme", "--limit", "3", "--json", *HERE))
    assert ([event["job"] for event in found["events"]], found["after"]) == ([rare.id], end)
    found = read_json(invoke("events", "--owner", "acme", "--after", "1", "--json", *HERE))
    assert (found["events"], found["after"]) == ([], end)


def test_a_reader_behind_deleted_events_is_warned(invoke: Invoke, works: App, read_json: ReadJson) -> None:
    @works.task
    def gone() -> None: ...

    gone.enqueue()
    works.run_until_idle(timeout=20)
    kept = gone.enqueue()
    works.purge(JobFilter(state="succeeded"), older_than=0, dry_run=False)
    shown = invoke("events", "--after", "0", "--json", *HERE)
    found = json.loads(shown.stdout)
    assert (found["is_pruned"], found["events"][0]["job"]) == (True, kept.id)
    assert "were deleted" in shown.stderr
    newest = invoke("events", "--json", *HERE)
    assert (json.loads(newest.stdout)["is_pruned"], newest.stderr) == (False, "")
