"""`mulligan duties`, `pause`, `resume`, `jobs stuck` and `process-stuck`."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mulligan import App
from mulligan.lifecycle import State
from mulligan.records.duty import DUTIES
from mulligan.store.messages import Claim

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")
AN_HOUR = 3_600_000_000


@pytest.fixture
def stuck(works: App, enqueue: Enqueue) -> str:
    """A job that has been running for an hour; its worker still holds it."""
    job = enqueue()
    works.store.claim(Claim(incarnation="w", number=1, kinds=["convert"], limit=1, lease=timedelta(days=1)))
    works.store._database.write(  # type: ignore[attr-defined]
        lambda db: db.execute("UPDATE mulligan_jobs SET last_attempt_at = last_attempt_at - ?", (AN_HOUR,))
    )
    return job


def test_every_duty_is_listed_even_before_the_first_worker(invoke: Invoke, works: App, read_json: ReadJson) -> None:
    works.migrate()
    shown = invoke("duties", *HERE).stdout
    names = ["reclaim", "retry", "promote", "expire", "schedule", "redrive", "probe"]
    names += ["project", "notify", "digest", "alert", "prune"]
    assert [line.split()[0] for line in shown.splitlines()[1:13]] == names
    assert "never" in shown
    assert "No worker runs them now. Start one with: mulligan worker MODULE:APP" in shown
    duties = read_json(invoke("duties", "--json", *HERE))["duties"]
    aliases = "STUCK_JOBS FAILED_JOBS DELAYED_JOBS EXPIRED_JOBS SCHEDULED_JOBS REDRIVES SERVICE_PROBES PROJECTIONS "
    aliases += "NOTIFICATIONS DIGESTS ALERTS OLD_JOBS"
    assert [duty["alias"] for duty in duties] == aliases.split()
    assert {(duty["last"], duty["next"], duty["paused"], duty["workers"]) for duty in duties} == {(None, None, None, 0)}


@pytest.mark.parametrize("words", [("duties", "pause", "retry"), ("pause", "--duty", "FAILED_JOBS")])
def test_a_duty_is_paused_for_a_while_and_resumed(
    invoke: Invoke, works: App, read_json: ReadJson, words: tuple[str, ...]
) -> None:
    works.migrate()
    said = invoke(*words, "--for", "30m", "--actor", "ann", "--reason", "the gateway is down", *HERE)
    assert said.exit_code == 0
    assert said.stdout.startswith("retry is paused until ")
    assert said.stdout.endswith('(in 30m) by ann because "the gateway is down".\n')
    assert 'by ann because "the gateway is down"' in invoke("duties", *HERE).stdout
    paused = {duty["name"]: duty["paused"] for duty in read_json(invoke("duties", "--json", *HERE))["duties"]}
    assert (paused["retry"]["actor"], paused["promote"]) == ("ann", None)
    assert "duty.paused" in invoke("events", *HERE).stdout
    again = ("resume", *words[1:]) if words[0] == "pause" else ("duties", "resume", "retry")
    assert invoke(*again, *HERE).stdout == "retry is resumed.\n"
    assert "was not paused" in invoke(*again, *HERE).stdout
    assert works.store.pauses() == []


def test_explain_says_that_retries_are_paused_by_whom_and_why(invoke: Invoke, works: App, enqueue: Enqueue) -> None:
    job = enqueue("flaky", run=True)
    invoke("pause", "--duty", "retry", "--for", "2h", "--actor", "ann", "--reason", "the gateway is down", *HERE)
    said = invoke("jobs", "explain", job, *HERE).stdout
    assert "Retries are paused until " in said
    assert 'by ann because "the gateway is down"' in said
    assert "mulligan duties resume retry" in said


def test_a_paused_duty_can_be_run_manually(invoke: Invoke, works: App, enqueue: Enqueue, read_json: ReadJson) -> None:
    job = enqueue(delay="1ms")
    works.pause(duty="promote")
    works.run_until_idle(timeout=20)
    assert works.job(job).state is State.WAITING
    assert invoke("duties", "run", "DELAYED_JOBS", *HERE).stdout == "promote ran here: 1 job moved.\n"
    assert invoke("duties", "run", "prune", *HERE).stdout == "prune ran here: 0 jobs deleted.\n"
    assert works.job(job).state is State.QUEUED
    assert read_json(invoke("duties", "run", "promote", "--json", *HERE))["did"] == 0
    works.resume(duty="promote")
    assert "run manually by" in invoke("duties", *HERE).stdout


@pytest.mark.parametrize("verb", ["run", "pause", "resume"])
def test_an_unknown_duty_is_not_found(invoke: Invoke, works: App, verb: str) -> None:
    works.migrate()
    refused = invoke("duties", verb, "sweep", "--json", *HERE)
    assert refused.exit_code == 4
    message = json.loads(refused.stderr)["error"]["message"]
    known = ", ".join(sorted(repr(duty.name) for duty in DUTIES))
    assert message == f"no duty is named 'sweep'; known are: {known}"


@pytest.mark.parametrize("words", [("pause",), ("duties", "pause", "retry", "--for", "soon"), ("duties", "pause")])
def test_an_invalid_pause_is_refused(invoke: Invoke, works: App, words: tuple[str, ...]) -> None:
    works.migrate()
    assert invoke(*words, *HERE).exit_code == 2


def test_nothing_is_paused_in_a_missing_database(invoke: Invoke, tmp_path: Path, shop: str) -> None:
    refused = invoke("duties", "pause", "retry", "--app", shop)
    assert refused.exit_code == 5
    assert not list(tmp_path.glob("*.db*"))


# Stuck jobs


def test_without_stuck_jobs_it_says_so(invoke: Invoke, works: App) -> None:
    works.migrate()
    assert invoke("jobs", "stuck", *HERE).stdout.startswith("No job is stuck: none runs longer than 30m")
    assert invoke("jobs", "process-stuck", *HERE).stdout == "No job is stuck.\n"


def test_a_stuck_job_is_listed_and_explained(invoke: Invoke, stuck: str, read_json: ReadJson) -> None:
    assert stuck[-12:] in invoke("jobs", "stuck", *HERE).stdout
    assert [job["id"] for job in read_json(invoke("jobs", "stuck", "--json", *HERE))["jobs"]] == [stuck]
    said = invoke("jobs", "explain", stuck, *HERE).stdout
    assert "It is stuck: it has run for longer than 30m" in said
    assert f"mulligan jobs retry {stuck}" in said


def test_the_stuck_limit_is_a_setting(invoke: Invoke, stuck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_STUCK_AFTER_SEC", "7200")
    assert "No job is stuck: none runs longer than 2h" in invoke("jobs", "stuck", *HERE).stdout


@pytest.mark.parametrize("words", [("jobs", "process-stuck"), ("duties", "run", "reclaim")])
def test_processing_stuck_jobs_settles_them_as_timed_out(
    invoke: Invoke, works: App, stuck: str, words: tuple[str, ...]
) -> None:
    assert invoke(*words, "--actor", "ann", *HERE).exit_code == 0
    job, event = works.job(stuck), works.events(stuck)[-1]
    assert (job.state, job.failures, job.leased_by) == (State.WAITING, 1, None)
    assert (event.code, event.actor) == ("TIMEOUT", "ann")


def test_a_stuck_job_is_retried_manually(invoke: Invoke, works: App, stuck: str) -> None:
    assert invoke("jobs", "retry", stuck, *HERE).exit_code == 0
    job = works.job(stuck)
    assert (job.state, job.failures, job.manual_retries) == (State.QUEUED, 0, 1)


def test_a_healthy_running_job_is_not_taken_from_its_worker(invoke: Invoke, works: App, enqueue: Enqueue) -> None:
    job = enqueue()
    works.store.claim(Claim(incarnation="w", number=1, kinds=["convert"], limit=1, lease=timedelta(days=1)))
    refused = invoke("jobs", "retry", job, "--json", *HERE)
    assert refused.exit_code == 5
    assert json.loads(refused.stderr)["error"]["type"] == "StillRunning"
    assert "cancel, or retry once it is stuck" in refused.stderr
    assert works.job(job).leased_by == "w"


@pytest.mark.parametrize("words", [("pause", "--duty", "retry"), ("duties", "pause", "retry")])
@pytest.mark.parametrize(("length", "said"), [("0s", "duration is 0s, but it must"), ("-5s", "not negative")])
def test_a_pause_of_zero_length_is_wrong_usage(
    invoke: Invoke, works: App, words: tuple[str, ...], length: str, said: str
) -> None:
    works.migrate()
    refused = invoke(*words, f"--for={length}", *HERE)
    assert refused.exit_code == 2 and said in refused.stderr
    assert works.pauses() == []
