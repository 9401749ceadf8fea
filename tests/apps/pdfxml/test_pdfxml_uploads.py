"""Uploads: what is accepted, what leaves a failed record, and twins."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apps.pdfxml.api import answer_upload
from apps.pdfxml.conversions import complete
from apps.pdfxml.uploads import Source, accept
from pdfxml_files import ENCRYPTED, INVOICE, NO_PAGES, TRUNCATED, ZIP, unique_pdf
from pdfxml_world import World

from mulligan import JobFailed

MakeWorld = Callable[..., Any]
# Where the store makes no difference.
SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


NO_PDF = {"empty.pdf": b"", "zip.pdf": ZIP, "page.pdf": b"<html>", "photo.pdf": b"\x89PNG"}


@SQLITE
def test_p1_what_is_no_pdf_is_a_400_with_a_failed_record(world: World) -> None:
    person = world.person()
    for name, content in NO_PDF.items():
        answer = person.upload(content, name=name)
        assert (answer.status_code, answer.json()["code"]) == (400, "NOT_PDF"), name
        assert answer.headers["content-type"] == "application/problem+json"
        job = person.jobs()[0]
        assert (job["status"], job["error_code"], job["file_name"]) == ("failed", "NOT_PDF", name)
        assert job["id"] == answer.json()["job"]["id"]
        assert [event["event"] for event in person.events(job["id"])] == ["failed"]
        assert person.retry(job["id"]).status_code == 410
    assert len(person.jobs()) == len(NO_PDF)
    assert list(world.converter.settings.uploads.iterdir()) == []


@SQLITE
def test_p1_a_pdf_that_cannot_be_converted_fails_once_with_the_reason(world: World) -> None:
    person = world.person()
    files = {"has no pages": NO_PAGES, "is encrypted": ENCRYPTED, "is damaged": TRUNCATED}
    with world.working():
        jobs = {said: person.uploaded(content) for said, content in files.items()}
        for said, job in jobs.items():
            found = person.wait(job, "failed")
            assert (found["error_code"], found["attempt_count"]) == ("GW_4XX", 1)
            assert found["error_message"].endswith(f" The file {said}.")


NAMES = {
    "../../etc/passwd": "passwd",
    "..\\..\\boot.pdf": "boot.pdf",
    "a" * 500 + ".pdf": "a" * 200,
    "<script>alert(1)</script>.pdf": "script>.pdf",
    "Übung №5.pdf": "Übung №5.pdf",
    "/": "file",
}


@SQLITE
def test_p1_names_are_for_people_and_never_for_paths(world: World) -> None:
    person, folder = world.person(), world.converter.settings.uploads
    for number, (name, shown) in enumerate(NAMES.items()):
        job = person.job(person.uploaded(unique_pdf(number), name=name))
        assert job["file_name"] == shown
    ids = {world.document(job["id"]) for job in person.jobs()}
    assert {path.name for path in folder.iterdir()} == {f"{document}.pdf" for document in ids}
    assert str(folder) not in person.client.get("/api/jobs").text


@SQLITE
def test_p1_a_storage_failure_is_a_500_with_a_failed_record(make_world: MakeWorld, full_disk: Path) -> None:
    with make_world(uploads=full_disk) as world:
        person = world.person()
        answer = person.upload()
        assert (answer.status_code, answer.json()["code"]) == (500, "IO_ERROR")
        assert answer.json()["message"] == "Temporary storage issue."
        [job] = person.jobs()
        assert (job["status"], job["error_code"], job["can_retry"]) == ("failed", "IO_ERROR", False)
        assert os.strerror(errno.ENOSPC) not in answer.text
        assert [path.name for path in full_disk.iterdir()] == ["filling"]
        # With room again, the same file is converted.
        (full_disk / "filling").unlink()
        assert person.upload().status_code == 201


@SQLITE
def test_p1_a_folder_that_is_gone_is_a_500_with_a_failed_record(world: World) -> None:
    world.converter.settings.uploads.rmdir()
    person = world.person()
    answer = person.upload()
    assert (answer.status_code, answer.json()["code"]) == (500, "IO_ERROR")
    assert [job["error_code"] for job in person.jobs()] == ["IO_ERROR"]


def test_p1_a_twin_in_progress_or_complete_is_returned(world: World) -> None:
    person = world.person()
    first = person.upload()
    again = person.upload(name="other name.pdf")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"] and again.json()["is_duplicate"]
    job = first.json()["id"]
    with world.working():
        person.wait(job, "complete")
    assert person.upload().json()["id"] == job
    assert len(person.jobs()) == 1
    assert [path.name for path in world.converter.settings.uploads.iterdir()] == [world.source(job).name]


@SQLITE
def test_p1_another_mapping_session_or_file_is_no_twin(world: World) -> None:
    person = world.person()
    ids = {
        person.uploaded(),
        person.uploaded(mapping="layout"),
        person.uploaded(INVOICE + b"\n"),
        world.person().uploaded(),
    }
    assert len(ids) == 4


def test_p1_a_failed_twin_gives_a_new_job(world: World) -> None:
    person = world.person()
    world.gateway.fail(status=400)
    with world.working():
        job = person.uploaded()
        person.wait(job, "failed")
        world.gateway.heal()
        second = person.uploaded()
        assert second != job
        person.wait(second, "complete")
        # The first is refused now: the same work is done.
        refused = person.retry(job)
        assert (refused.status_code, refused.json()["twin"]) == (409, second)


def test_p1_a_twin_whose_result_is_gone_gives_a_new_job(world: World) -> None:
    person = world.person()
    with world.working():
        job = person.uploaded()
        person.wait(job, "complete")
        world.result(job).unlink()
        second = person.uploaded()
        assert second != job
        person.wait(second, "complete")
    assert person.upload().json()["id"] == second


@SQLITE
def test_p1_a_file_may_be_as_large_as_the_limit_and_a_refusal_names_it(make_world: MakeWorld) -> None:
    with make_world(largest_upload=2048) as world:
        person = world.person()
        assert person.upload(INVOICE.ljust(2048)).status_code == 201
        answer = person.upload(INVOICE.ljust(2049))
        assert (answer.status_code, answer.json()["message"]) == (413, "File exceeds 2 KB limit.")
        assert person.jobs()[0]["error_message"] == "File exceeds 2 KB limit."
        assert "PDF file, at most 2 KB" in person.client.get("/").text


def test_p1_a_session_has_at_most_so_many_live_jobs(make_world: MakeWorld) -> None:
    with make_world(live_jobs=2) as world:
        person = world.person()
        jobs = [person.uploaded(unique_pdf(number)) for number in range(2)]
        answer = person.upload(unique_pdf(2))
        assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_JOBS")
        assert len(list(world.converter.settings.uploads.iterdir())) == 2
        # A twin is no new job, and others have limits of their own.
        assert person.uploaded(unique_pdf(1)) == jobs[1]
        world.person().uploaded(unique_pdf(2))
        with world.working():
            for job in jobs:
                person.wait(job, "complete")
        assert person.upload(unique_pdf(2)).status_code == 201


@SQLITE
def test_p1_an_address_uploads_so_often_whatever_its_sessions(make_world: MakeWorld) -> None:
    """The limit of a session is none for those who throw its cookie away."""
    with make_world(upload_rate="2/d") as world:
        for number in range(2):
            world.person().uploaded(unique_pdf(number))
        answer = world.person().upload(unique_pdf(2))
        assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_UPLOADS")
        assert int(answer.headers["retry-after"]) > 3600
        assert len(world.app.jobs().jobs) == len(list(world.converter.settings.uploads.iterdir())) == 2


def test_p1_an_administrator_pauses_uploads(world: World) -> None:
    person = world.person()
    before = person.uploaded()
    world.app.pause("1h", intake="convert", actor="ann", reason="the disk is full")
    answer = person.upload(unique_pdf(1))
    assert (answer.status_code, answer.json()["code"]) == (503, "UPLOADS_PAUSED")
    assert answer.json()["until"] and "disk" not in answer.text
    assert len(list(world.converter.settings.uploads.iterdir())) == 1
    with world.working():
        person.wait(before, "complete")
    world.app.resume(intake="convert")
    assert person.upload(unique_pdf(1)).status_code == 201


@SQLITE
def test_p1_a_form_without_a_file_is_a_400(world: World) -> None:
    person = world.person()
    for body in ({"data": {"mapping": "text"}}, {"content": b"%PDF-"}):
        answer = person.client.post("/api/upload", **body)
        assert (answer.status_code, answer.json()["code"]) == (400, "UNKNOWN")
    assert person.jobs() == []


@SQLITE
def test_p1_another_site_cannot_upload(world: World) -> None:
    person = world.person()
    file = {"file": ("a.pdf", INVOICE, "application/pdf")}
    answer = person.client.post("/api/upload", files=file, headers={"origin": "https://elsewhere.example"})
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    assert person.jobs() == []


@SQLITE
def test_p2_what_is_not_there_is_unknown(world: World) -> None:
    client = world.person().client
    for answer, status in ((client.get("/api/nothing"), 404), (client.put("/api/jobs"), 405)):
        assert (answer.status_code, answer.json()["code"]) == (status, "UNKNOWN")
    page = client.get("/nothing", headers={"accept": "text/html"})
    assert page.status_code == 404 and "UNKNOWN" in page.text and "NOT_FOUND" not in page.text


def test_p1_file_row_and_job_are_stored_together_or_not_at_all(world: World) -> None:
    """The row cannot be written: there is no job either, and the file is removed later."""
    with world.converter.database.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE pdfxml_documents RENAME TO away")
    answer = world.person().upload()
    assert (answer.status_code, answer.json()["code"]) == (500, "UNKNOWN")
    with world.converter.database.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO pdfxml_documents")
    assert list(world.app.jobs().jobs) == []
    assert len(list(world.converter.settings.uploads.iterdir())) == 1
    # Of another connection: the server closes one on which it failed.
    assert world.person().upload().status_code == 201


@SQLITE
def test_p1_an_upload_whose_conversion_fails_at_once_was_accepted(world: World, tmp_path: Path) -> None:
    """The worker is faster than the answer."""
    path = tmp_path / "invoice.pdf"
    path.write_bytes(INVOICE)
    source = Source(owner="ann", name="invoice.pdf", mapping="nonsense", size=len(INVOICE), sha256="0" * 64)
    accepted = accept(world.converter, source, path)
    with world.working(), pytest.raises(JobFailed):
        world.app.wait(accepted.job, timeout="30s")
    [conversion] = complete(world.converter, [accepted.document])
    answer = answer_upload(accepted, conversion)
    assert (answer.status_code, json.loads(bytes(answer.body))["status"]) == (201, "failed")
