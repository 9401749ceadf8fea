"""What an outage costs the jobs that meet it, in simulated time: no attempt, however long it lasts."""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mulligan import App, RateLimitedError, RetryPolicy, Service, State
from mulligan.records.job import Job
from mulligan.service.charge import MOST_RETURNS
from mulligan.testing import sandbox
from mulligan.testing.sandbox import Sandbox

HOUR = timedelta(hours=1)


class Host:
    """A service that answers at some times, and counts its calls."""

    def __init__(self, is_up: Callable[[float], bool], error: Callable[[], Exception] = ConnectionRefusedError) -> None:
        self.is_up = is_up
        self.error = error
        self.calls: Counter[bool] = Counter()
        self.box: Sandbox | None = None
        self.begun: Any = None

    def call(self, *, is_bad: bool = False) -> None:
        assert self.box is not None
        self.begun = self.begun or self.box.now
        is_up = self.is_up((self.box.now - self.begun) / HOUR) and not is_bad
        self.calls[is_up] += 1
        if not is_up:
            raise self.error()


def app_of(host: Host, *, retry: RetryPolicy | None = None, **service: Any) -> App:
    app = App("sqlite:///:memory:", services=[Service("gateway", **{"cooldown": "10m", **service})])
    app.task("call", service="gateway", retry=retry or RetryPolicy())(host.call)
    return app


def enqueue(app: App, number: int) -> list[Job[Any]]:
    return app.enqueue_many([app.tasks["call"].bind() for _ in range(number)])


def states(app: App, jobs: list[Job[Any]]) -> Counter[State]:
    return Counter(app.job(job.id).state for job in jobs)


@pytest.mark.parametrize(
    ("retry", "error"),
    [
        (RetryPolicy(), ConnectionRefusedError),
        (RetryPolicy(1), TimeoutError),
        (RetryPolicy(limits={"NETWORK": 0}), ConnectionRefusedError),
        (RetryPolicy(max_snoozes=0), lambda: RateLimitedError("slow", retry_after="1m")),
        (RetryPolicy(max_snoozes=0), lambda: RateLimitedError("slow", retry_after="1h", scope="service")),
    ],
    ids=["defaults", "one attempt", "a limit of its code", "rate limited", "asked for quiet"],
)
def test_after_a_day_of_outage_no_job_has_failed_and_all_succeed_then(
    retry: RetryPolicy, error: Callable[[], Exception]
) -> None:
    host = Host(lambda hour: hour >= 24, error)
    with sandbox(app := app_of(host, retry=retry)) as box:
        host.box = box
        jobs = enqueue(app, 20)
        box.advance("23h")
        assert {(app.job(job.id).failures, app.job(job.id).snoozes) for job in jobs} == {(0, 0)}
        assert max(app.job(job.id).attempt for job in jobs) - min(app.job(job.id).attempt for job in jobs) <= 2
        box.advance("3h")
        assert states(app, jobs) == {State.SUCCEEDED: 20}


def test_a_service_that_answers_once_between_two_outages_costs_no_job_an_attempt() -> None:
    host = Host(lambda hour: hour >= 12 or (hour >= 6 and not host.calls[True]))
    with sandbox(app := app_of(host, min_calls=3, cooldown="5m")) as box:
        host.box = box
        jobs = enqueue(app, 3)
        box.advance("11h")
        assert states(app, jobs) == {State.SUCCEEDED: 1, State.WAITING: 2}
        assert {app.job(job.id).failures for job in jobs} == {0}
        assert min(app.job(job.id).attempt for job in jobs) > MOST_RETURNS, "probes are not counted"
        box.advance("2h")
        assert states(app, jobs) == {State.SUCCEEDED: 3}


def test_a_health_check_that_succeeds_in_an_outage_costs_no_job_an_attempt(caplog: pytest.LogCaptureFixture) -> None:
    host = Host(lambda hour: hour >= 24)
    with sandbox(app := app_of(host, probe=lambda: True)) as box, caplog.at_level(logging.WARNING, "mulligan.worker"):
        host.box = box
        jobs = enqueue(app, 20)
        box.advance("23h")
        assert {app.job(job.id).failures for job in jobs} == {0}
        assert host.calls[False] <= 10 * 24 * 6, "as many as show that the check is wrong, in each cooldown"
        box.advance("2h")
        assert states(app, jobs) == {State.SUCCEEDED: 20}
    assert len(caplog.records) < 15, "one outage is told as one"


def test_after_a_health_check_a_job_that_always_fails_keeps_the_service_from_no_other() -> None:
    host = Host(lambda hour: hour >= 6)
    with sandbox(app := app_of(host, probe=lambda: host.is_up((box.now - host.begun) / HOUR))) as box:
        host.box = box
        bad = app.enqueue_many([app.tasks["call"].bind(is_bad=True) for _ in range(12)])
        good = enqueue(app, 12)
        box.advance("5h")
        assert states(app, [*bad, *good])[State.FAILED] == 0
        box.advance("2h")
        assert states(app, good) == {State.SUCCEEDED: 12}


def test_a_health_check_closes_a_service_that_no_job_waits_for() -> None:
    host = Host(lambda hour: hour >= 1)
    with sandbox(app := app_of(host, retry=RetryPolicy(1), min_calls=3, probe=lambda: True)) as box:
        host.box = box
        enqueue(app, 3)
        box.advance("1m")
        for job in app.jobs().jobs:
            app.cancel(job.id)
        box.advance("11m")
        assert app.service("gateway").status.state == "closed"


def test_one_job_that_always_fails_neither_dies_of_probing_nor_keeps_the_service_from_the_others() -> None:
    host = Host(lambda hour: hour >= 6)
    with sandbox(app := app_of(host)) as box:
        host.box = box
        (bad,) = app.enqueue_many([app.tasks["call"].bind(is_bad=True)])
        good = enqueue(app, 12)
        box.advance("5h")
        assert states(app, [bad, *good])[State.FAILED] == 0
        box.advance("2h")
        for _ in range(6):
            good += enqueue(app, 1)
            box.advance("15m")
            assert states(app, good) == {State.SUCCEEDED: len(good)}, "one cooldown later at most"
        assert app.job(bad.id).state is State.FAILED, "by its own calls, while those of others succeeded"


def test_an_outage_is_logged_when_it_begins_at_growing_intervals_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host(lambda hour: hour >= 24)
    with sandbox(app := app_of(host)) as box, caplog.at_level(logging.INFO, "mulligan.worker"):
        host.box = box
        enqueue(app, 10)
        box.advance("25h")
    lines = [record for record in caplog.records if record.getMessage().startswith("service gateway is ")]
    told = [line.getMessage().removeprefix("service gateway is ") for line in lines if line.levelno >= logging.WARNING]
    assert told == [
        "open: 10 of 10 calls failed (share); it is probed in 10m",
        *(
            f"still open after {lasts}: {probes} failed, 9 other jobs wait"
            for lasts, probes in (
                ("10m", "1 probe"),
                ("20m", "2 probes"),
                ("40m", "4 probes"),
                ("1h 20m", "8 probes"),
                ("2h 40m", "16 probes"),
                ("5h 20m", "32 probes"),
                ("10h 40m", "64 probes"),
                ("21h 20m", "128 probes"),
            )
        ),
        "closed again after 1d, 143 probes failed: it starts at 1 calls a second",
    ]
    # One line each when they succeed at a later attempt, and the calm lines of the worker.
    assert len(caplog.records) < 60
