"""`mulligan jobs export` and `purge`: write dead letters as JSON lines, and delete them after a preview."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mulligan import App
from mulligan.console.dead_letters import BATCH, PAGE, PAGE_WITH_EVENTS
from mulligan.errors import BadFilter, StoreDamaged
from mulligan.records.event import Event
from mulligan.records.job import JobFilter
from mulligan.store.sqlite import SqliteStore
from mulligan.wiring import AppParts

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")
PURGE = ("jobs", "purge", "--state", "failed", "--older-than", "0s", *HERE)


@pytest.fixture
def failed(enqueue: Enqueue) -> list[str]:
    """Two failed jobs and one that succeeded."""
    enqueue("fine", run=True)
    return [enqueue("bad", run=True, owner=owner, tags=["eu"]) for owner in ("acme", "other")]


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_failed_jobs_are_exported_one_a_line_with_every_field(
    invoke: Invoke, works: App, failed: list[str], read_json: ReadJson
) -> None:
    found = lines(invoke("jobs", "export", "--state", "failed", *HERE))
    assert [job["id"] for job in found] == list(reversed(failed))
    shown = read_json(invoke("jobs", "show", failed[0], "--json", *HERE))
    history, blocked_by = shown.pop("events"), shown.pop("blocked_by")
    assert found[1] == shown and blocked_by is None
    assert (found[1]["arguments"], found[1]["error_code"], found[1]["tags"]) == ({"path": "bad"}, "NOT_PDF", ["eu"])
    (told,) = lines(invoke("jobs", "export", "--owner", "acme", "--events", *HERE))
    assert told["events"] == history
    assert len(history) == 3


def test_only_the_ids_are_exported_for_other_commands(invoke: Invoke, failed: list[str]) -> None:
    assert invoke("jobs", "export", "--code", "NOT_PDF", "--ids", *HERE).stdout.split() == list(reversed(failed))


def test_an_export_reads_all_pages_while_new_jobs_arrive(works: App) -> None:
    convert = works.tasks["convert"]
    ids = [job.id for job in works.enqueue_many([convert.bind("fine") for _ in range(2 * PAGE + 1)])]
    letters = works.export(JobFilter(kind="convert"))
    found = [next(letters).job.id]
    convert.enqueue("fine")
    found += [letter.job.id for letter in letters]
    assert found == list(reversed(ids))


def test_an_export_with_events_reads_many_histories_at_once(tmp_path: Path) -> None:
    reads: list[str] = []

    class Told(SqliteStore):
        def histories(self, jobs: Sequence[str]) -> dict[str, list[Event]]:
            reads.append("histories")
            return super().histories(jobs)

        def events(self, **wanted: Any) -> list[Event]:
            reads.append("events")
            return super().events(**wanted)

    app = App(f"sqlite:///{tmp_path}/told.db")
    fine = app.task("fine")(lambda: None)
    with app.wiring.use(AppParts(open_store=lambda url, services: Told(url, services=services))):
        app.enqueue_many([fine.bind() for _ in range(2 * PAGE_WITH_EVENTS + 1)])
        letters = list(app.export(events=True))
        assert len(letters) == 2 * PAGE_WITH_EVENTS + 1
        assert all({event.job for event in letter.events} == {letter.job.id} for letter in letters)
    assert reads == ["histories"] * 3


def test_a_damaged_row_does_not_stop_the_export_and_is_named_at_the_end(
    invoke: Invoke, works: App, failed: list[str]
) -> None:
    works.store._database.write(  # type: ignore[attr-defined]
        lambda db: db.execute("UPDATE mulligan_jobs SET tags = '{}' WHERE id = ?", (failed[1],))
    )
    result = invoke("jobs", "export", "--state", "failed", *HERE)
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == failed[:1]
    assert result.exit_code == 5
    assert "1 rows could not be read; all others were exported" in result.stderr
    with pytest.raises(StoreDamaged, match=failed[1]):
        list(works.export())


def test_a_purge_without_apply_only_counts(invoke: Invoke, works: App, failed: list[str]) -> None:
    said = invoke(*PURGE)
    assert said.exit_code == 0
    assert said.stdout.splitlines()[1].split() == ["convert", "failed", "NOT_PDF", "2"]
    assert "2 jobs would be deleted with their history. To delete them, repeat the command with --apply" in said.stdout
    assert len(works.jobs().jobs) == 3


def test_a_purge_deletes_matching_jobs_and_logs_actor_and_reason(
    invoke: Invoke, works: App, failed: list[str], read_json: ReadJson
) -> None:
    done = read_json(invoke(*PURGE, "--owner", "acme", "--apply", "--actor", "ann", "--reason", "mended", "--json"))
    assert (done["purged"], done["found"], done["held"], done["is_dry"]) == (1, 1, 0, False)
    assert done["piles"] == [{"kind": "convert", "state": "failed", "code": "NOT_PDF", "is_held": False, "number": 1}]
    assert {job.id for job in works.jobs(JobFilter(state="failed")).jobs} == {failed[1]}
    assert invoke("jobs", "show", failed[0], *HERE).exit_code == 4
    event = works.events()[-1]
    assert (event.type, event.actor, event.data["reason"], event.data["did"]) == ("jobs.purged", "ann", "mended", 1)
    assert event.data["name"] == "jobs of state failed, owner acme, over for more than 0s"
    assert "1 deleted" in invoke("events", *HERE).stdout


def test_recent_and_held_jobs_are_not_purged(invoke: Invoke, works: App, enqueue: Enqueue, failed: list[str]) -> None:
    enqueue("bad", run=True, dedupe="k", dedupe_for="1d")
    assert "No job to delete." in invoke(*PURGE, "--older-than", "1h").stdout
    said = invoke(*PURGE, "--apply").stdout
    assert "1 job held and kept: a dedupe key or an open batch still refers to them." in said
    assert "2 jobs deleted with their history." in said


def test_many_jobs_are_purged_in_batches(works: App) -> None:
    jobs = works.enqueue_many([works.tasks["convert"].bind("fine") for _ in range(BATCH + 1)])
    for job in jobs:
        works.cancel(job.id)
    done = works.purge(JobFilter(state="cancelled"), older_than=0, dry_run=False, actor="ann")
    assert (done.found, done.purged) == (BATCH + 1, BATCH + 1)
    assert [event.data["did"] for event in works.events() if event.type == "jobs.purged"] == [BATCH, 1]


@pytest.mark.parametrize("state", ["queued", "running", "waiting"])
def test_only_jobs_that_are_over_can_be_purged(invoke: Invoke, works: App, state: str) -> None:
    works.migrate()
    refused = invoke("jobs", "purge", "--state", state, "--older-than", "1d", *HERE)
    assert refused.exit_code == 2
    assert "it must be one of succeeded, failed, cancelled" in refused.stderr
    with pytest.raises(BadFilter):
        works.purge(JobFilter(state=state), older_than="1d", dry_run=False)


def test_older_than_is_required(invoke: Invoke, works: App) -> None:
    assert "Missing option '--older-than'" in invoke("jobs", "purge", *HERE).stderr
    assert "is not a duration" in invoke("jobs", "purge", "--older-than", "old", *HERE).stderr
