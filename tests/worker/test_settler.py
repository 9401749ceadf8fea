"""Ends are settled in batches, and the worker continues after each batch."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from mulligan import App, State
from mulligan.failure.decision import Succeed
from mulligan.store.messages import Claim, Outcome
from mulligan.values.clock import SystemClock
from mulligan.worker.drivers import InlineDriver
from mulligan.worker.ending import Success
from mulligan.worker.log import Summary
from mulligan.worker.running import Backlog, Running
from mulligan.worker.settler import Settler
from mulligan.worker.store_calls import OutageLog, StoreCalls

T = TypeVar("T")
BATCH = 10


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.migrate()
        yield app


def running(app: App, number: int) -> list[Running]:
    @app.task
    async def quick() -> None: ...

    app.enqueue_many(quick.bind() for _ in range(number))
    claim = Claim(
        incarnation="a", number=1, kinds=tuple(app.tasks), queues=None, limit=number, lease=timedelta(minutes=1)
    )
    leases = app.store.claim(claim).leases
    return [Running(lease, claimed=0.0, extend_at=0.0) for lease in leases]


class SlowAtFirst(InlineDriver):
    """The first call blocks until the test releases it."""

    def __init__(self) -> None:
        self.is_called, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def blocking(self, function: Callable[[], T]) -> T:
        if not self.is_called.is_set():
            self.is_called.set()
            await self.may_go_on.wait()
        return await super().blocking(function)


class Left(list[int]):
    """How many were not settled yet, after each batch."""

    def __init__(self, app: App, driver: InlineDriver) -> None:
        clock = SystemClock()
        self._news = asyncio.Event()
        self.settler = Settler(
            summary=Summary(clock),
            store=app.store,
            judge=app.judge,
            clock=clock,
            calls=StoreCalls(driver.blocking, outage=OutageLog(clock), longest_pause=1.0),
            backlog=Backlog(),
            on_settled=self._settled,
            at_once=BATCH,
        )

    def _settled(self) -> None:
        self.append(len(self.settler))
        self._news.set()

    async def until(self, number: int) -> None:
        async with asyncio.timeout(30):
            while len(self.settler) > number:
                self._news.clear()
                await self._news.wait()


def test_a_worker_need_not_wait_until_everything_is_settled(app: App) -> None:
    left = Left(app, InlineDriver())

    async def settle_all() -> None:
        for one in running(app, 3 * BATCH):
            left.settler.offer(one, Success("null"), 0.001)
        settling = asyncio.create_task(left.settler.run())
        await left.until(0)
        settling.cancel()

    asyncio.run(settle_all())
    assert left == [2 * BATCH, BATCH, 0]
    assert {job.state for job in app.jobs(limit=100).jobs} == {State.SUCCEEDED}


def test_an_outcome_that_could_not_be_stored_counts_as_failed(app: App, caplog: pytest.LogCaptureFixture) -> None:
    summary = Summary(SystemClock())
    stored, unstorable = running(app, 2)
    outcomes = [Outcome(stored.lease, Succeed("1")), Outcome(unstorable.lease, Succeed("\ud800"))]
    with caplog.at_level("INFO", "mulligan.worker"):
        summary.count(outcomes, app.store.settle(outcomes))
        summary.log(running=0)
    assert caplog.messages[-1].endswith(": 1 succeeded, 1 failed; 0 running now")


def test_a_full_batch_does_not_wait_for_the_one_before(app: App) -> None:
    driver = SlowAtFirst()
    left = Left(app, driver)

    async def settle_all() -> None:
        settling = asyncio.create_task(left.settler.run())
        first, *others = running(app, 1 + 2 * BATCH)
        left.settler.offer(first, Success("null"), 0.001)
        await driver.is_called.wait()
        for one in others:
            left.settler.offer(one, Success("null"), 0.001)
        assert len(left.settler.held()) == 1 + 2 * BATCH
        await left.until(1)
        assert left.settler.held() == [first]
        driver.may_go_on.set()
        await left.until(0)
        settling.cancel()

    asyncio.run(settle_all())
    assert left == [1 + BATCH, 1, 0]


def test_single_ends_are_settled_although_no_batch_is_full(app: App) -> None:
    left = Left(app, InlineDriver())

    async def settle_all() -> None:
        settling = asyncio.create_task(left.settler.run())
        for one in running(app, 2):
            left.settler.offer(one, Success("null"), 0.001)
            await left.until(0)
        settling.cancel()

    asyncio.run(settle_all())
    assert left == [0, 0]


class Broken(Settler):
    async def run(self) -> None:
        raise RuntimeError("a mistake of ours")


def test_a_worker_that_cannot_settle_stops_and_logs_it(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mulligan.worker.worker.Settler", Broken)

    async def work() -> None:
        async with asyncio.timeout(30), app.worker() as worker:
            await worker.ended()

    with pytest.raises(RuntimeError, match="a mistake of ours"):
        asyncio.run(work())
    assert "nothing can be settled here any more" in caplog.text
