"""Retries with the delays of the documents, in simulated time and against the real gateway."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from apps.pdfxml.app import Converter, create
from apps.pdfxml.documents import Document
from apps.pdfxml.gateway_call import _checked
from apps.pdfxml.rules import RULES
from apps.pdfxml.settings import Settings
from pdfxml_files import INVOICE
from pdfxml_world import Gateway

from mulligan import Failure, Job
from mulligan.failure.classify import classify
from mulligan.failure.packs import PACKS
from mulligan.testing import Sandbox, sandbox

MS = timedelta(milliseconds=1)


class Simulation:
    """The converter in simulated time. The gateway and the disk are real."""

    def __init__(self, converter: Converter, box: Sandbox, folder: Path) -> None:
        self.converter, self.box, self._folder = converter, box, folder

    def submit(self) -> Job[int]:
        document, path = uuid4().hex, self._folder / uuid4().hex
        path.write_bytes(INVOICE)
        self.converter.storage.keep_source(document, path)
        job: Job[int] = self.converter.convert.enqueue(document, "text")
        return job

    def job(self, job: Job[int]) -> Job[int]:
        return self.converter.app.job(job.id)

    def delays(self, job: Job[int]) -> list[float]:
        return [event.data["delay"] for event in self.converter.app.events(job.id) if event.type == "job.retried"]


@pytest.fixture
def simulate(tmp_path: Path, gateway: Gateway) -> Callable[..., Any]:
    @contextmanager
    def start(**settings: Any) -> Iterator[Simulation]:
        given: dict[str, Any] = {
            "database_url": f"sqlite:///{tmp_path}/never.db",
            "gateway_url": gateway.url,
            "uploads": tmp_path / "in",
            "results": tmp_path / "out",
            "gateway_timeout": timedelta(seconds=20),
        }
        converter = create(Settings(**given | settings))
        converter.database.create()
        with sandbox(converter.app) as box:
            yield Simulation(converter, box, tmp_path)

    return start


def test_p3_three_attempts_after_5_and_15_seconds_give_or_take_a_fifth(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=503)
    with simulate() as simulation:
        job = simulation.submit()
        simulation.box.advance("1m")
        found = simulation.job(job)
        assert (found.state, found.error_code, found.attempt) == ("failed", "GW_5XX", 3)
        first, second = simulation.delays(job)
        assert 4 <= first <= 6 and 12 <= second <= 18


def test_p3_with_a_higher_limit_the_third_wait_is_45_seconds(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=503)
    with simulate(max_attempts=4) as simulation:
        job = simulation.submit()
        simulation.box.advance("5m")
        assert 36 <= simulation.delays(job)[2] <= 54


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ({"base_delay": 5000 * MS}, [(5, 10), (10, 15), (20, 25)]),
        ({"jitter": 5000 * MS}, [(5, 10), (10, 15), (20, 25)]),
        ({"base_delay": 1000 * MS, "jitter": 0 * MS}, [(1, 1), (2, 2), (4, 4)]),
    ],
    ids=["base", "jitter", "both"],
)
def test_p3_the_other_formula_is_a_setting_away(
    simulate: Any, gateway: Gateway, settings: dict[str, Any], bounds: list[tuple[int, int]]
) -> None:
    """5 s · 2ⁿ + random(0 to 5 s), n from 0."""
    gateway.fail(status=503)
    with simulate(max_attempts=4, **settings) as simulation:
        job = simulation.submit()
        simulation.box.advance("5m")
        delays = simulation.delays(job)
    assert len(delays) == 3
    assert all(low <= delay <= high for delay, (low, high) in zip(delays, bounds, strict=True)), delays


def test_p3_a_retry_is_not_claimed_before_its_time(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=503, times=1)
    with simulate() as simulation:
        job = simulation.submit()
        simulation.box.run()
        due = simulation.job(job).due_at
        simulation.box.advance(due - simulation.box.now - 10 * MS)
        assert (simulation.job(job).state, gateway.met) == ("waiting", 1)
        simulation.box.advance(20 * MS)
        assert simulation.job(job).state == "succeeded"


def test_p2_refusals_of_the_gateway_are_final(simulate: Any, gateway: Gateway) -> None:
    with simulate() as simulation:
        for status in (400, 401, 403, 404, 406, 413, 415, 422, 418):
            gateway.fail(status=status)
            job = simulation.submit()
            simulation.box.advance("1m")
            found = simulation.job(job)
            assert (found.state, found.error_code, found.attempt) == ("failed", "GW_4XX", 1), status


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"status": 500}, "GW_5XX"),
    ({"status": 502}, "GW_5XX"),
    ({"status": 599}, "GW_5XX"),
    ({"status": 204}, "GW_5XX"),
    ({"kind": "drop"}, "GW_5XX"),
    ({"kind": "garbage"}, "GW_5XX"),
    ({"status": 408}, "GW_TIMEOUT"),
    ({"kind": "hang"}, "GW_TIMEOUT"),
]


def test_p2_failures_of_the_gateway_are_retried(simulate: Any, gateway: Gateway) -> None:
    with simulate(circuit_fail_threshold=1.0, gateway_timeout=1000 * MS) as simulation:
        for fault, code in FAULTS:
            gateway.fail(**{"kind": "status"} | fault)
            job = simulation.submit()
            simulation.box.run()
            waiting = simulation.job(job)
            assert (waiting.state, waiting.last_code, waiting.failures) == ("waiting", code, 1), fault
            assert not simulation.converter.storage.has_result(job.arguments["document"])
            gateway.heal()
            simulation.box.advance("1m")
            assert simulation.job(job).state == "succeeded", fault


def test_p2_an_answer_larger_than_any_result_is_a_failure_of_the_gateway(simulate: Any) -> None:
    with simulate(largest_result=100) as simulation:
        jobs = [simulation.submit() for _ in range(10)]
        simulation.box.run()
        assert {simulation.job(job).last_code for job in jobs} == {"GW_5XX"}
        assert list(simulation.converter.settings.results.iterdir()) == []
        assert simulation.converter.app.service("gateway").status.state == "open"


def test_p2_a_result_is_checked_without_keeping_it_in_memory() -> None:
    """Sixteen million bytes that would be 200,000 elements."""
    row = b"<line x='1.00' y='2.00' width='3.00' height='4.00'>some words of this line</line>" * 1_000
    chunks = [b"<layout>", *[row] * 200, b"</layout>"]
    before = _resident()
    assert sum(map(len, _checked(iter(chunks)))) == sum(map(len, chunks))
    grown = _resident() - before
    assert grown < 16 * 2**20, f"{grown:,} bytes more"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_p2_a_gateway_that_is_not_there_is_retried(simulate: Any) -> None:
    with simulate(gateway_url="http://127.0.0.1:1") as simulation:
        job = simulation.submit()
        simulation.box.advance("1m")
        found = simulation.job(job)
        assert (found.state, found.error_code, found.attempt) == ("failed", "GW_5XX", 3)


def test_p2_a_429_waits_for_as_long_as_it_says_and_uses_no_attempt(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=429, retry_after="40", times=1)
    with simulate() as simulation:
        job = simulation.submit()
        simulation.box.run()
        waiting = simulation.job(job)
        assert (waiting.state, waiting.waiting_for, waiting.failures) == ("waiting", "rate limit", 0)
        assert waiting.due_at - simulation.box.now == timedelta(seconds=40)
        simulation.box.advance("41s")
        assert simulation.job(job).state == "succeeded"


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (errno.EIO, "retryable"),
        (errno.EACCES, "retryable"),
        (errno.ENOENT, "retryable"),
        (errno.ENOSPC, "final"),
        (errno.EDQUOT, "final"),
    ],
    ids=errno.errorcode.get,
)
def test_p2_errors_of_the_disk_are_retryable_unless_it_is_full(error: int, error_class: str) -> None:
    verdict = classify(Failure.of(OSError(error, os.strerror(error))), kind="convert", rules=(*RULES, *PACKS))
    assert (verdict.code, verdict.error_class) == ("IO_ERROR", error_class)


def test_p2_a_failed_write_is_retried_once(simulate: Any, tmp_path: Path) -> None:
    """There is no folder to write into: root may write anywhere, but not into a file."""
    with simulate() as simulation:
        (tmp_path / "out").rmdir()
        (tmp_path / "out").touch()
        _check_unwritable(simulation, attempts=2)


def test_p2_a_full_disk_is_final(simulate: Any, full_disk: Path) -> None:
    with simulate(results=full_disk) as simulation:
        _check_unwritable(simulation, attempts=1)
    assert [path.name for path in full_disk.iterdir()] == ["filling"], "nothing half-written stays"


def _check_unwritable(simulation: Simulation, *, attempts: int) -> None:
    jobs = [simulation.submit() for _ in range(10)]
    simulation.box.advance("1h")
    for found in map(simulation.job, jobs):
        assert (found.state, found.error_code, found.attempt) == ("failed", "IO_ERROR", attempts)
        assert found.error_message == "Temporary storage issue."
    # The gateway did its work: its breaker counts no failure.
    assert simulation.converter.app.service("gateway").status.state == "closed"


def test_p4_retention_runs_every_ten_minutes_by_the_time_of_the_store(simulate: Any) -> None:
    with simulate(retention=timedelta(hours=1)) as simulation:
        job = simulation.submit()
        document = Document(
            id=job.arguments["document"],
            job=job.id,
            owner="",
            name="a.pdf",
            mapping="text",
            bytes=len(INVOICE),
            sha256="",
            uploaded_at=simulation.box.now,
        )
        with simulation.converter.database.transaction() as connection:
            simulation.converter.documents.add(connection, document)
        storage = simulation.converter.storage
        simulation.box.advance("59m")
        assert storage.has_source(document.id) and storage.has_result(document.id)
        simulation.box.advance("11m")
        assert not storage.has_source(document.id) and not storage.has_result(document.id)
        assert simulation.job(job).result_expired_at is not None


def test_p6_the_breaker_opens_at_half_of_the_calls(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=503, share=0.5)
    with simulate(max_attempts=9) as simulation:
        for _ in range(10):
            simulation.submit()
        simulation.box.run()
        assert simulation.converter.app.service("gateway").status.state == "open"


def test_p6_below_half_it_stays_closed(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=503, share=0.4)
    with simulate(max_attempts=9) as simulation:
        for _ in range(20):
            simulation.submit()
        simulation.box.run()
        assert simulation.converter.app.service("gateway").status.state == "closed"


def test_p6_refusals_never_open_it(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=422)
    with simulate() as simulation:
        for _ in range(12):
            simulation.submit()
        simulation.box.run()
        assert simulation.converter.app.service("gateway").status.state == "closed"


def test_p6_open_it_holds_jobs_and_the_health_probe_closes_it(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=503)
    with simulate() as simulation:
        jobs = [simulation.submit() for _ in range(15)]
        simulation.box.run()
        service = simulation.converter.app.service("gateway")
        assert service.status.state == "open"
        called = gateway.met
        simulation.box.advance("10m")
        # Only the health route was asked meanwhile, and no job lost its last attempt.
        assert gateway.met == called
        assert {simulation.job(job).state for job in jobs} <= {"waiting", "queued"}
        gateway.heal()
        simulation.box.advance("5m")
        assert {simulation.job(job).state for job in jobs} == {"succeeded"}
        assert service.status.state == "closed"


def test_p6_it_opens_before_the_only_conversions_have_used_up_their_attempts(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=503)
    with simulate() as simulation:
        jobs = [simulation.submit() for _ in range(2)]
        simulation.box.advance("2m")
        assert simulation.converter.app.service("gateway").status.state == "open"
        assert {simulation.job(job).state for job in jobs} <= {"waiting", "queued"}
        gateway.heal()
        simulation.box.advance("5m")
        assert {simulation.job(job).state for job in jobs} == {"succeeded"}


def test_p6_fail_fast_fails_them_finally_with_gw_5xx(simulate: Any, gateway: Gateway) -> None:
    gateway.fail(status=503)
    with simulate(circuit_mode="fail_fast") as simulation:
        for _ in range(15):
            simulation.submit()
        simulation.box.run()
        job = simulation.submit()
        called = gateway.met
        simulation.box.run()
        found = simulation.job(job)
        assert (found.state, found.error_code, found.error_class) == ("failed", "GW_5XX", "final")
        assert gateway.met == called
