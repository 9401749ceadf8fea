"""A task that blocks the event loop or the process: its lease is extended if possible, and the log names it."""

import asyncio
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from postgres_server import postgres_server

from live import SOON, eventually, working
from mulligan import App
from mulligan.settings import Settings
from mulligan.worker.loop_watch import LoopWatch

LEASE = 1.5
BLOCKED = 4.0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/jobs.db"
        return
    with postgres_server(fsync="off", full_page_writes="off") as server:
        yield server.fresh_database("lag")


def app_on(url: str) -> App:
    return App(settings=Settings(database_url=url, worker_lease_ttl=timedelta(seconds=LEASE)))


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [message for message in messages if text in message]


def test_a_task_that_blocks_the_loop_keeps_its_lease_and_is_named(url: str, caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []
    with ExitStack() as stack:
        apps = [stack.enter_context(app_on(url)) for _ in range(2)]
        apps[0].migrate()
        for app in apps:

            @app.task
            async def rude() -> str:
                runs.append(1)
                time.sleep(BLOCKED)  # noqa: ASYNC251
                return "done"

        # Two workers: the second would take the job over if its lease ran out.
        for app in apps:
            stack.enter_context(working(app))
        eventually(lambda: len(apps[0].workers()) == 2)
        job = apps[0].tasks["rude"].enqueue()
        assert apps[0].wait(job, timeout=SOON) == "done"
        assert (len(runs), apps[0].job(job.id).attempt) == (1, 1)
        assert [event.type for event in apps[0].events(job.id)] == ["job.enqueued", "job.started", "job.succeeded"]
    warning = warnings(caplog, "the event loop is blocked")[0]
    assert f"by task 'rude' (job {job.id}), in rude (" in warning
    assert "test_loop_lag.py:" in warning
    assert "asyncio.to_thread" in warning


def test_a_task_that_awaits_or_runs_in_a_thread_is_not_blamed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with app_on(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        async def patient() -> None:
            await asyncio.sleep(2.5)

        @app.task
        def steady() -> None:
            time.sleep(2.5)

        jobs = [patient.enqueue(), steady.enqueue()]
        with working(app):
            for job in jobs:
                app.wait(job, timeout=SOON)
    assert warnings(caplog, "by task") == []


def test_code_that_holds_the_global_lock_for_longer_than_a_lease_is_named_afterwards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with app_on(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def greedy() -> None:
            # PyDLL, unlike CDLL, does not let go of the lock.
            ctypes.PyDLL(None).sleep(3)
            eventually(lambda: warnings(caplog, "stood still"))

        job = greedy.enqueue()
        with working(app):
            app.wait(job, timeout=SOON)
    (warning,) = warnings(caplog, "this process stood still for")
    assert f"running: task 'greedy' (job {job.id})" in warning
    assert "isolate=True" in warning


# The watch alone, with a clock that the test moves


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> Any:
        raise NotImplementedError


class Stage:
    """A real loop that runs on request, and its watch."""

    def __init__(self) -> None:
        self.clock = Hand()
        self.loop = asyncio.new_event_loop()
        self.watch = LoopWatch(
            self.loop,
            thread=threading.get_ident(),
            clock=self.clock,
            lease=timedelta(seconds=60),
            running=list,
        )

    def look_at(self, seconds: float, *, late: float = 0.0) -> None:
        self.clock.time = 100.0 + seconds
        self.watch.look(late)

    def turn(self, blocking: Callable[[], None] | None = None) -> None:
        async def once() -> None:
            if blocking is not None:
                blocking()
            await asyncio.sleep(0)

        self.loop.run_until_complete(once())


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.loop.close()


def test_warnings_come_ever_less_often_and_start_again_when_the_loop_has_run(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    said = []
    for second in range(41):
        before = len(caplog.records)
        stage.look_at(second)
        if len(caplog.records) > before:
            said.append(second)
    assert said == [2, 4, 8, 16, 32]
    stage.turn()
    stage.look_at(41)
    stage.look_at(42)
    assert len(caplog.records) == 5
    stage.look_at(43)
    assert len(caplog.records) == 6


def test_whatever_blocks_is_named_as_well_as_it_can_be(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    def block() -> None:
        stage.look_at(0)
        stage.look_at(3)

    stage.turn(block)
    assert "by the coroutine 'Stage.turn.<locals>.once', in " in caplog.messages[0]
    stage.loop.call_soon(block)
    stage.turn()
    assert "by a callback outside any task, in " in caplog.messages[1]


def test_only_a_delay_longer_than_the_lease_is_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.look_at(0)
    stage.turn()
    stage.look_at(60, late=59)
    assert caplog.messages == []
    stage.turn()
    stage.look_at(200, late=61)
    assert "stood still for 1m 1s" in caplog.messages[0]
    assert "running: nothing" in caplog.messages[0]


def test_a_loop_that_was_closed_is_left_alone(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.loop.close()
    for second in (0, 10, 20):
        stage.look_at(second)
    assert caplog.messages == []
