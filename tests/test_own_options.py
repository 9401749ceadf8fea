"""Options of one job that win over the task and over the policies file: attempts, timeout, cost."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mulligan import App, Fixed, JobFilter, Owner, RetryPolicy, State
from mulligan.errors import InvalidArguments
from mulligan.store.messages import Claim
from mulligan.testing import flaky, sandbox

FILE = "kinds: {send: {max_attempts: 2, timeout: 5s}}"
HOUR = "1h"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "policies.yaml"
    path.write_text(FILE)
    return path


def failing(app: App) -> Any:
    return app.task("send", retry=RetryPolicy(3, Fixed("1s")))(flaky(100))


def attempts(app: App, job_id: str) -> int:
    return app.job(job_id).attempt


def test_a_job_is_tried_as_often_as_its_own_option_says(path: Path) -> None:
    app = App(policies=path)
    send = failing(app)
    with sandbox(app) as box:
        plain, more, once = (
            send.enqueue(),
            send.options(max_attempts=5).enqueue(),
            send.options(max_attempts=1).enqueue(),
        )
        box.advance(HOUR)
        assert [attempts(app, job.id) for job in (plain, more, once)] == [2, 5, 1]
        assert app.job(more.id).max_attempts == app.job(more.id).own_max_attempts == 5


def test_a_job_keeps_its_own_attempts_when_the_file_changes_and_when_it_is_retried(path: Path) -> None:
    app = App(policies=path)
    send = failing(app)
    with sandbox(app) as box:
        job = send.options(max_attempts=4).enqueue()
        box.advance("1.5s")
        assert (app.job(job.id).failures, app.job(job.id).max_attempts) == (2, 4)
        path.write_text("kinds: {send: {max_attempts: 9}}")
        box.advance(HOUR)
        assert (app.job(job.id).state, attempts(app, job.id)) == (State.FAILED, 4)
        app.retry(job.id)
        box.advance(HOUR)
        assert attempts(app, job.id) == 8
        app.redrive(JobFilter(kind="send"))
        box.advance(HOUR)
        assert attempts(app, job.id) == 12


def test_an_attempt_ends_after_the_timeout_of_its_own_job(tmp_path: Path, path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db", policies=path) as app:

        @app.task(retry=RetryPolicy(1), timeout="60s")
        async def send() -> None:
            await asyncio.sleep(30)

        job = send.options(timeout="0.2s", max_attempts=1).enqueue()
        assert job.timeout == job.own_timeout == timedelta(seconds=0.2)
        began = time.monotonic()
        app.run_until_idle(timeout="20s")
        assert time.monotonic() - began < 4
        assert (app.job(job.id).error_code, app.job(job.id).timeout) == ("TIMEOUT", timedelta(seconds=0.2))


def test_the_file_does_not_make_a_job_with_a_long_timeout_of_its_own_stuck(path: Path) -> None:
    app = App(policies=path)

    @app.task
    def send() -> None: ...

    with sandbox(app) as box:
        job = send.options(timeout="2h").enqueue()
        claim = Claim(incarnation="w", number=1, kinds=("send",), limit=1, lease=timedelta(hours=9))
        (lease,) = app.store.claim(claim).leases
        assert lease.own_timeout == timedelta(hours=2)
        assert app.judge.timeout_of(lease) == timedelta(hours=2)
        assert app.explain(job.id).job.timeout == timedelta(hours=2)
        after = timedelta(minutes=30)
        assert not app.judge.is_stuck(lease, box.now + timedelta(hours=1), after=after)
        assert app.judge.is_stuck(lease, box.now + timedelta(hours=3), after=after)


def test_a_job_costs_what_its_own_option_says(path: Path) -> None:
    app = App(policies=path, owners=[Owner("acme", cost_per_month=100)])
    send = app.task("send", retry=RetryPolicy(3, Fixed("1s")), cost=1)(flaky(100))
    with sandbox(app) as box:
        job = send.options(owner="acme", cost=40).enqueue()
        free = send.options(owner="acme", cost=0).enqueue()
        box.advance(HOUR)
        assert (job.cost, free.cost) == (40, 0)
        spending = app.spending("acme")
        assert spending is not None
        assert spending.cost_this_month == 40, "one retry, by the file"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_attempts": 0}, "max_attempts is 0, but it must be an integer from 1 to 1,000,000"),
        ({"max_attempts": True}, "max_attempts is True, but it must be an integer"),
        ({"timeout": 0}, "timeout is 0, but it must be greater than zero"),
        ({"cost": -1}, "cost is -1, but it must be an integer from 0"),
        ({"cost": 1.5}, "cost is 1.5, but it must be an integer"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    send = failing(App("sqlite:///:memory:"))
    with pytest.raises(InvalidArguments) as refused:
        send.options(**options)
    assert message in str(refused.value)


def test_a_task_that_runs_at_most_once_takes_no_more_attempts() -> None:
    @App("sqlite:///:memory:").task(at_most_once=True)
    def send() -> None: ...

    send.options(max_attempts=1)
    with pytest.raises(InvalidArguments, match="max_attempts is 2, but this task runs at most once"):
        send.options(max_attempts=2)


def test_the_list_of_workers_shows_the_version_of_each(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db", version="1.4") as app:
        seen = []

        @app.task
        def look() -> None:
            seen.extend(app.workers())

        look.options(delay="0.5s").enqueue()
        app.run_until_idle(retries=True)
        while not seen:
            app.run_until_idle()
        assert [worker.version for worker in seen] == ["1.4"]
