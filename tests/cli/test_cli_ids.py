"""The beginning or the end of an id is enough, if it is unique."""

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from mulligan import App

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")


@pytest.mark.parametrize("cut", [lambda id_: id_[-6:], lambda id_: id_[-12:], lambda id_: id_[:30]])
@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "show", "ID"),
        ("jobs", "explain", "ID"),
        ("jobs", "retry", "ID"),
        ("jobs", "run-now", "ID"),
        ("events", "--job", "ID"),
    ],
    ids=" ".join,
)
def test_a_short_id_names_the_job(
    invoke: Invoke, enqueue: Enqueue, cut: Callable[[str], str], words: tuple[str, ...]
) -> None:
    enqueue()
    job = enqueue("bad", run=True)
    said = invoke(*(cut(job) if word == "ID" else word for word in words), *HERE, "--json")
    assert (said.exit_code, said.stderr) == (0, "") and job in said.stdout


@pytest.mark.parametrize(("verb", "more"), [("cancel", ()), ("snooze", ("1h",))])
def test_the_end_of_an_id_is_enough_to_move_a_job(
    invoke: Invoke, enqueue: Enqueue, works: App, verb: str, more: tuple[str, ...]
) -> None:
    job, other = enqueue(), enqueue()
    assert invoke("jobs", verb, job[-8:], *more, *HERE).stdout.startswith(f"{job} ")
    assert works.job(job).state != "queued" and works.job(other).state == "queued"


def test_two_short_ids_of_one_job_move_it_once(
    invoke: Invoke, enqueue: Enqueue, read_json: ReadJson, works: App
) -> None:
    job = enqueue("bad", run=True)
    found = read_json(invoke("jobs", "retry", job, job[-8:], job[-6:], *HERE, "--json"))
    assert [one["id"] for one in found["jobs"]] == [job] and found["errors"] == []
    assert works.job(job).manual_retries == 1


def test_an_ambiguous_short_id_lists_the_candidates_and_changes_nothing(
    invoke: Invoke, enqueue: Enqueue, works: App
) -> None:
    jobs = [enqueue() for _ in range(7)]
    refused = invoke("jobs", "cancel", jobs[0][:6], *HERE)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"Error: {jobs[0][:6]!r} matches more than one job: {', '.join(reversed(jobs[2:]))}, …; give more of the id\n"
    )
    assert {works.job(job).state for job in jobs} == {"queued"}


def test_short_ids_also_name_batches_and_redrives(
    invoke: Invoke, enqueue: Enqueue, works: App, read_json: ReadJson
) -> None:
    batch = works.batch("spring")
    batch.add(works.tasks["convert"].bind("bad"))
    end = batch.id[-8:]
    assert read_json(invoke("batches", "publish", end, *HERE, "--json"))["state"] == "processing"
    works.run_until_idle()
    assert read_json(invoke("batches", "show", end, *HERE, "--json"))["failed"] == 1
    assert len(read_json(invoke("jobs", "list", "--batch", end, *HERE, "--json"))["jobs"]) == 1
    begun = read_json(invoke("redrive", "--batch", end, "--yes", *HERE, "--json"))
    assert begun["filter"] == {"state": "failed", "batch": batch.id}
    assert read_json(invoke("redrive", "show", begun["id"][-8:], *HERE, "--json"))["id"] == begun["id"]
    assert read_json(invoke("redrive", "cancel", begun["id"][-8:], *HERE, "--json"))["state"] == "cancelled"
    assert len(read_json(invoke("batches", "retry", end, *HERE, "--json"))["retried"]) == 1
    assert read_json(invoke("batches", "cancel", end, *HERE, "--json"))["cancelled"] == 1


def test_lists_show_short_ids_that_name_the_job(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    jobs = [enqueue(), enqueue()]
    shown = [line.split()[0] for line in invoke("jobs", "list", *HERE).stdout.splitlines()[1:]]
    assert shown == [job[-12:] for job in reversed(jobs)]
    assert [read_json(invoke("jobs", "show", end, *HERE, "--json"))["id"] for end in shown] == jobs[::-1]
