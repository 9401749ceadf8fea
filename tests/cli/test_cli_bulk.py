"""`mulligan bulk`: preview and start operations on many jobs."""

from collections.abc import Callable
from typing import Any

from click.testing import Result

from mulligan import App, State

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")


def test_a_bulk_cancel_is_previewed_then_begun(
    invoke: Invoke, enqueue: Enqueue, works: App, read_json: ReadJson
) -> None:
    jobs = [enqueue(owner="acme"), enqueue(owner="acme"), enqueue()]
    shown = invoke("bulk", "cancel", "--owner", "acme", "--preview", *HERE).stdout
    assert "2 jobs would be cancelled, at most 500/s." in shown and "Nothing was changed." in shown
    assert works.redrives() == []
    begun = read_json(invoke("bulk", "cancel", "--owner", "acme", "--yes", "--json", *HERE))
    assert (begun["verb"], begun["matched"], begun["filter"]["state"]) == (
        "cancel",
        2,
        ["waiting", "queued", "running"],
    )
    assert works.run_duty("redrive").did == 2
    assert [works.job(job).state for job in jobs] == [State.CANCELLED, State.CANCELLED, State.QUEUED]
    assert "cancelled" in invoke("redrive", "show", begun["id"], *HERE).stdout
    assert "cancel" in invoke("redrive", "list", *HERE).stdout


def test_a_bulk_snooze_takes_a_duration(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    job = enqueue()
    assert invoke("bulk", "snooze", "2h", "--id", job, "--yes", *HERE).exit_code == 0
    works.run_duty("redrive")
    assert works.job(job).waiting_for == "snooze"


def test_waiting_jobs_are_run_now(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    job = enqueue(delay="1d")
    assert invoke("bulk", "run-now", "--kind", "convert", "--yes", *HERE).exit_code == 0
    works.run_duty("redrive")
    assert works.job(job).state is State.QUEUED


def test_without_a_selection_it_is_wrong_usage(invoke: Invoke, enqueue: Enqueue) -> None:
    enqueue()
    refused = invoke("bulk", "cancel", "--yes", *HERE)
    assert refused.exit_code == 2 and "select jobs" in refused.stderr


def test_an_owner_is_forgotten(invoke: Invoke, enqueue: Enqueue, works: App, read_json: ReadJson) -> None:
    enqueue("bad", run=True, owner="acme")
    mine, other = enqueue(owner="acme"), enqueue(owner="other")
    shown = invoke("owners", "forget", "acme", "--preview", *HERE).stdout
    assert "2 jobs would be deleted" in shown
    begun = read_json(invoke("owners", "forget", "acme", "--yes", "--json", "--reason", "closed", *HERE))
    assert (begun["verb"], begun["filter"]) == ("forget", {"owner": "acme"})
    works.run_duty("redrive")
    assert "2 deleted" in invoke("redrive", "show", begun["id"], "--follow", *HERE).stdout
    assert [job.id for job in works.jobs().jobs] == [other] and mine != other
