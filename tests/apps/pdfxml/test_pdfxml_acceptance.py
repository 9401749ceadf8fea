"""The nine acceptance checks, end to end and in their order: a real site, a real worker, a real gateway."""

import re
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apps.pdfxml.storage import LocalStorage
from lxml import etree
from pdfxml_files import INVOICE, unique_pdf
from pdfxml_world import World
from playwright.sync_api import Browser, expect
from test_pdfxml_pages import SOON, tab
from test_pdfxml_workers import worker_process

from live import eventually

MakeWorld = Callable[..., Any]


def names(world: World, person: Any, job: str) -> list[str]:
    return [event["event"] for event in person.events(job)]


def test_p7_1_a_bad_type_is_a_failed_job_and_a_400(world: World) -> None:
    person = world.person()
    answer = person.upload(b"PK\x03\x04 not a PDF", name="letter.pdf")
    assert answer.status_code == 400
    assert answer.json()["code"] == "NOT_PDF"
    [job] = person.jobs()
    assert (job["status"], job["error_code"]) == ("failed", "NOT_PDF")
    assert job["error_message"] == "Only PDF files are supported."


def test_p7_2_more_than_50_mb_is_a_413(browser: Browser, world: World, tmp_path: Path) -> None:
    person = world.person()
    answer = person.upload(INVOICE + b"\0" * 50 * 2**20, name="huge.pdf", mapping="layout")
    assert answer.status_code == 413
    assert answer.json()["code"] == "TOO_LARGE"
    [job] = person.jobs()
    assert (job["status"], job["error_code"], job["file_name"]) == ("failed", "TOO_LARGE", "huge.pdf")
    assert (job["mapping"], job["error_message"]) == ("layout", "File exceeds 50 MB limit.")
    assert not any(world.converter.settings.uploads.iterdir())
    with tab(browser, world, person) as seen:
        seen.expect_row("huge.pdf", "File exceeds 50 MB limit.")
        with (tmp_path / "another.pdf").open("wb") as file:
            file.truncate(50 * 2**20 + 1)
        seen.page.set_input_files("#file", file.name)
        seen.page.click("#drop button")
        expect(seen.page.locator("#told")).to_have_text("another.pdf: File exceeds 50 MB limit.")


@pytest.mark.parametrize("how", ["mapping", "status"])
def test_p7_3_a_gateway_400_or_406_fails_at_once(world: World, how: str) -> None:
    if how == "status":
        world.gateway.fail(status=400)
    person = world.person()
    with world.working():
        job = person.uploaded(mapping="text" if how == "status" else "unheard-of")
        found = person.wait(job, "failed")
    assert (found["error_code"], found["attempt_count"]) == ("GW_4XX", 1)
    assert names(world, person, job) == ["queued", "processing", "failed"]
    assert person.events(job)[-1]["meta"]["gateway_http_status"] == (400 if how == "status" else 406)


def test_p7_4_with_the_gateway_down_jobs_stay_queued_and_go_on_when_it_is_back(make_world: MakeWorld) -> None:
    """With the settings as they are, and three uploads."""
    with make_world() as world:
        # A slow machine has time to try each of them before the first is tried again.
        policies = world.converter.settings.results.with_name("policies.yaml")
        policies.write_text(
            "kinds: {convert: {backoff: {type: fixed, base: 500ms}}}\nservices: {gateway: {cooldown: 300ms}}"
        )
        person = world.person()
        world.gateway.fail(status=503)
        jobs = [person.uploaded(unique_pdf(number)) for number in range(3)]
        with world.working():
            eventually(lambda: person.client.get("/api/jobs").json()["converter"] == "busy")
            eventually(lambda: all(job["is_held"] for job in person.jobs()))
            assert {job["status"] for job in person.jobs()} == {"queued"}
            assert {job["note"] for job in person.jobs()} == {"Gateway busy, paused. Will retry automatically."}
            world.gateway.heal()
            for job in jobs:
                person.wait(job, "complete")


def test_p7_4_in_fail_fast_they_fail_at_once_and_a_manual_retry_succeeds(make_world: MakeWorld) -> None:
    with make_world(circuit_window=4, circuit_mode="fail_fast") as world, world.working():
        person = world.person()
        world.gateway.fail(status=503)
        for number in range(8):
            person.uploaded(unique_pdf(number))
        eventually(lambda: person.client.get("/api/jobs").json()["converter"] == "busy")
        job = person.uploaded(unique_pdf(99))
        found = person.wait(job, "failed")
        assert (found["error_code"], found["error_message"]) == ("GW_5XX", "Converter service is having an issue.")
        # The gateway was not called.
        assert person.events(job)[-1]["meta"]["gateway_http_status"] is None
        world.gateway.heal()
        eventually(lambda: person.client.get("/api/jobs").json()["converter"] == "ok")
        assert person.retry(job).status_code == 202
        person.wait(job, "complete")


def test_p7_5_a_timeout_is_retried_with_growing_delays_then_fails(browser: Browser, make_world: MakeWorld) -> None:
    with make_world(gateway_timeout=timedelta(milliseconds=200)) as world, world.working():
        person = world.person()
        world.gateway.fail("hang")
        job = person.uploaded()
        found = person.wait(job, "failed")
        assert (found["error_code"], found["attempt_count"]) == ("GW_TIMEOUT", 3)
        assert found["error_message"] == "Conversion is taking too long."
        retries = [event["meta"] for event in person.events(job) if event["event"] == "retry"]
        assert [meta["error_code"] for meta in retries] == ["GW_TIMEOUT", "GW_TIMEOUT"]
        first, second = (meta["delay_ms"] for meta in retries)
        assert 40 <= first <= 60 and 120 <= second <= 180
        with tab(browser, world, person) as seen:
            seen.expect_row("invoice.pdf", "Conversion is taking too long.")
            seen.expect_row("invoice.pdf", "3 of 3")


def test_p7_6_a_result_that_cannot_be_written_is_tried_once_more(browser: Browser, world: World) -> None:
    """A folder in which nothing can be created: root may write anywhere, but not into a file."""
    results = world.converter.settings.results
    results.rmdir()
    results.write_text("not a folder")
    person = world.person()
    with world.working():
        job = person.uploaded()
        found = person.wait(job, "failed")
        assert (found["error_code"], found["attempt_count"]) == ("IO_ERROR", 2)
        assert found["error_message"] == "Temporary storage issue."
        results.unlink()
        results.mkdir()
        with tab(browser, world, person) as seen:
            seen.expect_row("invoice.pdf", "Temporary storage issue.")
            seen.page.click("#queue button:has-text('Retry')")
            seen.expect_row("invoice.pdf", "complete")


def test_p7_7_a_download_is_not_ready_then_there_then_expired(browser: Browser, world: World) -> None:
    person = world.person()
    job = person.uploaded()
    early = person.download(job)
    assert (early.status_code, early.json()["code"]) == (409, "NOT_READY")
    assert early.json()["message"] == "Conversion not finished yet."
    with tab(browser, world, person) as seen:
        download = seen.page.locator("#queue a:has-text('Download')")
        seen.expect_row("invoice.pdf", "queued")
        expect(download).to_have_count(0)
        with world.working():
            person.wait(job, "complete")
        assert person.download(job).status_code == 200
        expect(download).to_be_visible(timeout=SOON)
        assert world.converter.retention.run(datetime.now(UTC) + timedelta(days=8)) == 1
        seen.expect_row("invoice.pdf", "File was removed by retention. Re-upload to regenerate.")
        expect(download).to_have_count(0)
    late = person.download(job)
    assert (late.status_code, late.json()["code"]) == (404, "EXPIRED")
    assert late.json()["message"] == "File was removed by retention. Re-upload to regenerate."
    assert names(world, person, job)[-1] == "expired"


def test_p7_8_a_manual_retry_goes_back_to_the_queue_and_completes(world: World) -> None:
    person = world.person()
    world.gateway.fail(status=400)
    with world.working():
        job = person.uploaded()
        person.wait(job, "failed")
    world.gateway.heal()
    answer = person.retry(job)
    assert answer.status_code == 202
    found = answer.json()
    assert (found["status"], found["error_code"], found["error_message"]) == ("queued", None, None)
    assert found["manual_retry_count"] == 1
    with world.working():
        person.wait(job, "complete")
    assert etree.fromstring(person.download(job).content).tag == "document"


def test_p7_9_a_worker_that_dies_leaves_no_second_xml_and_another_takes_over(
    browser: Browser, make_world: MakeWorld
) -> None:
    with make_world(gateway_timeout=timedelta(seconds=60), lease=timedelta(seconds=1)) as world:
        person = world.person()
        world.gateway.fail("hang")
        settings = world.converter.settings
        with worker_process(world) as worker:
            job = person.uploaded()
            eventually(lambda: world.gateway.met == 1)
            assert person.job(job)["status"] == "processing"
            worker.send_signal(signal.SIGKILL)
        world.gateway.heal()
        with tab(browser, world, person) as seen, world.working():
            found = person.wait(job, "complete")
            seen.expect_row("invoice.pdf", "complete")
            expect(seen.page.locator("#queue a:has-text('Download')")).to_have_count(1)
        assert found["attempt_count"] == 2
        assert [path.name for path in settings.results.glob("*.xml")] == [world.result(job).name]
        assert names(world, person, job).count("complete") == 1
        # The lost attempt was not counted against the job.
        assert world.app.job(job).failures == 0


def test_p7_9_a_result_that_is_there_already_is_not_made_again(world: World) -> None:
    """The attempt before wrote it, and died before that was recorded."""
    person = world.person()
    job = person.uploaded()
    LocalStorage(world.converter.settings.uploads, world.converter.settings.results).write_result(
        world.document(job), [b"<document><page number='1'/></document>"]
    )
    world.gateway.fail(status=503)
    with world.working():
        person.wait(job, "complete")
    assert world.gateway.met == 0
    assert re.search(rb"<page number='1'/>", person.download(job).content)
