"""`mulligan jobs`: list, show and explain jobs, and move them manually."""

import getpass
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mulligan import App, Job, JobFilter, RetryPolicy, State
from mulligan.cli.jobs import jobs
from mulligan.cli.parameters import when
from mulligan.lifecycle import VERBS

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")

# These names are a public contract.
SURFACE = [
    "id",
    "kind",
    "owner",
    "queue",
    "priority",
    "state",
    "attempt",
    "failures",
    "crashes",
    "snoozes",
    "manual_retries",
    "max_attempts",
    "retry_count",
    "max_retries",
    "submitted_at",
    "queued_at",
    "due_at",
    "started_at",
    "last_attempt_at",
    "finished_at",
    "updated_at",
    "progress",
    "result",
    "error_code",
    "error_class",
    "error_message",
    "group",
    "batch",
    "tags",
    "cost",
    "leased_by",
    "lease_until",
    "waiting_for",
    "is_duplicate",
]


def ids(found: Any) -> list[str]:
    return [job["id"] for job in found["jobs"]]


# List


def test_jobs_are_listed_as_json_with_the_names_of_the_contract(
    invoke: Invoke, enqueue: Enqueue, read_json: ReadJson
) -> None:
    job = enqueue("fine", run=True, tags=["eu"])
    (found,) = read_json(invoke("jobs", "list", "--json", *HERE))["jobs"]
    assert found.keys() >= set(SURFACE)
    assert found["id"] == job
    assert found["arguments"] == {"path": "fine"}
    assert (found["result"], found["tags"], found["max_retries"]) == ("FINE", ["eu"], 2)
    finished = datetime.fromisoformat(found["finished_at"])
    assert finished.utcoffset() == timedelta(0)


def test_a_long_list_comes_in_pages(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    made = [enqueue() for _ in range(3)]
    first = read_json(invoke("jobs", "list", "--limit", "2", "--json", *HERE))
    rest = read_json(invoke("jobs", "list", "--cursor", first["cursor"], "--json", *HERE))
    assert ids(first) + ids(rest) == made[::-1]
    assert rest["cursor"] is None


def test_a_list_for_people_says_how_to_see_more(invoke: Invoke, enqueue: Enqueue) -> None:
    _, newest = enqueue(), enqueue()
    shown = invoke("jobs", "list", "--limit", "1", *HERE)
    assert f"There are more: repeat the command with --cursor {newest}" in shown.stdout


def test_every_filter_finds_only_its_jobs(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson, works: App) -> None:
    failed = enqueue("bad", run=True)
    owned = enqueue(owner="acme", queue="bulk", tags=["eu"])
    group = works.job(failed).group or ""
    wanted = {
        ("--state", "failed"): [failed],
        ("--state", "queued"): [owned],
        ("--state", "queued", "--state", "failed"): [owned, failed],
        ("--id", failed[-8:]): [failed],
        ("--class", "final"): [failed],
        ("--service", "none"): [],
        ("--worker", "none"): [],
        ("--finished-since", "1h"): [failed],
        ("--kind", "convert"): [owned, failed],
        ("--kind", "mail"): [],
        ("--owner", "acme"): [owned],
        ("--queue", "bulk"): [owned],
        ("--code", "NOT_PDF"): [failed],
        ("--group", group): [failed],
        ("--tag", "eu"): [owned],
        ("--since", "1h"): [owned, failed],
        ("--until", "1h"): [],
        ("--since", "2020-01-01T12:00+02:00"): [owned, failed],
        ("--until", "2020-01-01"): [],
    }
    found = {option: ids(read_json(invoke("jobs", "list", *option, "--json", *HERE))) for option in wanted}
    assert found == wanted


def test_counts_are_by_state_or_by_another_field(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    enqueue("bad", run=True)
    enqueue(owner="acme")
    found = read_json(invoke("jobs", "counts", "--json", *HERE))
    assert found == {"by": "state", "groups": {"failed": 1, "queued": 1}, "total": 2, "at_least": False}
    printed = invoke("jobs", "counts", "--by", "code", "--state", "failed", *HERE).output
    assert [line.split() for line in printed.splitlines()] == [["Code", "Jobs"], ["NOT_PDF", "1"], ["1"]]
    assert invoke("jobs", "counts", "--kind", "none", *HERE).output == "No job matches.\n"


@pytest.mark.parametrize("value", ["yesterday", "", "0001-01-01T00:00+14:00", "2026-13-01"])
def test_an_invalid_time_is_refused_with_what_is_allowed(invoke: Invoke, enqueue: Enqueue, value: str) -> None:
    enqueue()
    refused = invoke("jobs", "list", "--since", value, *HERE)
    assert refused.exit_code == 2
    assert "is neither a time such as" in refused.stderr


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_time_without_a_zone_is_utc_in_every_timezone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert when("2026-01-31T12:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_empty_list_says_what_to_do_next(invoke: Invoke, works: App) -> None:
    works.migrate()
    assert invoke("jobs", "list", *HERE).stdout.startswith("No jobs yet. Enqueue one with your_task.enqueue(…)")
    assert invoke("jobs", "list", "--state", "failed", *HERE).stdout.startswith("No job matches.")


def test_a_damaged_row_is_named_and_hides_no_other(
    invoke: Invoke, enqueue: Enqueue, read_json: ReadJson, works: App
) -> None:
    healthy, damaged = enqueue(), enqueue()
    works.store._database.write(  # type: ignore[attr-defined]
        lambda db: db.execute("UPDATE mulligan_jobs SET tags = '{}' WHERE id = ?", (damaged,))
    )
    found = read_json(invoke("jobs", "list", "--json", *HERE))
    assert ids(found) == [healthy]
    assert damaged in found["damaged"][0]
    assert f"Unreadable: the row of job '{damaged}' is damaged" in invoke("jobs", "list", *HERE).stdout


def test_a_list_shows_the_exception_beside_the_message_for_people(
    invoke: Invoke, enqueue: Enqueue, works: App, read_json: ReadJson
) -> None:
    @works.task(retry=RetryPolicy(1))
    def once() -> None:
        raise OSError("the disk hiccuped")

    once.enqueue()
    enqueue("flaky", run=True)
    waits, failed = invoke("jobs", "list", *HERE).stdout.splitlines()[1:]
    line = works.jobs(JobFilter(state="failed")).jobs[0].error_message
    assert failed.endswith(f"UNKNOWN: {line} (OSError: the disk hiccuped)")
    assert "retry, due in 1h; last UNKNOWN: " in waits and waits.endswith("(OSError: the disk hiccuped)")
    found = read_json(invoke("jobs", "list", "--last-code", "UNKNOWN", "--state", "waiting", "--json", *HERE))["jobs"]
    assert [(job["error_code"], job["last_code"], job["last_class"]) for job in found] == [
        (None, "UNKNOWN", "retryable")
    ]
    assert found[0]["last_detail"] == "OSError: the disk hiccuped"
    assert len(read_json(invoke("jobs", "list", "--code", "UNKNOWN", "--json", *HERE))["jobs"]) == 1


def test_a_list_says_what_blocks_a_job(invoke: Invoke, enqueue: Enqueue, works: App, read_json: ReadJson) -> None:
    job = enqueue()
    works.pause("1h", queue="default", actor="ann")
    assert "queued now, blocked by the pause of queue default" in invoke("jobs", "list", *HERE).stdout
    for words in (("list",), ("show", job)):
        found = read_json(invoke("jobs", *words, "--json", *HERE))
        assert found.get("jobs", [found])[0]["blocked_by"] == "pause/queue/default"
    assert "blocked by the pause of queue default" in invoke("jobs", "show", job, *HERE).stdout


@pytest.mark.parametrize("columns", ["20", "40", "80", "100", "200"])
def test_ids_are_not_cut_on_narrow_terminals(
    invoke: Invoke, enqueue: Enqueue, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    job = enqueue("bad", run=True)
    monkeypatch.setenv("COLUMNS", columns)
    shown = invoke("jobs", "list", *HERE).stdout
    assert job[-12:] in shown
    assert "NOT_PDF" in shown


# Show


def test_show_prints_every_field(invoke: Invoke, enqueue: Enqueue) -> None:
    job = enqueue("fine", run=True, owner="acme")
    shown = invoke("jobs", "show", job, *HERE).stdout
    assert shown.startswith(f"convert {job} has succeeded: finished ")
    assert '"path": "fine"' in shown
    assert '"FINE"' in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("owner")] == [["owner", "acme"]]
    assert "job.succeeded" in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("timeout")] == [["timeout", "15m"]]


def test_show_prints_the_technical_detail_only_on_request(invoke: Invoke, enqueue: Enqueue) -> None:
    job = enqueue("bad", run=True)
    plain = invoke("jobs", "show", job, *HERE).stdout
    assert "Traceback" not in plain
    assert [line.split()[1:] for line in plain.splitlines() if line.startswith("error_detail")] == [
        ["mulligan.errors.FinalError:", "not", "a", "PDF"]
    ]
    assert f"mulligan jobs show {job} --detail" in plain
    assert "FinalError: not a PDF" in invoke("jobs", "show", job, "--detail", *HERE).stdout


def test_show_as_json_includes_the_events(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    job = enqueue("flaky", run=True)
    found = read_json(invoke("jobs", "show", job, "--json", *HERE))
    assert (found["id"], found["state"], found["retry_count"]) == (job, "waiting", 1)
    assert [event["type"] for event in found["events"]] == ["job.enqueued", "job.started", "job.retried"]
    assert found["events"][-1]["data"]["delay"] == 3600


# Explain


def test_explain_says_what_happened_and_what_comes_next(invoke: Invoke, enqueue: Enqueue) -> None:
    job = enqueue("flaky", run=True)
    said = invoke("jobs", "explain", job, *HERE).stdout
    assert said.startswith(f"convert {job} is waiting.")
    assert "failure 1 of 3); it is retried 1h later." in said
    assert "It waits for its next attempt until " in said
    assert "Its last failure was " in said and "(OSError: the disk hiccuped)" in said
    assert f"mulligan jobs show {job} --detail" in said


def test_explain_as_json_separates_past_and_future(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    job = enqueue()
    found = read_json(invoke("jobs", "explain", job, "--json", *HERE))
    assert found["job"]["id"] == job
    assert found["happened"][0].endswith("It was enqueued, to run at once.")
    assert any("no worker is alive" in sentence for sentence in found["next"])


def test_explain_as_json_has_what_holds_the_job_and_what_can_be_done(
    invoke: Invoke, enqueue: Enqueue, read_json: ReadJson, works: App
) -> None:
    job = enqueue("flaky", run=True)
    works.pause("1h", kind="convert", actor="anna", reason="bad deploy")
    found = read_json(invoke("jobs", "explain", job, "--json", *HERE))
    waits, paused, *_ = found["holds"]
    assert (waits["code"], waits["until"]) == ("retry", found["job"]["due_at"])
    assert (paused["code"], paused["by"], paused["actor"]) == ("paused", "pause/kind/convert", "anna")
    assert [action["command"] for action in paused["actions"]] == ["mulligan resume --kind convert"]
    assert [action["code"] for action in found["actions"]] == ["retry", "run-now", "cancel", "snooze"]


def test_the_owner_sees_no_worker_no_person_and_no_command(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    job = enqueue("flaky", run=True)
    works.pause("1h", kind="convert", actor="anna", reason="bad deploy")
    said = invoke("jobs", "explain", job, "--for-owner", *HERE).stdout
    assert "Its kind 'convert' is paused until" in said
    assert not [word for word in ("anna", "bad deploy", "mulligan", "OSError", "process ") if word in said]


@pytest.mark.parametrize("command", ["show", "explain"])
def test_a_missing_job_is_not_found(invoke: Invoke, enqueue: Enqueue, command: str) -> None:
    enqueue()
    missing = invoke("jobs", command, "nobody", *HERE)
    assert (missing.exit_code, missing.stdout) == (4, "")
    assert (
        missing.stderr
        == "Error: there is no job 'nobody': no id begins with that, and none of the newest 1,000,000 ends with it\n"
    )
    few = invoke("jobs", command, "12345", *HERE)
    assert few.exit_code == 4
    assert few.stderr.endswith("; give the whole id, or at least 6 characters of its beginning or its end\n")


# Manual moves


def test_every_verb_of_the_lifecycle_is_a_command() -> None:
    others = {
        "list",
        "release-key",
        "show",
        "explain",
        "stuck",
        "process-stuck",
        "export",
        "purge",
        "position",
        "last-failures",
        "expire-result",
        "counts",
    }
    assert set(jobs.commands) == {*others, *VERBS.values()}


def moved(works: App, job: str) -> Job[Any]:
    return works.job(job)


def test_cancel_cancels(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    job = enqueue()
    said = invoke("jobs", "cancel", job, *HERE)
    assert said.exit_code == 0
    assert said.stdout.startswith(f"{job} was cancelled. It was cancelled by {getpass.getuser()} at ")
    assert moved(works, job).state is State.CANCELLED


def test_snooze_postpones_a_job_by_the_duration(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    job = enqueue()
    before = datetime.now(UTC)
    said = invoke("jobs", "snooze", job, "1h30m", "--reason", "maintenance", *HERE)
    assert f"{job} is waiting. It was snoozed and waits until " in said.stdout
    due = moved(works, job).due_at
    assert timedelta(minutes=89) < due - before < timedelta(minutes=91)


def test_run_now_runs_a_waiting_job(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    job = enqueue(delay="1h")
    assert invoke("jobs", "run-now", job, *HERE).exit_code == 0
    assert moved(works, job).state is State.QUEUED


def test_retry_starts_a_failed_job_again(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    job = enqueue("bad", run=True)
    (found,) = read_json(invoke("jobs", "retry", job, "--json", *HERE))["jobs"]
    assert (found["state"], found["failures"], found["manual_retries"]) == ("queued", 0, 1)


@pytest.mark.parametrize("verb", ["retry", "run-now", "cancel"])
def test_a_move_that_the_state_forbids_is_not_possible_now(invoke: Invoke, enqueue: Enqueue, verb: str) -> None:
    job = enqueue("fine", run=True)
    refused = invoke("jobs", verb, job, *HERE)
    assert (refused.exit_code, refused.stdout) == (5, "")
    assert refused.stderr == (
        f"Error: cannot {verb} job '{job}': it is succeeded; nothing can be done with a succeeded job\n"
    )


def test_a_command_with_a_request_id_is_carried_out_once(
    invoke: Invoke, enqueue: Enqueue, works: App, read_json: ReadJson
) -> None:
    first, second = enqueue("fine"), enqueue("fine")
    words = ("jobs", "cancel", first, second, "--request-id", "r-1", "--json", *HERE)
    answer = read_json(invoke(*words))
    assert read_json(invoke(*words)) == answer
    assert [job["state"] for job in answer["jobs"]] == ["cancelled", "cancelled"]
    assert [event.type for event in works.events(first)].count("job.cancelled") == 1
    paused = ("pause", "--kind", "convert", "--request-id", "r-2", "--json", *HERE)
    assert read_json(invoke(*paused)) == read_json(invoke(*paused))
    refused = invoke("pause", "--kind", "convert", "--reason", "another", "--request-id", "r-2", *HERE)
    assert (refused.exit_code, "was used for another request" in refused.stderr) == (5, True)


def test_release_key_frees_the_dedupe_key_of_a_job_that_is_over(
    invoke: Invoke, enqueue: Enqueue, works: App, read_json: ReadJson
) -> None:
    job = works.tasks["convert"].options(dedupe="k", dedupe_for="1d").enqueue("fine")
    refused = invoke("jobs", "release-key", job.id, *HERE)
    assert (refused.exit_code, "only a job that is over" in refused.stderr) == (5, True)
    works.cancel(job.id)
    (released,) = read_json(invoke("jobs", "release-key", job.id, "--reason", "lost", "--json", *HERE))["jobs"]
    assert (released["state"], released["dedupe_key"]) == ("cancelled", None)
    assert f"{job.id} holds no dedupe key any more" in invoke("jobs", "release-key", job.id, *HERE).stdout
    assert not works.tasks["convert"].options(dedupe="k", dedupe_for="1d").enqueue("fine").is_duplicate


def test_each_of_several_jobs_gets_its_own_result(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    first, done, last = enqueue(delay="1h"), enqueue("fine", run=True), enqueue()
    said = invoke("jobs", "cancel", first, "nobody", done, last, first, *HERE)
    assert said.exit_code == 5
    assert [line.split()[0] for line in said.stdout.splitlines()] == [first, last]
    assert [line.split(":")[0] for line in said.stderr.splitlines()] == ["nobody", done]
    assert {moved(works, job).state for job in (first, last)} == {State.CANCELLED}


def test_the_results_of_several_jobs_are_printed_as_json(invoke: Invoke, enqueue: Enqueue) -> None:
    job = enqueue()
    said = invoke("jobs", "cancel", job, "nobody", "--json", *HERE)
    assert said.exit_code == 5
    found = json.loads(said.stdout)
    assert ids(found) == [job]
    (error,) = found["errors"]
    assert (error["id"], error["type"]) == ("nobody", "JobNotFound")
    assert error["message"].startswith("there is no job 'nobody'")


def test_a_snooze_into_the_past_is_refused_as_a_duration(invoke: Invoke, enqueue: Enqueue) -> None:
    job = enqueue()
    for past in ("-5s", "-1h"):
        refused = invoke("jobs", "snooze", job, past, *HERE)
        assert refused.exit_code == 2 and f"'{past}' is not a duration" in refused.stderr
    assert invoke("jobs", "snooze", job, "5s", "--reason", "-5 degrees", *HERE).exit_code == 0


def test_several_jobs_are_snoozed_for_one_duration(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    made = [enqueue(), enqueue()]
    assert invoke("jobs", "snooze", *made, "2h", *HERE).exit_code == 0
    assert {moved(works, job).waiting_for for job in made} == {"snooze"}


def test_a_bad_duration_moves_nothing(invoke: Invoke, enqueue: Enqueue, works: App) -> None:
    job = enqueue()
    refused = invoke("jobs", "snooze", "1h", job, *HERE)
    assert refused.exit_code == 2
    assert f"'{job}' is not a duration" in refused.stderr
    assert moved(works, job).state is State.QUEUED


def test_the_precondition_of_a_task_is_checked_if_its_app_is_named(invoke: Invoke, shop: str, tmp_path: Path) -> None:
    made = App("sqlite:///jobs.db")

    @made.task
    def mark(path: str) -> None: ...

    with made:
        job = made.tasks["mark"].enqueue("a.mp4").id
        made.cancel(job)
    refused = invoke("jobs", "retry", job, "--app", shop)
    assert (refused.exit_code, refused.stderr) == (5, "Error: the source file is gone\n")
    assert invoke("jobs", "retry", job, *HERE).exit_code == 0


def test_a_user_without_a_name_is_an_actor_too(
    invoke: Invoke, enqueue: Enqueue, works: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", nameless)
    job = enqueue()
    assert invoke("jobs", "cancel", job, *HERE).exit_code == 0
    assert (works.events(job)[-1].actor or "").startswith("user ")


@pytest.mark.parametrize("group", ["jobs", "batches"])
@pytest.mark.parametrize("cursor", ["abc", "'"])
def test_an_invalid_cursor_is_wrong_usage(
    invoke: Callable[..., Result], shop: str, enqueue: Callable[..., str], group: str, cursor: str
) -> None:
    enqueue()
    result = invoke("--app", shop, group, "list", "--cursor", cursor)
    assert result.exit_code == 2
    assert "the previous page" in result.stderr


def test_a_queued_job_knows_its_place(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    done, first, second = enqueue("fine", run=True), enqueue("fine"), enqueue("fine")
    assert invoke("jobs", "position", first, *HERE).stdout == f"{first} is number 1 in the queue.\n"
    assert invoke("jobs", "position", done, *HERE).stdout == f"{done} is not queued.\n"
    found = read_json(invoke("jobs", "position", second, "--json", *HERE))
    assert found == {"id": second, "position": 2, "at_least": False}
    assert invoke("jobs", "position", "nobody", *HERE).exit_code == 4


def test_the_last_failures_of_several_jobs_are_shown(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    failed, fine = enqueue("bad", run=True), enqueue("fine", run=True)
    found = read_json(invoke("jobs", "last-failures", failed, fine, "--json", *HERE))["failures"]
    assert list(found) == [failed]
    assert found[failed]["code"] in invoke("jobs", "last-failures", failed, fine, *HERE).stdout
    assert invoke("jobs", "last-failures", fine, *HERE).stdout == "None of them has failed.\n"


def test_the_result_of_a_job_is_expired(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    done, failed = enqueue("fine", run=True), enqueue("bad", run=True)
    said = invoke("jobs", "expire-result", done, "--reason", "private", "--actor", "ann", *HERE).stdout
    assert said.startswith(f"{done} has no result any more. ")
    assert "It expired" in invoke("jobs", "show", done, *HERE).stdout
    (found,) = read_json(invoke("jobs", "expire-result", done, "--json", *HERE))["jobs"]
    assert (found["result"], found["result_expired_at"] is not None) == (None, True)
    assert invoke("jobs", "expire-result", failed, *HERE).exit_code == 5


def test_several_missing_jobs_are_not_found(invoke: Invoke, enqueue: Enqueue) -> None:
    done = enqueue("fine", run=True)
    assert invoke("jobs", "run-now", "x", "y", *HERE).exit_code == 4
    assert invoke("jobs", "run-now", "x", done, *HERE).exit_code == 5


@pytest.mark.parametrize(
    "args", [("jobs", "show"), ("batches", "show"), ("batches", "cancel"), ("redrive", "show"), ("redrive", "cancel")]
)
def test_nothing_is_found_in_an_unused_app(invoke: Invoke, shop: str, tmp_path: Path, args: tuple[str, ...]) -> None:
    assert invoke("--app", shop, *args, "x").exit_code == 4
    assert not (tmp_path / "jobs.db").exists()
