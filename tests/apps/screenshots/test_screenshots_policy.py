"""S2, S5, S6: the policy, the rules and the intervals of the document, in simulated time."""

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apps.screenshots.app import CATALOGUE, RULES, Screenshots
from apps.screenshots.capture import SiteFailed
from screenshots_sites import Sites
from screenshots_world import NOWHERE, PRIVATE, make_screenshots

from mulligan import InsufficientCredits, Job, State, TargetRefused
from mulligan.failure.classify import classify
from mulligan.failure.error_codes import Catalogue
from mulligan.failure.packs import PACKS
from mulligan.failure.verdict import Failure
from mulligan.testing import sandbox

# Word for word from the document, without its first indentation.
YAML = """\
retry:
  policies:
    - jobType: SCREENSHOT
      maxRetries: 5
      backoffStrategy: EXPONENTIAL
    - jobType: PDF_GENERATION
      maxRetries: 2
      backoffStrategy: FIXED
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@contextmanager
def in_sandbox(
    folder: Path, sites: Sites, policies: str | None = None, **options: Any
) -> Iterator[tuple[Screenshots, Any]]:
    file = folder / "policies.yaml"
    if policies is not None:
        file.write_text(policies)
    options["policies"] = policies and str(file)
    screenshots = make_screenshots(f"sqlite:///{folder}/app.db", folder, sites, **options)
    screenshots.database.create()
    with sandbox(screenshots.app) as box:
        yield screenshots, box
    screenshots.database.close()


def waits(screenshots: Screenshots, job: Job[Any]) -> list[float]:
    """The seconds between the end of an attempt and the beginning of the next."""
    events = screenshots.app.events(job=job.id)
    ends = [event.at for event in events if event.type in ("job.retried", "job.failed")]
    starts = [event.at for event in events if event.type == "job.started"]
    return [round((start - end).total_seconds()) for end, start in zip(ends, starts[1:], strict=False)]


def test_s2_retries_come_5_and_25_and_125_seconds_after_a_failure(folder: Path, sites: Sites) -> None:
    with in_sandbox(folder, sites) as (screenshots, box):
        tasks = (screenshots.screenshot, screenshots.pdf_generation)
        jobs = [task.enqueue(f"http://{number}.nowhere.test/") for number, task in enumerate(tasks)]
        box.advance("1h")
        for job in jobs:
            assert waits(screenshots, job) == [5, 25, 125]
            ended = screenshots.app.job(job.id)
            assert (ended.state, ended.error_code, ended.retry_count) == (State.FAILED, "NETWORK", 3)


def test_s2_a_refused_address_is_final_at_once(folder: Path, sites: Sites) -> None:
    with in_sandbox(folder, sites) as (screenshots, box):
        job = screenshots.screenshot.enqueue(PRIVATE)
        box.run()
        ended = screenshots.app.job(job.id)
        assert (ended.state, ended.error_code, ended.attempt) == (State.FAILED, "TARGET_REFUSED", 1)


def test_s7_captures_that_are_refused_are_not_held_back_to_spare_their_site(folder: Path, sites: Sites) -> None:
    """Its breaker opened when it had no address. Now the address is a private one: nothing is asked of the site."""
    with in_sandbox(folder, sites) as (screenshots, box):
        jobs = [screenshots.screenshot.enqueue("http://turning.test/") for _ in range(100)]
        box.run()
        assert [str(service.state) for service in screenshots.app.services()] == ["open"]
        box.advance("1h")
        ended = [screenshots.app.job(job.id) for job in jobs]
        assert {(str(job.state), job.error_code) for job in ended} == {("failed", "TARGET_REFUSED")}
        # One capture after the other would be the probe of a breaker that never closes.
        closed, *_ = screenshots.app.stream(after=0, types=["service.closed"]).events
        assert sum(job.finished_at < closed.at for job in ended if job.finished_at) < 50


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError("the site said nothing"), ("TIMEOUT", "retryable")),
        (TimeoutError(errno.ETIMEDOUT, "timed out"), ("TIMEOUT", "retryable")),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), ("NETWORK", "retryable")),
        (ConnectionResetError(errno.ECONNRESET, "reset"), ("NETWORK", "retryable")),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), ("NETWORK", "retryable")),
        (OSError(errno.EHOSTUNREACH, "unreachable"), ("NETWORK", "retryable")),
        (OSError(errno.EIO, "input/output error"), ("IO_ERROR", "retryable")),
        (OSError(errno.ENOSPC, "no space"), ("DISK_FULL", "retryable")),
        (OSError("something of the system"), ("UNKNOWN", "retryable")),
        (SiteFailed("http://a.test/", 503, {}), ("HTTP_5XX", "retryable")),
        (ValueError("no such size"), ("INVALID_INPUT", "final")),
        (TypeError("not a string"), ("INVALID_INPUT", "final")),
        (PermissionError(errno.EACCES, "no"), ("NOT_PERMITTED", "final")),
        (TargetRefused("http://10.0.0.5", "leads to an address that is not public"), ("TARGET_REFUSED", "final")),
        (RuntimeError("cannot be called in this state"), ("ILLEGAL_STATE", "final")),
        (asyncio.InvalidStateError("it is done"), ("UNKNOWN", "retryable")),
        (InsufficientCredits(required=1, available=0), ("INSUFFICIENT_CREDITS", "final")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_s2_errors_are_classified_as_in_the_document(error: Exception, expected: tuple[str, str]) -> None:
    verdict = classify(Failure.of(error), kind="screenshot", rules=(*RULES, *PACKS))
    assert (verdict.code, str(verdict.error_class)) == expected
    assert verdict.code in Catalogue.default().with_codes(CATALOGUE)


def test_s6_without_a_file_there_are_three_retries(folder: Path, sites: Sites) -> None:
    with in_sandbox(folder, sites) as (screenshots, _):
        jobs = [task.enqueue(NOWHERE) for task in (screenshots.screenshot, screenshots.pdf_generation)]
        assert [job.max_retries for job in jobs] == [3, 3]


def test_s6_the_yaml_of_the_document_works_as_it_is(folder: Path, sites: Sites) -> None:
    with in_sandbox(folder, sites, YAML) as (screenshots, box):
        picture = screenshots.screenshot.enqueue(NOWHERE)
        pdf = screenshots.pdf_generation.enqueue("http://pdf.nowhere.test/")
        box.advance("1d")
        assert waits(screenshots, picture) == [5, 25, 125, 625, 3125]
        assert waits(screenshots, pdf) == [5, 5]
        shown = [screenshots.app.job(job.id) for job in (picture, pdf)]
        assert [(job.retry_count, job.max_retries) for job in shown] == [(5, 5), (2, 2)]


def test_s6_a_changed_file_is_taken_up_without_a_restart(folder: Path, sites: Sites) -> None:
    with in_sandbox(folder, sites, YAML) as (screenshots, box):
        job = screenshots.pdf_generation.enqueue(NOWHERE)
        box.run()
        (folder / "policies.yaml").write_text(YAML.replace("maxRetries: 2", "maxRetries: 1"))
        box.advance("10s")
        assert screenshots.app.job(job.id).state is State.FAILED
        assert waits(screenshots, job) == [5]


def test_s5_schedulers_have_the_intervals_and_limits_of_the_document(folder: Path, sites: Sites) -> None:
    with in_sandbox(folder, sites) as (screenshots, _):
        duties = {duty.alias: duty for duty in screenshots.app.duties()}
        assert duties["FAILED_JOBS"].interval == timedelta(seconds=30)
        assert duties["DELAYED_JOBS"].interval == timedelta(seconds=10)
        # Lost workers are looked for more often, stuck jobs every five minutes.
        assert duties["STUCK_JOBS"].interval <= timedelta(minutes=5)
        limits = [duties[alias].limit for alias in ("STUCK_JOBS", "FAILED_JOBS", "DELAYED_JOBS")]
        assert limits == [100, 100, 100]
        assert screenshots.app.settings.stuck == "process"
        assert screenshots.app.settings.stuck_after == timedelta(minutes=30)


def test_a_capture_may_take_longer_than_its_page(folder: Path, sites: Sites) -> None:
    for page, whole in ((30, 3), (600, 22)):
        with in_sandbox(folder, sites, page_timeout=timedelta(seconds=page)) as (screenshots, _):
            assert screenshots.screenshot.enqueue(NOWHERE).timeout == timedelta(minutes=whole)


def test_s5_the_environment_of_an_operator_wins(folder: Path, sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_DUTY_RETRY_INTERVAL_SEC", "3")
    with in_sandbox(folder, sites) as (screenshots, _):
        intervals = {duty.alias: duty.interval.total_seconds() for duty in screenshots.app.duties()}
        assert (intervals["FAILED_JOBS"], intervals["DELAYED_JOBS"]) == (3, 10)
