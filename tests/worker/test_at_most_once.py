"""Tasks that run at most once: after their code began, only a manual retry runs them again."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mulligan import App, FinalError, RateLimitedError, RetryPolicy, Snooze, State, attempt
from mulligan.errors import BadTask, StoreUnavailable
from mulligan.records.job import ONCE
from mulligan.settings import Settings
from mulligan.store.messages import Claim
from mulligan.store.sqlite import SqliteStore
from mulligan.testing import hanging, sandbox
from mulligan.wiring import AppParts

ENDS: dict[str, tuple[Callable[[], Exception], str, str]] = {
    "an error that may pass": (lambda: ConnectionResetError("gone"), "NETWORK", "it runs at most once"),
    "a wish to run later": (lambda: Snooze("5m"), "SNOOZE_LIMIT", "it runs at most once"),
    "a server that wants a pause": (
        lambda: RateLimitedError("slow down", retry_after="30s"),
        "RATE_LIMITED",
        "it runs at most once",
    ),
    "a final error": (lambda: FinalError("no", code="NOT_PDF"), "NOT_PDF", "trying again cannot help"),
}


@pytest.mark.parametrize("how", ENDS)
def test_it_is_never_run_again(how: str) -> None:
    error, code, because = ENDS[how]
    app = App("sqlite:///:memory:")
    runs: list[int] = []

    @app.task(at_most_once=True)
    def pay() -> None:
        runs.append(attempt().number)
        raise error()

    with sandbox(app) as box:
        job = pay.enqueue()
        box.advance("1d")
        found = app.job(job.id)
        assert (runs, found.state, found.error_code) == ([1], State.FAILED, code)
        assert (found.at_most_once, found.retry_count, found.max_retries) == (True, 0, 0)
        assert app.events(job.id)[-1].data["reasons"]["because"] == because
        app.retry(job.id, actor="ann")
        box.advance("1d")
        assert (runs, app.job(job.id).state) == ([1, 2], State.FAILED), "a manual retry may run it, once"


def test_an_attempt_that_times_out_is_not_repeated() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", at_most_once=True, timeout="1m")(hanging())
    with sandbox(app) as box:
        job = task.enqueue()
        box.advance("1d")
        assert (app.job(job.id).error_code, app.job(job.id).attempt) == ("TIMEOUT", 1)


async def stopped_while_it_runs(app: App, began: threading.Event) -> None:
    worker = app.wiring.build_worker(1)
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(began.wait)
    worker.stop()
    worker.stop()
    await running


@pytest.mark.parametrize("how", ["coroutine", "thread"])
def test_a_worker_that_is_stopped_fails_it_and_releases_nothing(app: App, how: str) -> None:
    began = threading.Event()

    @app.task(at_most_once=True)
    async def coroutine() -> None:
        began.set()
        await asyncio.Event().wait()

    @app.task(at_most_once=True)
    def thread() -> None:
        began.set()
        while True:
            time.sleep(0.01)

    job = app.tasks[how].enqueue()
    asyncio.run(stopped_while_it_runs(app, began))
    found = app.job(job.id)
    assert (found.state, found.error_code, found.attempt) == (State.FAILED, "WORKER_LOST", 1)
    assert "because it runs at most once" in "\n".join(app.explain(job.id).next)


@pytest.mark.parametrize("how", ["stored", "registered"])
def test_it_also_holds_if_only_the_enqueuing_or_the_running_version_sets_it(tmp_path: Path, how: str) -> None:
    began = threading.Event()

    async def pay() -> None:
        began.set()
        await asyncio.Event().wait()

    url = f"sqlite:///{tmp_path}/jobs.db"
    with App(url) as client, App(url) as server:
        job = client.task(at_most_once=how == "stored")(pay).enqueue()
        server.task(at_most_once=how == "registered")(pay)
        asyncio.run(stopped_while_it_runs(server, began))
        assert (server.job(job.id).state, server.job(job.id).error_code) == (State.FAILED, "WORKER_LOST")


class Forgetful(SqliteStore):
    """A store in which the first outcome of an attempt cannot be written, neither with others nor alone."""

    failed = 0

    def settle(self, outcomes: Any) -> Any:
        self.failed += 1
        if self.failed <= 2:
            raise RuntimeError("an unexpected fault")
        return super().settle(outcomes)


def test_a_worker_whose_outcome_was_not_stored_finds_the_job_again_and_does_not_run_it(tmp_path: Path) -> None:
    runs: list[int] = []
    settings = Settings(database_url=f"sqlite:///{tmp_path}/jobs.db", worker_lease_ttl=timedelta(seconds=1))
    with App(settings=settings) as app:

        @app.task(at_most_once=True)
        def pay() -> None:
            runs.append(attempt().number)

        with app.wiring.use(AppParts(open_store=lambda url, _services: Forgetful(url))):
            job = pay.enqueue()
            app.run_until_idle(timeout="60s")
            found = app.job(job.id)
            assert (runs, found.state, found.error_code) == ([1], State.FAILED, "WORKER_LOST")


class Unsure(SqliteStore):
    """A store that does not answer when the first attempt begins."""

    asked = 0

    def begin(self, fence: Any) -> bool:
        begun = super().begin(fence)
        self.asked += 1
        if self.asked == 1:
            raise StoreUnavailable("the reply was lost")
        return begun


def test_its_code_does_not_begin_before_its_claim_is_durable_and_until_then_it_is_released(app: App) -> None:
    runs: list[int] = []

    @app.task(at_most_once=True)
    def pay() -> str:
        runs.append(attempt().number)
        return "paid"

    with app.wiring.use(AppParts(open_store=lambda url, _services: Unsure(url))):
        job = pay.enqueue()
        app.run_until_idle(timeout="60s")
        assert (app.job(job.id).state, runs) == (State.SUCCEEDED, [2])


def test_the_policies_file_cannot_make_it_run_again(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("default: {max_attempts: 9, max_crashes: 5}\nkinds: {pay: {max_attempts: 7, timeout: 1m}}\n")
    app = App("sqlite:///:memory:", policies=file)
    runs: list[int] = []

    @app.task(at_most_once=True)
    def pay() -> None:
        runs.append(1)
        raise ConnectionResetError

    with sandbox(app) as box:
        job = pay.enqueue()
        assert {name: getattr(job, name) for name in ONCE} == ONCE
        box.advance("1d")
        assert (app.job(job.id).state, runs) == (State.FAILED, [1])
        assert app.judge.in_force("pay").timeout.total_seconds() == 60, "other settings hold"


def test_it_follows_a_failure_at_most_once_too() -> None:
    app = App("sqlite:///:memory:")
    runs: list[str] = []

    @app.task(at_most_once=True)
    def refund(job: str) -> None:
        runs.append(job)
        raise ConnectionResetError

    @app.task(on_failed=refund)
    def pay() -> None:
        raise FinalError("no")

    with sandbox(app) as box:
        job = pay.enqueue()
        box.advance("1d")
    assert runs == [job.id]


def test_a_policy_that_allows_more_is_refused() -> None:
    app = App("sqlite:///:memory:")
    with pytest.raises(BadTask, match=r"runs at most once, but its policy allows 3 attempts: leave out retry="):
        app.task("pay", at_most_once=True, retry=RetryPolicy(3))(lambda: None)
    with pytest.raises(BadTask, match="must be True or False"):
        app.task("pay", at_most_once="yes")(lambda: None)  # type: ignore[call-overload]
    assert app.task("paid", at_most_once=True, retry=RetryPolicy(1, deadline="1h"))(lambda: None).at_most_once


def test_explain_says_what_happens_when_its_worker_goes_silent() -> None:
    app = App("sqlite:///:memory:")
    pay = app.task("pay", at_most_once=True)(lambda: None)
    with sandbox(app) as box:
        job = pay.enqueue()
        app.store.claim(Claim(incarnation="lost", number=1, kinds=["pay"], limit=1, lease=timedelta(0)))
        box._clock.advance(timedelta(seconds=1))
        told = "\n".join(app.explain(job.id).next)
        assert "settles it as failed if its code had begun, and otherwise returns it" in told
