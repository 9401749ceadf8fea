"""Log lines: which ones, with which fields, and safe from logged values."""

import asyncio
import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from live import eventually, working
from mulligan import App, FinalError, RetryPolicy, Service, Steps, attempt
from mulligan.errors import StoreUnavailable
from mulligan.logs import FIELDS, JobContext, JsonFormatter, TextFormatter
from mulligan.testing import sandbox

NASTY = "\x1b[2J\r\nforged: \u202e\u2028 \x00 \ud800 line"


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.addFilter(JobContext())
        self.setFormatter(JsonFormatter())
        self.documents: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.documents.append(json.loads(self.format(record)))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [document for document in self.documents if document.get("event") == event]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, root = Lines(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(before)
    root.removeHandler(handler)


def test_every_step_of_a_failing_job_has_a_line(app: App, lines: Lines) -> None:
    @app.task(retry=RetryPolicy(max_attempts=2, backoff=Steps(["1ms"])))
    def convert() -> None:
        if attempt().number != 3:
            raise ConnectionError("gone")

    job = convert.options(owner="acme").enqueue()
    app.run_until_idle(retries=True, timeout=20)
    app.retry(job.id, actor="ann", reason="mended")
    app.run_until_idle(retries=True, timeout=20)
    said = [(line["event"], line["attempt"], line["level"]) for line in lines.documents if "event" in line]
    assert said == [
        ("job.started", 1, "DEBUG"),
        ("job.retried", 1, "INFO"),
        ("job.started", 2, "INFO"),
        ("job.failed", 2, "WARNING"),
        ("job.retry_requested", 2, "INFO"),
        ("job.started", 3, "INFO"),
        ("job.succeeded", 3, "INFO"),
    ]
    (retried,), (failed,), (asked,) = lines.of("job.retried"), lines.of("job.failed"), lines.of("job.retry_requested")
    assert {name: retried[name] for name in ("job_id", "kind", "owner", "status", "error_code")} == {
        "job_id": job.id, "kind": "convert", "owner": "acme", "status": "waiting", "error_code": "NETWORK",
    }  # fmt: skip
    assert retried["delay_ms"] == 1
    assert retried["duration_ms"] >= 0
    assert "attempt 1 with NETWORK (ConnectionError: gone)" in retried["message"]
    assert (failed["status"], failed["because"]) == ("failed", "attempts exhausted")
    assert failed["error"] == "ConnectionError: gone"
    assert failed["error_message"] == "Another system can\u2019t be reached."
    assert (asked["actor"], asked["reason"]) == ("ann", "mended")
    assert all(set(line) <= set(FIELDS) for line in lines.documents if line["logger"].startswith("mulligan"))


class Answered(Exception):
    """An answer of an HTTP service."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status


def test_the_line_of_an_attempt_has_the_status_and_the_state_of_its_service(tmp_path: Path, lines: Lines) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db", services=[Service("gateway", min_calls=5, cooldown="30s")])
    answers = [200, 400, *[502] * 3, 200]

    @app.task(service="gateway", retry=RetryPolicy(max_attempts=9, backoff=Steps(["1s"])))
    def convert() -> None:
        status = answers.pop(0)
        if status == 200:
            attempt().called("gateway", status=status, seconds=0.1)
        else:
            raise Answered(status)

    with sandbox(app) as box:
        for _ in range(3):
            convert.enqueue()
            box.run()
        box.advance("2m")
    ended = [
        (line["event"], line["gateway_status"], line["service_state"])
        for line in lines.documents
        if "duration_ms" in line
    ]
    assert ended == [
        ("job.succeeded", 200, "closed"),
        ("job.failed", 400, "closed"),
        ("job.retried", 502, "closed"),
        ("job.retried", 502, "closed"),
        ("job.parked", 502, "open"),
        ("job.succeeded", 200, "half_open"),
    ]
    started = [line["service_state"] for line in lines.of("job.started")]
    assert started == ["closed"] * 5 + ["half_open"]
    changes = {event: lines.of(event)[0]["service_state"] for event in ("service.opened", "service.closed")}
    assert changes == {"service.opened": "open", "service.closed": "closed"}
    assert {line["service"] for line in lines.documents if "service_state" in line} == {"gateway"}
    assert all(set(line) <= set(FIELDS) for line in lines.documents if line["logger"].startswith("mulligan"))


def test_a_job_without_a_service_has_no_state_of_one(app: App, lines: Lines) -> None:
    @app.task
    def convert() -> None: ...

    convert.enqueue()
    app.run_until_idle()
    assert not [line for line in lines.documents if "service_state" in line or "gateway_status" in line]


def test_a_worker_logs_a_summary_once_a_minute_and_nothing_when_nothing_happened(app: App, lines: Lines) -> None:
    @app.task
    async def quick() -> None: ...

    @app.task(retry=RetryPolicy(max_attempts=1))
    async def broken() -> None:
        raise ValueError

    @app.task(retry=RetryPolicy(backoff=Steps(["1h"])))
    async def flaky() -> None:
        raise ConnectionError

    @app.task
    async def long() -> None:
        await asyncio.sleep(200)

    with sandbox(app) as box:
        app.enqueue_many([quick.bind()] * 1_200 + [broken.bind(), flaky.bind(), flaky.bind(), long.bind()])
        box.run()
    said = [line for line in lines.documents if "seconds" in line]
    assert [line["message"] for line in said] == ["in 1m: 1,200 succeeded, 2 retried, 1 failed; 1 running now"]
    numbers = {name: said[0].get(name) for name in ("succeeded", "retried", "failed", "cancelled", "running")}
    assert numbers == {"succeeded": 1_200, "retried": 2, "failed": 1, "cancelled": None, "running": 1}
    assert set(said[0]) <= set(FIELDS)


def test_a_failure_charged_to_a_service_counts_as_parked_not_as_retried(tmp_path: Path, lines: Lines) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db", services=[Service("gateway", min_calls=5)])

    @app.task(service="gateway")
    async def call() -> None:
        raise ConnectionError

    @app.task
    async def long(seconds: float) -> None:
        await asyncio.sleep(seconds)

    with sandbox(app) as box:
        app.enqueue_many([*[call.bind()] * 5, long.bind(70), long.bind(130)])
        box.run()
    counted = [line for line in lines.documents if "seconds" in line]
    # Probes alone make no summary: the outage is logged separately.
    assert counted[0]["message"] == "in 1m 10s: 1 succeeded, 7 parked; 1 running now"
    assert all("succeeded" in line for line in counted)


def test_a_worker_that_stops_logs_what_it_did_since_the_last_summary(app: App, lines: Lines) -> None:
    @app.task
    def quick() -> None: ...

    with working(app):
        app.wait(quick.enqueue(), timeout=20)
        assert not [line for line in lines.documents if "seconds" in line]
    (said,) = [line for line in lines.documents if "seconds" in line]
    assert (said["succeeded"], said["running"]) == (1, 0)


def test_the_exception_is_logged_in_one_masked_line(app: App, lines: Lines) -> None:
    @app.task(retry=RetryPolicy(max_attempts=1))
    def pay() -> None:
        raise ValueError(f"no, password=hunter2 {NASTY}")

    @app.task(retry=RetryPolicy(max_attempts=1), timeout="50ms")
    async def linger() -> None:
        await asyncio.sleep(60)

    pay.enqueue()
    linger.enqueue()
    app.run_until_idle(timeout=20)
    said = {line["kind"]: line["error"] for line in lines.of("job.failed")}
    assert said["pay"].startswith("ValueError: no, password=•••")
    assert "\n" not in said["pay"]
    assert said["linger"] == "TimeoutError: no result after 50ms"


def test_a_manual_retry_names_the_automatic_one_that_it_replaces(app: App, lines: Lines) -> None:
    @app.task(retry=RetryPolicy(max_attempts=2, backoff=Steps(["1h"])))
    def convert() -> None:
        raise ConnectionError

    job = convert.enqueue()
    app.run_until_idle(timeout=20)
    planned = app.job(job.id).due_at
    app.retry(job.id, actor="ann")
    (asked,) = lines.of("job.retry_requested")
    assert f"by ann; it replaces the automatic retry planned for {planned}" in asked["message"]


def test_a_running_job_is_asked_to_stop(app: App, lines: Lines) -> None:
    @app.task
    def linger() -> None:
        eventually(lambda: attempt().cancelled)

    with working(app):
        job = linger.enqueue()
        eventually(lambda: app.job(job.id).state == "running")
        app.cancel(job.id)
        eventually(lambda: app.job(job.id).state == "cancelled")
    (asked,) = lines.of("job.cancel_requested")
    assert asked["status"] == "running"


@pytest.mark.parametrize("is_async", [True, False])
def test_the_lines_of_a_task_carry_its_job(app: App, lines: Lines, is_async: bool) -> None:
    log = logging.getLogger("shop")

    def speak() -> None:
        log.info("paying", extra={"order": 7, "kind": "mine"})

    async def speak_async() -> None:
        speak()

    task = app.task("pay")(speak_async if is_async else speak)
    job = task.options(owner="acme").enqueue()
    app.run_until_idle(timeout=20)
    log.info("outside")
    inside, outside = [line for line in lines.documents if line["logger"] == "shop"]
    found = {name: inside[name] for name in ("job_id", "attempt", "owner", "order", "kind")}
    assert found == {"job_id": job.id, "attempt": 1, "owner": "acme", "order": 7, "kind": "mine"}
    assert inside["worker"]
    assert "job_id" not in outside


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_no_logged_value_forges_a_line_or_controls_a_terminal(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(NASTY)
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    fields = {"name": f"shop{NASTY}", "msg": f"{NASTY} %s", "args": (NASTY,), "exc_info": info, "created": 0.0}
    extra = {"job_id": NASTY, "kind": NASTY, "attempt": NASTY, "order": NASTY, "deep": {"a": [NASTY]}}
    logged = formatter.format(logging.makeLogRecord(fields | extra))
    assert not any(character in logged for character in "\x1b\r\u202e\u2028\x00")
    logged.encode()
    first, *rest = logged.split("\n")
    assert "forged" in first
    assert all(line.startswith("    | ") for line in rest)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_secrets_in_lines_are_masked(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord(
        {"msg": "login with password=%s", "args": ("hunter2",), "token": "hunter2", "deep": {"api_key": "hunter2"}}
    )
    logged = formatter.format(record)
    assert "hunter2" not in logged
    assert "login with password=" in logged


def test_a_value_that_cannot_be_formatted_costs_no_line() -> None:
    class Rude:
        def __str__(self) -> str:
            raise RuntimeError

    record = logging.makeLogRecord({"msg": "%d pieces", "args": ("many",), "rude": Rude(), "much": float("nan")})
    found = json.loads(JsonFormatter().format(record), parse_constant=lambda name: pytest.fail(name))
    assert "pieces" in found["message"]
    assert "Rude" in found["rude"]


def test_a_line_is_bounded() -> None:
    record = logging.makeLogRecord({"msg": "x" * 1_000_000, "much": "y" * 1_000_000})
    assert len(TextFormatter().format(record)) < 20_000
    assert len(JsonFormatter().format(record)) < 40_000


def test_a_duty_that_fails_is_logged_once(app: App, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def broken(*_: Any, **__: Any) -> int:
        calls.append(1)
        raise StoreUnavailable("it is away") if len(calls) > 10 else RuntimeError("a mistake")

    monkeypatch.setattr(type(app.store), "promote", broken)
    app.settings = type(app.settings)(
        database_url=app.settings.database_url, duty_promote_interval=timedelta(milliseconds=1)
    )
    with working(app):
        eventually(lambda: len(calls) > 20)
    mistake, outage = (line for line in lines.documents if line["level"] == "ERROR")
    assert "duty 'promote'" in mistake["message"]
    assert "a mistake" in mistake["exception"]
    assert "it is away" in outage["message"]


def test_a_failing_machine_does_not_flood_the_log(lines: Lines, tmp_path: Path) -> None:
    from mulligan.duties.reclaim import LOST_NAMED, _report

    with App(f"sqlite:///{tmp_path}/lost.db") as app:

        @app.task
        def noop() -> None: ...

        app.enqueue_many([noop.bind() for _ in range(LOST_NAMED + 5)])
        from mulligan.store.messages import Claim

        claim = Claim(incarnation="w", number=1, kinds=("noop",), queues=None, limit=500, lease=timedelta(seconds=60))
        _report(list(app.store.claim(claim).leases))
    assert len(lines.documents) == LOST_NAMED + 1
    assert lines.documents[-1]["message"] == "5 more attempts lost their workers"


def test_a_final_failure_is_one_line(app: App, lines: Lines) -> None:
    @app.task
    def convert() -> None:
        raise FinalError(NASTY, code="NOT_PDF")

    convert.enqueue()
    app.run_until_idle(timeout=20)
    (failed,) = [line for line in lines.documents if line["level"] == "WARNING"]
    assert failed["message"].count("\n") == 0
    assert failed["error_code"] == "NOT_PDF"


STRUCTLOG = re.compile(r"```python\n(import structlog\n.*?)```", re.DOTALL)


def test_structlog_lines_carry_the_job_as_the_reference_says(
    app: App, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    structlog = pytest.importorskip("structlog", reason="structlog is not installed: 'pip install structlog'")
    page = Path(__file__).parent.parent / "docs" / "reference" / "logs.md"
    (block,) = STRUCTLOG.findall(page.read_text("utf-8"))
    names: dict[str, Any] = {"app": app, "__name__": "page"}
    monkeypatch.setitem(sys.modules, "page", ModuleType("page"))
    try:
        exec(block, names)
        job = names["refund"].options(owner="acme").enqueue(7)
        app.run_until_idle(timeout=20)
    finally:
        structlog.reset_defaults()
    (line,) = [line for line in lines.documents if line["logger"] == "shop"]
    found = {name: line[name] for name in ("message", "order", "job_id", "owner", "password")}
    assert found == {"message": "refunding", "order": 7, "job_id": job.id, "owner": "acme", "password": "•••"}
