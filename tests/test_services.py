"""Services and pauses as people see and steer them, and probes that are jobs."""

import asyncio
import logging
import sys
import threading
from contextlib import suppress
from datetime import datetime, timedelta
from email.message import Message
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from mulligan import (
    App,
    ErrorCode,
    FinalError,
    Queue,
    RateLimitedError,
    RetryPolicy,
    Service,
    State,
    attempt,
)
from mulligan.duties.probe import ProbeTask
from mulligan.errors import BadArgument, BadPolicy, BadTask, InvalidArguments, UnknownKind, UnknownQueue, UnknownService
from mulligan.failure.backoff import Fixed
from mulligan.records.finding import Check, Level, Limits
from mulligan.records.job import Job, JobFilter
from mulligan.service.config import ServiceBook
from mulligan.service.records import PROBE_KIND
from mulligan.testing import sandbox

MINUTE = timedelta(minutes=1)


class Gateway:
    """A service that is well or not, and counts who asked."""

    def __init__(self) -> None:
        self.is_well = False
        self.calls = 0
        self.probed = 0

    def call(self) -> str:
        self.calls += 1
        if not self.is_well:
            raise ConnectionRefusedError("refused")
        return "done"

    def probe(self) -> bool:
        self.probed += 1
        return self.is_well


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


def shop(gateway: Gateway, **settings: Any) -> App:
    """An app whose one task calls the gateway, which opens after two failures."""
    service = Service("gateway", **{"window": 2, "cooldown": "30s", **settings})
    app = App("sqlite:///:memory:", services=[service])
    app.task("pay", service="gateway", queue="money", retry=RetryPolicy(10, Fixed("1h")))(lambda: gateway.call())
    return app


def enqueue(app: App, number: int = 1) -> list[Job[Any]]:
    return app.enqueue_many([app.tasks["pay"].bind() for _ in range(number)])


# What speaks of a service


def answered(status: int) -> HTTPError:
    error = HTTPError("http://gateway.test/", status, "no", Message(), None)
    error.close()
    return error


SERVICE_AT_FAULT = [
    answered(500),
    answered(503),
    answered(429),
    answered(408),
    TimeoutError("timed out"),
    ConnectionRefusedError(111, "Connection refused"),
    ConnectionResetError(104, "Connection reset by peer"),
]
NOT_AT_FAULT = [
    answered(404),
    answered(422),
    answered(403),
    ValueError("a mistake"),
    ZeroDivisionError(),
    KeyError("x"),
    FinalError("not a PDF", code="NOT_PDF"),
    FileNotFoundError(2, "No such file"),
    MemoryError(),
]


@pytest.mark.parametrize(
    ("raised", "state"),
    [*((error, "open") for error in SERVICE_AT_FAULT), *((error, "closed") for error in NOT_AT_FAULT)],
    ids=lambda given: (
        given if isinstance(given, str) else f"{type(given).__name__} {getattr(given, 'code', '')}".strip()
    ),
)
def test_a_service_opens_by_what_speaks_of_it_and_by_nothing_else(raised: Exception, state: str) -> None:
    def fails() -> None:
        raise raised

    app = App("sqlite:///:memory:", services=[Service("gateway", window=4)])
    app.task("pay", service="gateway", retry=RetryPolicy(1))(fails)
    with sandbox(app) as box:
        enqueue(app, 8)
        box.run()
        assert app.service("gateway").status.state == state


def test_a_service_that_says_how_long_is_left_alone_for_that_long() -> None:
    asked: list[datetime] = []

    def told_to_wait() -> None:
        asked.append(box.now)
        if len(asked) == 1:
            raise RateLimitedError("slow down", retry_after="90s", scope="service")

    app = App("sqlite:///:memory:", services=[Service("gateway", cooldown="5s")])
    app.task("pay", service="gateway")(told_to_wait)
    with sandbox(app) as box:
        start = box.now
        app.tasks["pay"].enqueue()
        box.run()
        held = enqueue(app, 5)
        assert app.service("gateway").status.trouble["because"] == "asked"  # type: ignore[index]
        assert "it asked to be left alone" in told(app, held[0])
        box.advance("89s")
        assert asked == [start], "no other job of it was tried, and no attempt is used up"
        box.advance("1m")
        assert len(asked) == 7
        assert min(asked[1:]) - start == timedelta(seconds=90)


# What is known


def test_services_of_the_code_and_of_the_store_are_listed(gateway: Gateway) -> None:
    app = App("sqlite:///:memory:", services=[Service("ledger"), Service("site:*")])
    app.task("fetch", service=lambda url: f"site:{url}")(lambda url: url)
    app.task("pay", service="gateway")(gateway.call)
    with sandbox(app) as box:
        assert [service.name for service in app.services()] == ["gateway", "ledger"]
        app.tasks["fetch"].enqueue("a.example")
        ready = {service.name: service.ready for service in app.services()}
        assert ready == {"gateway": 0, "ledger": 0, "site:a.example": 1}
        box.run()
        assert not any(service.is_known for service in app.services())


def test_an_unknown_service_is_refused_with_similar_names(gateway: Gateway) -> None:
    with sandbox(shop(gateway)) as _, sandbox(app := shop(gateway)):
        with pytest.raises(UnknownService, match=r"no service is named 'gatway'; did you mean 'gateway'\? known"):
            app.service("gatway")
        with pytest.raises(UnknownService, match="known are: 'gateway'"):
            app.service("x")


def test_a_name_that_a_configured_pattern_matches_is_a_service() -> None:
    app = App("sqlite:///:memory:", services=[Service("site:*", cooldown="5m")])
    with sandbox(app):
        assert app.service("site:a.example").status.cooldown == 5 * MINUTE
        assert app.service("site:*").status.cooldown == 5 * MINUTE
        with pytest.raises(UnknownService):
            app.service("site:*").open()


def test_an_open_service_says_why_and_until_when_and_how_many_wait(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway)) as box:
        enqueue(app, 2)
        box.run()
        enqueue(app, 3)
        (service,) = app.services()
        assert (service.state, service.open_until) == ("open", service.since + timedelta(seconds=30))  # type: ignore[operator]
        assert service.trouble == {
            "because": "share",
            "calls": 2,
            "failures": 2,
            "share": 1.0,
            "in_a_row": 2,
            "window": 2,
        }
        assert (service.ready, service.parked, gateway.calls) == (5, 0, 2), "those that met the outage wait too"


# Manually


def test_a_service_is_forced_open_closed_and_left_to_its_calls(gateway: Gateway) -> None:
    gateway.is_well = True
    with sandbox(app := shop(gateway)) as box:
        opened = app.service("gateway").open(actor="ann", reason="maintenance")
        assert (opened.state, opened.forced, opened.actor, opened.reason) == ("open", "open", "ann", "maintenance")
        enqueue(app)
        box.advance("1h")
        assert gateway.calls == 0
        assert app.service("gateway").close().state == "closed"
        box.run()
        assert gateway.calls == 1
        assert app.service("gateway").auto().forced is None
        types = [event.type for event in app.events() if event.type.startswith("service.")]
        assert types == ["service.forced"] * 3
        assert repr(app.service("gateway")) == "<service 'gateway'>"


def test_what_people_do_to_a_service_is_logged(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    with sandbox(app := shop(gateway)), caplog.at_level(logging.INFO, "mulligan.console"):
        app.service("gateway").open(actor="ann", reason="maintenance")
    (line,) = caplog.records
    assert line.getMessage() == "service gateway forced open by ann"
    assert (line.event, line.service, line.actor) == ("service.forced", "gateway", "ann")  # type: ignore[attr-defined]


# Pauses of lanes


@pytest.mark.parametrize("what", [{"queue": "money"}, {"kind": "pay"}, {"service": "gateway"}])
def test_what_is_paused_waits_and_goes_on_by_itself(gateway: Gateway, what: dict[str, str]) -> None:
    gateway.is_well = True
    with sandbox(app := shop(gateway)) as box:
        made = app.pause("30m", **what, actor="ann", reason="a move")
        assert [(pause.what, pause.name) for pause in app.pauses()] == list(what.items())
        assert (made.actor, made.reason) == ("ann", "a move")
        (job,) = enqueue(app)
        box.advance("29m")
        assert app.job(job.id).state is State.QUEUED
        box.advance("1h")
        assert app.job(job.id).state is State.SUCCEEDED
        assert app.job(job.id).finished_at == made.until


@pytest.mark.parametrize("what", [{"queue": "money"}, {"kind": "pay"}, {"service": "gateway"}])
def test_a_pause_is_ended_manually_and_both_are_events(gateway: Gateway, what: dict[str, str]) -> None:
    gateway.is_well = True
    with sandbox(app := shop(gateway)) as box:
        app.pause(**what)
        (job,) = enqueue(app)
        box.advance("30d")
        assert app.job(job.id).state is State.QUEUED
        assert app.resume(**what, actor="bob") is not None
        assert app.resume(**what) is None
        box.run()
        assert app.job(job.id).state is State.SUCCEEDED
        (part,) = what
        types = [event.type for event in app.events() if event.type.endswith(("paused", "resumed"))]
        assert types == [f"{part}.paused", f"{part}.resumed"]


def test_a_paused_kind_holds_jobs_of_its_former_names_too() -> None:
    app = App("sqlite:///:memory:")
    ran: list[int] = []
    app.task("pay", aliases=["charge"])(lambda: ran.append(1))
    with sandbox(app) as box:
        (new,) = [app.client.new_job(app.tasks["pay"].bind(), "a")]
        app.store.enqueue([type(new)(**{**{f: getattr(new, f) for f in new.__slots__}, "kind": "charge"})])
        app.pause(kind="pay")
        box.run()
        assert ran == []
        app.resume(kind="charge")
        box.run()
        assert ran == [1]


@pytest.mark.parametrize(
    ("what", "error"), [("queue", UnknownQueue), ("kind", UnknownKind), ("service", UnknownService)]
)
def test_a_name_of_nothing_is_not_paused(gateway: Gateway, what: str, error: type[Exception]) -> None:
    with sandbox(app := shop(gateway)):
        with pytest.raises(error):
            app.pause("30m", **{what: "monney"})
        assert app.pauses() == []


def test_a_queue_that_only_jobs_name_can_be_paused(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway)):
        app.tasks["pay"].options(queue="bulk").enqueue()
        assert app.pause(queue="bulk").name == "bulk"


def test_queues_that_are_only_described_can_be_paused(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text("queues:\n  slow: {fair: true}\n")
    app = App("sqlite:///:memory:", queues=[Queue("bulk", fair=True)], policies=tmp_path / "policies.yaml")
    with sandbox(app):
        assert [app.pause(queue=name).name for name in ("bulk", "slow")] == ["bulk", "slow"]


def test_one_thing_is_paused_at_a_time(gateway: Gateway) -> None:
    with (
        sandbox(app := shop(gateway)),
        pytest.raises(BadArgument, match="one of queue=, kind=, service=, duty=, schedule="),
    ):
        app.pause(queue="money", kind="pay")


# The doctor


def trouble(app: App, limits: Limits | None = None) -> tuple[Level, str, str]:
    (found,) = [finding for finding in app.doctor(limits) if finding.code is Check.SERVICES_TROUBLED]
    return found.level, found.found, found.remedy


def test_the_doctor_finds_services_that_are_open_failing_or_forced(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway)) as box:
        assert trouble(app)[0] is Level.OK
        enqueue(app, 2)
        box.run()
        level, found, remedy = trouble(app)
        assert (level, found.startswith("service 'gateway' is open since ")) == (Level.WARNING, True)
        assert remedy.startswith("mulligan services show gateway; fix the service")
        box.advance("15m")
        assert trouble(app)[0] is Level.PROBLEM
        app.service("gateway").open(actor="ann", reason="maintenance")
        level, found, remedy = trouble(app)
        assert level is Level.WARNING
        assert "is forced open by ann since" in found
        assert found.endswith('because "maintenance"')
        assert remedy == "mulligan services auto gateway, to let its calls decide again"


def test_the_doctor_knows_how_to_end_a_pause_of_a_queue(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway)):
        app.pause(queue="money")
        (found,) = [finding for finding in app.doctor() if finding.code is Check.DUTIES_PAUSED]
        assert (found.level, found.remedy) == (Level.WARNING, "mulligan resume --queue money")
        assert found.found.startswith("paused: queue money since")


# Explain


def told(app: App, job: Job[Any]) -> str:
    return "\n".join(app.explain(job.id).next)


def test_explain_says_that_the_service_is_open_with_its_figures(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway)) as box:
        first, _ = enqueue(app, 2)
        box.run()
        (job,) = enqueue(app)
        assert "Its service 'gateway' is open since" in told(app, job)
        assert "2 of its last 2 calls failed; it is probed from" in told(app, job)
        assert "no attempt is used up" in told(app, job)
        assert "[counted as a failed call of service 'gateway']" in "".join(app.explain(first.id).happened)


def test_lists_say_that_a_service_holds_a_job_and_ask_once_for_all(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sandbox(app := shop(gateway)) as box:
        enqueue(app, 2)
        box.run()
        enqueue(app, 20)
        asked = counted_calls(app, monkeypatch, "services", "pauses")
        page = app.jobs(limit=100)
        assert app.blocked_by(page.jobs) == {job.id: "service/gateway" for job in page.jobs}
        assert asked == ["pauses", "services"]
        assert app.blocked_by([]) == {} and len(asked) == 2, "the store is not asked about nothing"


def test_a_job_whose_call_was_charged_to_its_service_is_blocked_by_it_until_it_is_closed(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway)) as box:
        enqueue(app, 2)
        box.run()
        probed = [job for job in app.jobs().jobs if (job.gate or "").startswith("probe/")]
        assert probed and app.blocked_by(probed) == {job.id: "service/gateway" for job in probed}
        app.service("gateway").close()
        assert app.blocked_by(probed) == {}


def counted_calls(app: App, monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """The names of the store's operations, as they are called from now on."""
    asked: list[str] = []

    def counted(name: str, operation: Any, *args: Any, **options: Any) -> Any:
        asked.append(name)
        return operation(*args, **options)

    for name in names:
        monkeypatch.setattr(app.store, name, partial(counted, name, getattr(app.store, name)))
    return asked


def test_a_service_that_fails_fast_holds_no_job(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, mode="fail_fast")):
        app.service("gateway").open()
        assert app.blocked_by(enqueue(app)) == {}


def test_lists_say_what_else_holds_a_job() -> None:
    app = App("sqlite:///:memory:", queues=[Queue("bulk", concurrency=1)])
    retry = RetryPolicy(3, Fixed("1m"))

    @app.task(retry=retry)
    def flaky() -> None:
        raise ValueError

    @app.task(queue="bulk")
    def heavy() -> None: ...

    with sandbox(app) as box:
        failing = flaky.enqueue()
        box.run()
        app.pause("1h", duty="retry")
        box.advance("2m")
        draft = app.batch("spring")
        member = draft.add(heavy.bind())[0]
        app.pause("1h", kind="heavy")
        paused, over = heavy.enqueue(), heavy.enqueue()
        found = app.blocked_by([app.job(job.id) for job in (failing, member, paused, over)])
    assert found[failing.id] == "pause/duty/retry"
    assert found[member.id] == f"batch/{draft.id}"
    assert {found[paused.id], found[over.id]} <= {"pause/kind/heavy", "limit/queue/bulk"}


def test_explain_says_who_holds_a_service_open(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, mode="fail_fast")):
        app.service("gateway").open(actor="ann", reason="maintenance")
        (job,) = enqueue(app)
        assert 'by ann because "maintenance".' in told(app, job)
        assert "do not run and fail with SERVICE_OPEN" in told(app, job)
        assert "mulligan services auto gateway" in told(app, job)


def test_explain_says_that_a_job_was_not_tried_whatever_its_code_is(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, mode="fail_fast", fail_code="SHOP_CLOSED")) as box:
        app.service("gateway").open()
        (job,) = enqueue(app)
        box.run()
        assert gateway.calls == 0
        why = "because its service was open and is set to fail fast, so it did not run"
        assert f"No retry follows, {why}." in told(app, job)
        assert "To see its service: mulligan services show gateway" in told(app, job)
        happened = app.explain(job.id).happened[-1]
        assert "Attempt 1 failed without running with SHOP_CLOSED" in happened
        assert why in happened


def test_explain_says_that_a_service_is_probed_and_then_paced(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway)) as box:
        enqueue(app, 2)
        box.run()
        app.service("gateway").open()
        app.service("gateway").auto()
        (job,) = enqueue(app)
        assert "is being probed since" in told(app, job)
        gateway.is_well = True
        box.run()
        app.pause(queue="money")
        (job,) = enqueue(app)
        assert "Its queue 'money' is paused until it is resumed." in told(app, job)
        assert "mulligan resume --queue money" in told(app, job)
        assert " a second after an outage" in told(app, job)


def test_explain_says_how_fast_a_service_may_be_asked(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, rate="30/m")):
        (job,) = enqueue(app)
        assert "Its service 'gateway' is called at most 30 times a minute, as configured." in told(app, job)


def test_explain_says_that_a_retry_waits_for_the_budget(gateway: Gateway) -> None:
    app = App("sqlite:///:memory:", services=[Service("gateway", window=20, min_calls=20, open_at=1, budget=0.1)])

    @app.task(service="gateway", retry=RetryPolicy(5, Fixed("1s")))
    def pay(is_bad: bool) -> None:
        if is_bad and attempt().number == 1:
            raise ConnectionRefusedError("refused")

    with sandbox(app) as box:
        # Every other call fails: it never opens, but its retries are bounded.
        jobs = app.enqueue_many([pay.bind(bool(number % 2)) for number in range(80)])
        box.run()
        box.advance("2s")
        parked = [job for job in jobs if app.job(job.id).gate == "budget/gateway"]
        assert parked
        said = told(app, parked[0])
        assert "It waits for the retry budget of service 'gateway', which is failing: retries are at most 10%" in said
        assert app.service("gateway").status.parked == len(parked)
        box.advance("10m")
        assert app.service("gateway").status.parked == 0


# Names that are computed


@pytest.mark.parametrize(
    "service", ["two\nlines", "nul\0", "x" * 201, "site:*", " padded", "\ud800", 7, "a\u200bb", "a\u202eb"]
)
def test_a_computed_name_that_cannot_be_one_is_refused(app: App, service: Any) -> None:
    task = app.task("fetch", service=lambda _url: service)(lambda url: url)
    with pytest.raises(InvalidArguments, match="its service= returned an invalid name: the name of a service is"):
        task.enqueue("a")


def test_a_name_of_two_hundred_letters_of_any_script_can_be_one(app: App) -> None:
    task = app.task("fetch", service=lambda host: host)(lambda host: host)
    for name in ("example.org", "日本語.example", "two words", "é" * 200):
        assert task.bind(name).service == name


def crawler(most: int) -> App:
    app = App("sqlite:///:memory:", services=[Service("site:*", most=most)])
    app.task("fetch", service=lambda host: f"site:{host}")(lambda host: host)
    return app


def test_jobs_beyond_the_names_that_are_told_apart_are_run_and_explained(gateway: Gateway) -> None:
    with sandbox(app := crawler(2)) as box:
        jobs = [app.tasks["fetch"].enqueue(host) for host in "abc"]
        assert [job.service for job in jobs] == ["site:a", "site:b", "site:*"]
        shared = "It shares service 'site:*' with others: there are more names than can be tracked separately."
        assert [shared in told(app, job) for job in jobs] == [False, False, True]
        assert app.service("site:*").status.ready == 1
        box.run()
        assert {app.job(job.id).state for job in jobs} == {State.SUCCEEDED}


@pytest.mark.parametrize(
    ("names", "level", "says"),
    [
        (7, Level.OK, "computed service names are below their limits"),
        (8, Level.WARNING, "computed service names: 8 of 10 names of 'site:*'"),
        (12, Level.WARNING, "10 of 10 names of 'site:*'; new names share service 'site:*', so its breaker holds"),
    ],
)
def test_the_doctor_warns_before_names_are_shared(names: int, level: Level, says: str) -> None:
    with sandbox(app := crawler(10)):
        app.enqueue_many([app.tasks["fetch"].bind(f"host-{number}") for number in range(names)])
        (found,) = [finding for finding in app.doctor() if finding.code is Check.SERVICES_NAMES]
        assert (found.level, says in found.found) == (level, True)


def test_a_mistake_in_the_function_that_computes_it_is_refused_with_its_words(app: App) -> None:
    task = app.task("fetch", service=lambda url: url.host)(lambda url: url)
    with pytest.raises(InvalidArguments, match="its service= failed: AttributeError: 'str' object has no"):
        task.enqueue("a")


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_job_may_turn_out_to_depend_on_no_service(app: App, nothing: str | None) -> None:
    assert app.task("fetch", service=lambda _url: nothing)(lambda url: url).enqueue("a").service == ""


def test_a_task_that_names_a_pattern_is_refused(app: App) -> None:
    with pytest.raises(BadTask, match=r"service of task 'fetch': .* not a pattern"):
        app.task("fetch", service="site:*")(lambda: None)


# Probes


def test_a_service_with_a_probe_is_tried_by_that_first(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, probe=gateway.probe)) as box:
        enqueue(app, 2)
        box.run()
        enqueue(app, 5)
        box.advance("65s")
        assert (gateway.calls, gateway.probed) == (2, 2), "two cooldowns, and none of the jobs was tried"
        gateway.is_well = True
        box.advance("60s")
        assert gateway.probed == 3
        assert app.service("gateway").status.state == "closed"
        assert gateway.calls == 2 + 7, "those that met the outage came back"
        probes = app.jobs(JobFilter(kind=PROBE_KIND)).jobs
        assert [(job.state, job.max_attempts, job.service) for job in probes] == [(State.SUCCEEDED, 1, "gateway")] * 3
        assert [job.result["ok"] for job in probes] == [True, False, False]


def test_a_service_with_a_probe_is_well_again_though_no_job_waits(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, probe=gateway.probe)) as box:
        enqueue(app, 2)
        box.run()
        gateway.is_well = True
        box.advance("31s")
        assert app.service("gateway").status.state == "closed"


def test_a_probe_may_raise_hang_and_be_a_coroutine() -> None:
    asked: list[str] = []

    async def raises() -> None:
        asked.append("raises")
        raise OSError("no route")

    async def hangs() -> None:
        asked.append("hangs")
        await asyncio.sleep(3600)

    app = App("sqlite:///:memory:", services=[Service("a", probe=raises), Service("b", probe=hangs)])
    with sandbox(app) as box:
        for name in "ab":
            app.service(name).open()
            app.service(name).auto()
        box.run()
        results = {job.result["service"]: job.result for job in app.jobs(JobFilter(kind=PROBE_KIND)).jobs}
        assert results["a"] == {"service": "a", "ok": False, "problem": "OSError: no route"}
        assert results["b"] == {"service": "b", "ok": False, "problem": "no answer after 25 s"}
        assert {service.state for service in app.services()} == {"open"}


def test_a_probe_that_blocks_is_given_up_and_not_called_again_before_it_came_back() -> None:
    release, called = threading.Event(), []

    def blocks() -> None:
        called.append(1)
        release.wait(30)

    prober = ProbeTask(lambda: ServiceBook([Service("a", probe=blocks)]), patience=0.05)

    async def ask() -> list[Any]:
        try:
            return [(await prober.probe("a"))["problem"] for _ in range(2)]
        finally:
            release.set()

    assert asyncio.run(ask()) == ["no answer after 0.05 s", "its last probe has not returned yet"]
    assert called == [1]


def test_a_probe_that_exits_says_that_the_service_is_not_well() -> None:
    prober = ProbeTask(lambda: ServiceBook([Service("a", probe=lambda: sys.exit(3))]))
    assert asyncio.run(prober.probe("a"))["problem"] == "SystemExit: 3"


def test_a_probe_that_answers_too_late_has_not_answered() -> None:
    async def is_late() -> bool:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return True

    prober = ProbeTask(lambda: ServiceBook([Service("a", probe=is_late)]), patience=0.01)
    assert asyncio.run(prober.probe("a"))["problem"] == "no answer after 0.01 s"


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_whatever_ends_a_probe_is_an_answer_and_ends_nothing_else(raised: type[BaseException]) -> None:
    async def ends() -> None:
        raise raised

    def ends_too() -> None:
        raise raised

    app = App("sqlite:///:memory:", services=[Service("a", probe=ends), Service("b", probe=ends_too)])
    with sandbox(app) as box:
        for name in "ab":
            app.service(name).open()
            app.service(name).auto()
        box.run()
        found = [job.result["problem"] for job in app.jobs(JobFilter(kind=PROBE_KIND)).jobs]
        assert found == [f"{raised.__name__}: "] * 2
        assert {service.state for service in app.services()} == {"open"}


def test_a_probe_that_is_stopped_without_an_answer_comes_again_after_the_cooldown() -> None:
    asked: list[datetime] = []

    async def does_not_listen() -> None:
        asked.append(box.now)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)

    # Not even the timeout of the job tells anything of the service here.
    timeout = ErrorCode("TIMEOUT", "This took too long.", "retryable", 504, blames_service=None)
    service = Service("a", probe=does_not_listen, cooldown="5m")
    app = App("sqlite:///:memory:", catalogue=[timeout], services=[service])
    with sandbox(app) as box:
        app.service("a").open()
        app.service("a").auto()
        box.run()
        assert app.service("a").status.state == "open"
        box.advance("11m")
        assert [job.error_code for job in app.jobs(JobFilter(kind=PROBE_KIND)).jobs] == ["TIMEOUT"] * 3
        assert all(later - earlier >= timedelta(minutes=5) for earlier, later in pairwise(asked))


@pytest.mark.parametrize("probe", [lambda name: name, lambda *, name: name, "https://example.org", len])
def test_a_probe_that_cannot_be_called_without_arguments_is_refused(probe: Any) -> None:
    with pytest.raises(BadPolicy, match="a function that is called without arguments, or None"):
        Service("gateway", probe=probe)


def test_a_probe_may_have_arguments_it_does_without() -> None:
    for probe in (lambda _name="gateway": True, lambda *_names: True, partial(str, "gateway"), dict):
        assert Service("gateway", probe=probe).probe is probe


def test_a_plain_function_may_hand_out_an_awaitable() -> None:
    async def is_well() -> bool:
        return False

    prober = ProbeTask(lambda: ServiceBook([Service("a", probe=lambda: is_well())]))
    assert asyncio.run(prober.probe("a"))["problem"] == "it returned False"


def test_there_is_one_probe_at_a_time(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, probe=gateway.probe)):
        app.service("gateway").open()
        app.service("gateway").auto()
        app.tick()
        app.tick()
        assert len(app.jobs(JobFilter(kind=PROBE_KIND)).jobs) == 1


def test_a_service_that_is_well_or_forced_is_not_probed(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, probe=gateway.probe)) as box:
        app.service("gateway").open()
        box.advance("1h")
        app.service("gateway").close()
        box.advance("1h")
        assert gateway.probed == 0


def test_several_probes_may_have_to_succeed(gateway: Gateway) -> None:
    gateway.is_well = True
    with sandbox(app := shop(gateway, probe=gateway.probe, probes=3)):
        app.service("gateway").open()
        app.service("gateway").auto()
        for number in range(3):
            assert (app.service("gateway").status.state, gateway.probed) == ("half_open", number)
            app.tick()
            app.run_until_idle()
        assert (app.service("gateway").status.state, gateway.probed) == ("closed", 3)


def test_the_task_of_probes_is_there_where_a_service_has_one(gateway: Gateway) -> None:
    assert PROBE_KIND not in shop(gateway).tasks
    assert PROBE_KIND in shop(gateway, probe=gateway.probe).tasks
    with pytest.raises(BadTask, match=r"two tasks are named 'mulligan\.probe'"):
        shop(gateway, probe=gateway.probe).task(PROBE_KIND)(lambda: None)


def test_a_pattern_has_no_probe() -> None:
    with pytest.raises(BadPolicy, match=r"probe of service 'site:\*' is .* this pattern stands for many services"):
        Service("site:*", probe=lambda: True)


def test_a_probe_goes_to_a_queue_that_its_worker_serves(gateway: Gateway) -> None:
    with sandbox(app := shop(gateway, probe=gateway.probe)):
        app.service("gateway").open()
        app.service("gateway").auto()
        (probe,) = app.wiring.duty_builder.probes("money")
        probe.step()
        assert [job.queue for job in app.jobs(JobFilter(kind=PROBE_KIND)).jobs] == ["money"]


# The log


def test_a_change_of_a_service_is_logged_once_whatever_the_number_of_jobs(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    with sandbox(app := shop(gateway)) as box, caplog.at_level(logging.INFO, "mulligan.worker"):
        enqueue(app, 10)
        box.run()
        enqueue(app, 10)
        gateway.is_well = True
        box.advance("40s")
    lines = [record for record in caplog.records if hasattr(record, "service")]
    assert [(line.event, line.levelname) for line in lines][:2] == [  # type: ignore[attr-defined]
        ("service.opened", "WARNING"),
        ("service.closed", "WARNING"),
    ]
    assert lines[0].getMessage().endswith("calls failed (share); it is probed in 30s")
    assert "closed again after 30s, 0 probes failed: it starts at 1 calls a second" in lines[1].getMessage()
    assert sum(line.event == "service.opened" for line in lines) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("said", [{"ok": "no"}, {"ok": object()}, {"status": "500"}, {"seconds": "2"}])
def test_a_report_of_a_call_that_makes_no_sense_fails_its_job_alone(
    said: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    app = App("sqlite:///:memory:")

    @app.task(retry=RetryPolicy(max_attempts=1))
    def pay() -> None:
        attempt().called("ledger", **said)

    with sandbox(app) as box:
        job = pay.enqueue()
        box.run()
        assert app.job(job.id).state is State.FAILED
    assert "of a call is" in caplog.text


def test_what_a_task_reports_of_another_service_is_in_its_history(gateway: Gateway) -> None:
    app = App("sqlite:///:memory:")

    @app.task(service="gateway", retry=RetryPolicy(1))
    def pay() -> None:
        attempt().called("ledger", status=500)
        attempt().called("gateway", status=200)
        raise ValueError("a mistake")

    with sandbox(app) as box:
        job = pay.enqueue()
        box.run()
        said = "".join(app.explain(job.id).happened)
        assert "[counted as a failed call of service 'ledger'; counted as a good call of service 'gateway']" in said
