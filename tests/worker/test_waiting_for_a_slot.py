"""Jobs that a worker claimed ahead and that wait for a slot."""

import asyncio
import contextlib
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from live import SOON, eventually, working
from mulligan import App, State
from mulligan.settings import Settings
from mulligan.worker.ending import StopReason
from mulligan.worker.running import Running
from mulligan.worker.slots import Slots

QUICK_JOBS = 300


@pytest.fixture
def app(tmp_path: Path) -> App:
    lease = timedelta(seconds=1.5)
    return App(settings=Settings(database_url=f"sqlite:///{tmp_path}/jobs.db", worker_lease_ttl=lease))


def used_to_quick_jobs(app: App) -> None:
    """A worker claims ahead when jobs usually end quickly."""
    jobs = app.enqueue_many(app.tasks["quick"].bind() for _ in range(QUICK_JOBS))
    app.wait(jobs[-1], timeout=SOON)
    eventually(lambda: all(app.job(job.id).state is State.SUCCEEDED for job in jobs))


def test_a_job_cancelled_while_it_waits_for_a_slot_does_not_begin_and_waits_no_longer(app: App) -> None:
    """Found by world 468727780 of the simulator."""
    begun, may_end = [], threading.Event()

    @app.task
    async def quick() -> None: ...

    @app.task
    def block() -> None:
        may_end.wait(60)

    @app.task
    async def later() -> None:
        begun.append("later")

    with working(app, concurrency=1):
        used_to_quick_jobs(app)
        blocking, waiting = app.enqueue_many([block.bind(), later.bind()])
        eventually(lambda: app.job(waiting.id).state is State.RUNNING)
        app.cancel(waiting.id)
        eventually(lambda: app.job(waiting.id).state is State.CANCELLED)
        assert app.job(blocking.id).state is State.RUNNING
        may_end.set()
        eventually(lambda: app.job(blocking.id).state is State.SUCCEEDED)
    assert begun == []


def test_waiting_jobs_begin_when_code_that_would_not_stop_ends_at_last(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.worker.slots.GRACE_SECONDS", 0.2)
    may_stop, may_end = threading.Event(), threading.Event()

    @app.task
    async def quick() -> None: ...

    @app.task(timeout="200ms")
    def stubborn() -> None:
        while not may_stop.is_set():
            with contextlib.suppress(BaseException):
                may_stop.wait(0.05)

    @app.task
    def block() -> None:
        may_end.wait(60)

    @app.task
    async def later() -> str:
        return "begun"

    with working(app, concurrency=3):
        used_to_quick_jobs(app)
        # So many that the worker has no reason to claim, which would also fill its slots.
        stuck, one, two, waiting, *_ = app.enqueue_many(
            [stubborn.bind(), block.bind(), block.bind(), *[later.bind() for _ in range(2_000)]]
        )
        eventually(lambda: app.job(waiting.id).state is State.RUNNING)
        eventually(lambda: app.job(stuck.id).state is not State.RUNNING)
        may_stop.set()
        assert app.wait(waiting, timeout=SOON) == "begun"
        assert [app.job(job.id).state for job in (one, two)] == [State.RUNNING, State.RUNNING]
        may_end.set()


def test_a_new_worker_does_not_expect_all_jobs_to_be_as_quick_as_the_first(app: App) -> None:
    may_end = threading.Event()

    @app.task
    async def work(*, is_long: bool) -> None:
        while is_long and not may_end.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def number(state: State) -> int:
        return app.store.counts()["work"].get(state, 0)

    # The quick ones end at once; none of the long ones has ended.
    app.enqueue_many(work.bind(is_long=number % 5 != 0) for number in range(1_000))
    with working(app, concurrency=100):
        eventually(lambda: number(State.RUNNING) >= 100)
        # It claims once a second.
        time.sleep(1.5)
        waiting, ended = number(State.RUNNING) - 100, number(State.SUCCEEDED)
        may_end.set()
    assert waiting <= ended


class Hasty(Slots):
    """Interrupts an attempt it has just started, before the first step of its code."""

    def _start(self, running: Running) -> None:
        super()._start(running)
        if running.lease.kind == "doomed":
            self.interrupt(running, StopReason.CANCELLED)


def test_a_job_interrupted_before_its_first_step_ends_and_frees_its_slot(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.worker.worker.Slots", Hasty)
    begun = []

    @app.task
    async def doomed() -> None:
        begun.append("doomed")

    @app.task
    async def quick() -> str:
        return "free"

    with working(app, concurrency=1):
        first = doomed.enqueue()
        eventually(lambda: app.job(first.id).state is State.CANCELLED)
        assert app.wait(quick.enqueue(), timeout=SOON) == "free"
    assert begun == []
