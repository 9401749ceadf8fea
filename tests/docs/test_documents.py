"""JSON documents: every record has one, its fields are stable, and its schema says what it really contains."""

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import docs_documents as documents
import msgspec
import pytest

from mulligan import App, Job, JobFilter, State
from mulligan.records.document import VERSION, Shape, document_of, document_type, record_of, schemas

RECORDS = documents.records()
NAMED = (
    *("Job", "Event", "Batch", "Redrive", "Pause", "ServiceStatus", "LimitRecord", "SpendingRecord", "ScheduleStatus"),
    *("DutyStatus", "DutyRun", "WorkerRecord", "Finding", "Explanation", "Hold", "Action", "Reclassification", "Purge"),
    *("Retried", "Page", "JobFilter"),
)


def test_a_document_loses_no_field_unless_its_version_grows() -> None:
    stored, now = documents.stored(), documents.golden()
    broken = list(documents.breaking_changes(stored, now))
    assert not broken or stored["version"] != VERSION, (
        f"{broken}: restore these fields, or raise VERSION in records/document.py, name them in CHANGELOG.md and run "
        "`make docs`; if this version was never released, delete the golden file instead"
    )
    assert stored == now, "the documents have changed: add the new fields to CHANGELOG.md and run `make docs`"
    assert documents.PAGE.read_text("utf-8") == documents.page(), "run `make docs`"


def test_every_public_record_has_a_document() -> None:
    assert set(NAMED) <= RECORDS.keys()


@pytest.mark.parametrize("name", RECORDS)
def test_a_document_is_what_its_schema_says(name: str) -> None:
    kind = RECORDS[name]
    document = documents.example_document(kind)
    msgspec.convert(document, document_type(kind))
    _, components = schemas([kind])
    assert set(document) == set(components[name]["properties"])
    assert documents.fields_of(components[name]).items() <= documents.stored()["documents"][name]["fields"].items()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_can_be_read_from_its_document(name: str) -> None:
    kind = RECORDS[name]
    document = json.loads(json.dumps(documents.example_document(kind)))
    found = record_of(kind, document | {"unknown": 1}, _batches=None)
    given = getattr(kind, "_shape", Shape()).given
    assert document_of(found) == {field: value for field, value in document.items() if field not in given}
    if name != "Redrive":  # a document does not have all of its course
        assert found == documents.example_record(kind)


@pytest.mark.parametrize("name", [name for name in RECORDS if name not in ("JobFilter", "RetryBudget")])
def test_a_document_without_a_value_is_no_record(name: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        record_of(RECORDS[name], {}, _batches=None)


def test_a_record_has_the_types_of_its_fields_not_those_of_json() -> None:
    job = record_of(Job, documents.example_document(Job))
    assert job.state is State.WAITING and job.timeout == timedelta(seconds=90) and job.due_at == documents.NOON
    with pytest.raises(ValueError, match="is not a str"):
        record_of(Job, documents.example_document(Job) | {"id": 7})


def test_a_document_of_a_real_job_is_what_its_schema_says(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def convert(name: str) -> str:
            return name

        job = convert.enqueue("a")
        app.run_until_idle()
        assert msgspec.convert(document_of(app.job(job.id)), document_type(Job)).result == "a"
        for event in app.events(job.id):
            msgspec.convert(document_of(event), document_type(type(event)))
        msgspec.convert(document_of(app.explain(job.id)), document_type(RECORDS["Explanation"]))
        for finding in (*app.doctor(), *app.duties(), *app.workers()):
            msgspec.convert(document_of(finding), document_type(type(finding)))


CHANGES: dict[str, tuple[Any, list[str]]] = {
    "a new field": (lambda golden: golden["documents"]["Job"]["fields"].update(shoe="string"), []),
    "a new value": (lambda golden: golden["values"]["State"].append("lost"), []),
    "a lost field": (lambda golden: golden["documents"]["Job"]["fields"].pop("owner"), ["Job.owner is gone"]),
    "another type": (
        lambda golden: golden["documents"]["Job"]["fields"].update(cost="string"),
        ["Job.cost was integer and is string"],
    ),
    "a lost value": (
        lambda golden: golden["values"]["State"].remove("failed"),
        ["the value 'failed' of State is gone"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_only_what_breaks_programs_needs_a_new_version(name: str) -> None:
    change, expected = CHANGES[name]
    new = copy.deepcopy(documents.stored())
    change(new)
    assert list(documents.breaking_changes(documents.stored(), new)) == expected


def test_fields_that_were_not_asked_for_are_left_out() -> None:
    job = documents.example_record(Job)
    assert "blocked_by" not in document_of(job)
    assert document_of(job, blocked_by=None)["blocked_by"] is None
    with pytest.raises(TypeError, match="no documented field 'color'"):
        document_of(job, color="red")


def test_a_filter_has_only_the_fields_that_were_given() -> None:
    wanted = JobFilter(kind="convert", since=datetime(2026, 3, 4, tzinfo=UTC))
    assert document_of(wanted) == {"kind": "convert", "since": "2026-03-04T00:00:00+00:00"}


def test_one_set_of_types_serves_the_schemas_of_all_documents() -> None:
    found, components = schemas(list(RECORDS.values()))
    assert [one["$ref"] for one in found] == [f"#/components/schemas/{name}" for name in RECORDS]
    assert components["Job"]["properties"]["state"] == {"$ref": "#/components/schemas/State"}
    assert components["Job"]["properties"]["submitted_at"] == {"type": "string", "format": "date-time"}
    assert components["Explanation"]["properties"]["holds"]["items"] == {"$ref": "#/components/schemas/Hold"}
