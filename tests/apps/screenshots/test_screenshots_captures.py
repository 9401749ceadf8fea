"""S1: pictures and PDFs by real Chromium, over the API."""

import hashlib
import io
import struct

import pypdf
import pytest
from app_stores import IS_SOAK
from screenshots_world import World

from live import eventually


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_s1_a_page_becomes_a_picture_of_the_size_of_its_window(warm: World) -> None:
    job_id = warm.submit(warm.sites.url(), viewport={"width": 640, "height": 480})
    shown = warm.wait(job_id)
    assert (shown["status"], shown["format"], shown["lastFailureReason"]) == ("COMPLETED", "PNG", None)
    answer = warm.acme.get(f"/screenshots/{job_id}/result")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert size_of(answer.content) == (640, 480)
    assert warm.app.job(job_id).result["sha256"] == hashlib.sha256(answer.content).hexdigest()


def test_s1_a_full_page_is_as_high_as_its_content(warm: World) -> None:
    job_id = warm.submit(warm.sites.url("/tall"), viewport={"width": 400, "height": 300}, fullPage=True)
    assert warm.wait(job_id)["status"] == "COMPLETED"
    assert size_of(warm.acme.get(f"/screenshots/{job_id}/result").content) == (400, 3000)


@pytest.mark.skipif(not IS_SOAK, reason="65 million pixels take seconds: make soak PARTS=apps")
def test_s1_a_page_without_end_is_cut_where_a_browser_can_still_draw_it(warm: World) -> None:
    job_id = warm.submit(warm.sites.url("/vast", "vast.test"), viewport={"width": 400, "height": 300}, fullPage=True)
    shown = warm.wait(job_id)
    assert (shown["status"], shown["retryCount"]) == ("COMPLETED", 0)
    assert size_of(warm.acme.get(f"/screenshots/{job_id}/result").content) == (4_000, 16_384)


def test_s1_a_page_becomes_a_pdf(warm: World) -> None:
    job_id = warm.submit(warm.sites.url(), format="PDF")
    assert warm.wait(job_id)["status"] == "COMPLETED"
    answer = warm.acme.get(f"/screenshots/{job_id}/result")
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-disposition"].startswith("attachment")
    [page] = pypdf.PdfReader(io.BytesIO(answer.content)).pages
    assert page.extract_text().strip() == "A page"


def test_s1_captures_are_listed_newest_first_and_page_by_page(warm: World) -> None:
    jobs = [warm.submit(warm.sites.url()) for _ in range(3)]
    first = warm.acme.get("/screenshots", params={"limit": 2}).json()
    assert [each["jobId"] for each in first["screenshots"]] == [jobs[2], jobs[1]]
    second = warm.acme.get("/screenshots", params={"limit": 2, "cursor": first["cursor"]}).json()
    assert second["screenshots"][0]["jobId"] == jobs[0]


def test_s1_every_capture_has_a_context_of_its_own(warm: World) -> None:
    """The page would be out of order for a visitor that it has seen before."""
    for _ in range(2):
        assert warm.wait(warm.submit(warm.sites.url("/cookie")))["retryCount"] == 0


def test_s1_a_page_that_says_404_is_what_it_is(warm: World) -> None:
    assert warm.wait(warm.submit(warm.sites.url("/nowhere-here")))["status"] == "COMPLETED"


@pytest.mark.parametrize("path", ["/nothing", "/file"])
def test_s1_what_is_no_page_is_final(warm: World, path: str) -> None:
    shown = warm.wait(warm.submit(warm.sites.url(path)))
    assert (shown["status"], shown["retryCount"], shown["isRetryable"]) == ("FAILED", 0, False)
    assert warm.app.job(shown["jobId"]).error_code == "NOT_A_PAGE"


def test_s2_a_site_that_is_out_of_order_is_tried_four_times(warm: World) -> None:
    shown = warm.wait(warm.submit(warm.sites.url("/recovers?name=never&after=9&how=503", "broken.test")))
    assert (shown["status"], shown["retryCount"], shown["maxRetries"]) == ("FAILED", 3, 3)
    assert (warm.app.job(shown["jobId"]).error_code, shown["isRetryable"]) == ("HTTP_5XX", True)


def test_s2_a_site_that_asks_for_time_gets_it_and_no_retry_is_spent(warm: World) -> None:
    job_id = warm.submit(warm.sites.url("/busy", "busy.test"))
    eventually(lambda: warm.show(job_id)["nextRetryAt"])
    job, shown = warm.app.job(job_id), warm.show(job_id)
    assert (job.last_code, job.snoozes, shown["retryCount"], shown["status"]) == ("RATE_LIMITED", 1, 0, "QUEUED")
    assert round((job.due_at - job.updated_at).total_seconds()) == 7
    assert warm.acme.post(f"/screenshots/{job_id}/cancel").json()["status"] == "CANCELLED"
