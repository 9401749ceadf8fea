"""`mulligan batches`: list, show, publish, retry and cancel, as text and as JSON."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from click.testing import Result

from mulligan import App, BatchState, FinalError
from mulligan.console.batches import Batch

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]
HERE = ("--app", "shop:app")


@pytest.fixture(autouse=True)
def _a_shop(shop: str) -> None:
    """The commands load this app; `works` is its task in this process."""


@pytest.fixture
def batch(works: App) -> Batch:
    """A draft with one member that cannot succeed."""
    convert = works.tasks["convert"]
    batch = works.batch("spring")
    batch.add(convert.bind("good"), convert.bind("bad"))
    return batch


def test_batches_are_listed_newest_first(invoke: Invoke, read_json: ReadJson, app: App, batch: Batch) -> None:
    lines = invoke("batches", *HERE).stdout.splitlines()
    assert lines[0].split() == ["Batch", "Name", "State", "Members", "About"]
    assert lines[1].split() == [batch.id[-12:], "spring", "draft", "2", "2", "left"]
    other = app.batch("summer", owner="acme")
    found = read_json(invoke("batches", "list", "--json", *HERE))
    assert ([each["name"] for each in found["batches"]], found["cursor"]) == (["summer", "spring"], None)
    page = read_json(invoke("batches", "list", "--limit", "1", "--json", *HERE))
    assert page["cursor"] == other.id
    assert ": mulligan batches list --cursor" in invoke("batches", "list", "--limit", "1", *HERE).stdout
    rest = read_json(invoke("batches", "list", "--cursor", other.id[-12:], "--json", *HERE))
    assert [each["name"] for each in rest["batches"]] == ["spring"]
    mine = read_json(invoke("batches", "list", "--owner", "acme", "--state", "draft", "--json", *HERE))
    assert [each["name"] for each in mine["batches"]] == ["summer"]


def test_an_empty_list_of_batches_says_how_to_create_one(invoke: Invoke, app: App) -> None:
    app.migrate()
    assert invoke("batches", *HERE).stdout == "No batches. Create one with: app.batch(name)\n"


def test_a_batch_is_published_settled_and_retried(invoke: Invoke, read_json: ReadJson, app: App, batch: Batch) -> None:
    published = read_json(invoke("batches", "publish", batch.id, "--actor", "ann", "--json", *HERE))
    assert (published["state"], published["total"], published["left"]) == ("processing", 2, 2)
    assert read_json(invoke("batches", "publish", batch.id, "--json", *HERE))["state"] == "processing"
    app.run_until_idle()
    said = invoke("batches", "show", batch.id, *HERE).stdout
    assert said.startswith(f"spring {batch.id} is partial: 2 members, 1 succeeded, 1 failed, settled")
    assert f"mulligan jobs list --batch {batch.id}" in said
    assert "partial: 2 members, 1 succeeded, 1 failed" in invoke("events", *HERE).stdout
    listed = read_json(invoke("jobs", "list", "--batch", batch.id, "--state", "failed", "--json", *HERE))
    assert [job["error_code"] for job in listed["jobs"]] == ["NOT_PDF"]
    said = invoke("batches", "retry", batch.id, "--reason", "fixed", *HERE).stdout
    assert said == "1 member of spring retried; it is processing.\n"
    done = read_json(invoke("batches", "retry", batch.id, "--json", *HERE))
    assert (done["retried"], done["skipped"], done["batch"]["generation"]) == ([], {}, 2)


def test_members_that_cannot_be_retried_are_named(invoke: Invoke, app: App) -> None:
    @app.task
    def mark(path: str) -> None:
        raise FinalError("no such video")

    batch = app.batch("marks")
    batch.add(mark.bind("x"))
    batch.publish()
    app.run_until_idle()
    said = invoke("batches", "retry", batch.id, *HERE).stdout
    assert "was skipped: the source file is gone" in said
    assert said.endswith("0 members of marks retried, 1 skipped; it is failed.\n")


def test_a_batch_is_cancelled_and_its_members_are_retried(
    invoke: Invoke, read_json: ReadJson, app: App, batch: Batch
) -> None:
    batch.publish()
    assert read_json(invoke("batches", "cancel", batch.id, "--json", *HERE))["state"] == "failed"
    done = read_json(invoke("batches", "retry", batch.id, "--cancelled", "--json", *HERE))
    assert len(done["retried"]) == 2
    assert app.find_batch(batch.id).state is BatchState.PROCESSING


def test_an_unknown_batch_is_not_found(invoke: Invoke, app: App) -> None:
    app.migrate()
    for verb in ("show", "publish", "retry", "cancel"):
        answer = invoke("batches", verb, "nothing", *HERE)
        assert answer.exit_code == 4
        assert answer.stderr.startswith("Error: there is no batch 'nothing': no id begins with that")


def test_an_expired_batch_cannot_be_retried_now(invoke: Invoke, works: App) -> None:
    batch = works.batch("old", expires_in=timedelta(microseconds=1))
    batch.add(works.tasks["convert"].bind("bad"))
    batch.publish()
    works.run_until_idle()
    works.run_duty("expire")
    answer = invoke("batches", "retry", batch.id, *HERE)
    assert answer.exit_code == 5
    assert "has expired" in answer.stderr
