"""Downloads, manual retries, retention, ownership and what the API tells."""

import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from uuid import uuid4

import pytest
from pdfxml_files import unique_pdf
from pdfxml_world import Person, World

from live import eventually

MakeWorld = Callable[..., Any]
SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
LATER = timedelta(days=8)


@SQLITE
def test_p4_only_the_owner_downloads(world: World) -> None:
    person, other = world.person(), world.person()
    with world.working():
        job = person.uploaded(name="Übung.pdf")
        person.wait(job, "complete")
    answer = person.download(job)
    assert answer.headers["content-type"].startswith("application/xml")
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%9Cbung.xml"
    refused = other.download(job)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert refused.json()["message"] == "This file isn\u2019t yours."


def test_p4_an_unknown_id_is_a_404(world: World) -> None:
    person = world.person()
    for job in (str(uuid4()), "nonsense", "%00", "..%2f..%2fetc", "a" * 5000):
        assert person.download(job).status_code == 404, job


@SQLITE
def test_p4_a_result_that_was_lost_has_expired(world: World) -> None:
    person = world.person()
    with world.working():
        job = person.uploaded()
        person.wait(job, "complete")
    world.result(job).unlink()
    answer = person.download(job)
    assert (answer.status_code, answer.json()["code"]) == (404, "EXPIRED")


def test_p4_retention_removes_files_writes_an_event_and_frees_the_twin(world: World) -> None:
    person = world.person()
    with world.working():
        job, failed = person.uploaded(), person.uploaded(mapping="nonsense")
        person.wait(job, "complete")
        person.wait(failed, "failed")
    waiting = person.uploaded(unique_pdf(1))
    retention, now = world.converter.retention, datetime.now(UTC)
    assert retention.run(now) == 0
    assert retention.run(now + LATER) == 2
    # What has not ended keeps its file, however old it is.
    assert [path.name for path in world.converter.settings.uploads.iterdir()] == [world.source(waiting).name]
    assert list(world.converter.settings.results.iterdir()) == []
    found = person.job(job)
    assert (found["status"], found["can_download"]) == ("expired", False) and found["expired_at"]
    assert person.events(job)[-1]["event"] == "expired"
    assert retention.run(now + LATER) == 0
    assert person.upload().status_code == 201
    assert retention.run(now + LATER + timedelta(days=60)) == 0
    assert person.client.get(f"/api/jobs/{job}").status_code == 404


@SQLITE
def test_p4_files_without_a_document_are_removed_after_a_while(world: World) -> None:
    left = world.converter.settings.uploads / f"{uuid4().hex}.pdf"
    left.write_bytes(b"%PDF-")
    job = world.person().uploaded()
    # However late it is for the store, a new file may belong to an upload that is just coming in.
    world.converter.retention.run(world.app.now() + timedelta(hours=2))
    assert left.exists()
    two_hours_ago = time.time() - 7200
    for path in (left, world.source(job)):
        os.utime(path, (two_hours_ago, two_hours_ago))
    world.converter.retention.run(world.app.now())
    assert not left.exists() and world.source(job).exists()


def test_p5_only_a_failed_conversion_is_retried_and_only_by_its_owner(world: World) -> None:
    person, other = world.person(), world.person()
    job = person.uploaded()
    answer = person.retry(job)
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_READY")
    world.gateway.fail(status=400)
    with world.working():
        person.wait(job, "failed")
    refused = other.retry(job)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert person.job(job)["manual_retry_count"] == 0
    assert person.retry(str(uuid4())).status_code == 404
    world.gateway.heal()
    assert person.retry(job).status_code == 202
    with world.working():
        person.wait(job, "complete")
    assert person.retry(job).status_code == 409


def test_p5_without_its_source_it_is_gone(world: World) -> None:
    person = world.person()
    with world.working():
        job = person.uploaded(mapping="nonsense")
        assert person.wait(job, "failed")["can_retry"]
    world.source(job).unlink()
    assert not person.job(job)["can_retry"]
    answer = person.retry(job)
    assert (answer.status_code, answer.json()["code"]) == (410, "EXPIRED")
    assert person.job(job)["status"] == "failed"


def test_p5_a_retry_clears_the_error_and_is_counted(world: World) -> None:
    person = world.person()
    with world.working():
        job = person.uploaded(mapping="nonsense")
        person.wait(job, "failed")
        for number in (1, 2):
            person.retry(job)
            eventually(lambda: person.job(job)["manual_retry_count"] == number)  # noqa: B023
            person.wait(job, "failed")
        eventually(lambda: "manual_retry_total 2" in person.client.get("/metrics").text)
    assert [event["event"] for event in person.events(job)].count("retry") == 2
    assert person.job(job)["attempt_count"] == 3


def test_p5_retries_obey_the_limit_of_live_jobs(make_world: MakeWorld) -> None:
    """Also those that come at once."""
    with make_world(live_jobs=2) as world:
        person, jobs = world.person(), list[str]()
        with world.working():
            for number in range(4):
                jobs.append(person.uploaded(unique_pdf(number), mapping="nonsense"))
                person.wait(jobs[-1], "failed")
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(person.retry, jobs))
        assert sorted(answer.status_code for answer in answers) == [202, 202, 429, 429]
        assert {answer.json()["code"] for answer in answers if answer.status_code == 429} == {"TOO_MANY_JOBS"}
        # An operator decides for himself.
        refused = next(job["id"] for job in person.jobs() if job["status"] == "failed")
        world.app.retry(refused, actor="ann")
        assert [job["status"] for job in person.jobs()].count("queued") == 3


@SQLITE
def test_p5_retries_of_an_address_have_a_rate(make_world: MakeWorld) -> None:
    with make_world(upload_rate="2/d") as world:
        person = world.person()
        job = person.uploaded()
        assert [person.retry(job).status_code for _ in range(2)] == [409, 409]
        refused = person.retry(job)
        assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_RETRIES")
        assert int(refused.headers["retry-after"]) > 3600


def test_p5_a_source_that_disappears_while_it_waits_is_a_final_error(world: World) -> None:
    person = world.person()
    job = person.uploaded()
    world.source(job).unlink()
    with world.working():
        found = person.wait(job, "failed")
    assert (found["error_code"], found["attempt_count"]) == ("EXPIRED", 1)


@SQLITE
def test_foreign_conversions_show_nothing(world: World) -> None:
    person, other = world.person(), world.person()
    job = person.uploaded(name="secret-marker.pdf")
    assert other.jobs() == []
    for path in (f"/api/jobs/{job}", f"/api/jobs/{job}/events", f"/conversions/{job}"):
        answer = other.client.get(path)
        assert answer.status_code == 403 and "secret-marker" not in answer.text, path
    page = other.client.get("/")
    assert job not in page.text and "secret-marker" not in page.text


@SQLITE
def test_a_live_page_is_told_of_its_own_session_only(world: World) -> None:
    person, other = world.person(), world.person()
    job = person.uploaded()

    def told(person: Person, query: str) -> list[str]:
        """What a stream says about everything that has happened by now."""
        with person.client.stream("GET", f"/live?after=0{query}") as stream:
            return list(takewhile(lambda line: not line.startswith(("id:", ": heartbeat")), stream.iter_lines()))

    assert "event: changed" in told(person, f"&job={job}")
    assert other.jobs() == []
    for query in ("", f"&job={job}"):
        assert "event: changed" not in told(other, query), query


def test_events_have_the_names_and_the_meta_of_the_document(world: World) -> None:
    person = world.person()
    world.gateway.fail(status=502, times=1)
    with world.working():
        job = person.uploaded()
        person.wait(job, "complete")
    events = person.events(job)
    assert [event["event"] for event in events] == ["queued", "processing", "retry", "queued", "processing", "complete"]
    retry = events[2]["meta"]
    assert (retry["attempt"], retry["gateway_http_status"], retry["error_code"]) == (1, 502, "GW_5XX")
    assert retry["duration_ms"] >= 0 and 40 <= retry["delay_ms"] <= 60
    assert events[-1]["meta"] == events[-1]["meta"] | {"attempt": 2, "gateway_http_status": 200, "error_code": None}


@contextmanager
def never_open(world: World) -> Iterator[None]:
    """The breaker would hold conversions that are to fail."""
    policies = world.converter.settings.results.with_name("policies.yaml")
    backoff = "kinds: {convert: {backoff: {type: fixed, base: 50ms}}}"
    policies.write_text(f"{backoff}\nservices: {{gateway: {{window: 100, min_calls: 100}}}}")
    yield


@SQLITE
def test_p8_nothing_technical_leaves_the_server(make_world: MakeWorld) -> None:
    """Every kind of failure, then everything that an owner can read."""
    with make_world() as world, never_open(world), world.working():
        person = world.person()
        world.gateway.fail("drop")
        person.wait(person.uploaded(unique_pdf(1)), "failed")
        world.gateway.fail("garbage")
        person.wait(person.uploaded(unique_pdf(2)), "failed")
        world.gateway.heal()
        person.wait(person.uploaded(b"%PDF-1.4 nonsense"), "failed")
        job = person.uploaded(unique_pdf(3))
        person.wait(job, "complete")
        codes = [found["error_code"] for found in person.jobs()]
        assert codes == [None, "GW_4XX", "GW_5XX", "GW_5XX"]
        read = [person.client.get(path).text for path in ("/", "/api/jobs", "/metrics")]
        for found in person.jobs():
            paths = (f"/api/jobs/{found['id']}", f"/api/jobs/{found['id']}/events", f"/conversions/{found['id']}")
            read += [person.client.get(path).text for path in paths]
    text = "\n".join(read)
    settings = world.converter.settings
    for leak in (
        str(settings.uploads),
        str(settings.results),
        "Traceback",
        "httpx2",
        "XMLSyntaxError",
        "1.4 nonsense",
    ):
        assert leak not in text, leak
    labels = set(re.findall(r'error_code="([^"]+)"', text))
    assert labels <= {"GW_4XX", "GW_5XX"}


def test_metrics_have_the_names_of_the_document(world: World) -> None:
    person = world.person()
    with world.working():
        person.wait(person.uploaded(mapping="nonsense"), "failed")
        eventually(lambda: 'jobs_failed_total{error_code="GW_4XX"' in person.client.get("/metrics").text)
    text = person.client.get("/metrics").text
    for name in ("job_processing_duration_seconds_bucket{", "queue_depth{", "jobs_active 0", "manual_retry_total 0"):
        assert f"\n{name}" in text
    behind_proxy = person.client.get("/metrics", headers={"x-forwarded-for": "203.0.113.9"})
    assert behind_proxy.status_code == 401
    key = world.app.create_key(owner=None, name="prometheus", scopes=["jobs:read"]).token
    headers = {"x-forwarded-for": "203.0.113.9", "authorization": f"Bearer {key}"}
    assert person.client.get("/metrics", headers=headers).status_code == 200
