"""What ended is settled in batches, and after each of them its worker goes on."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mulligan import App, State
from mulligan.clock import SystemClock
from mulligan.store.protocols import Claim
from mulligan.worker.caller import Caller
from mulligan.worker.drivers import InlineDriver
from mulligan.worker.ended import Success
from mulligan.worker.outage import Outage
from mulligan.worker.running import Running
from mulligan.worker.settler import Settler

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


def test_a_worker_need_not_wait_until_everything_is_settled(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mulligan.worker.settler.BATCH", BATCH)
    clock, left, is_over = SystemClock(), [], asyncio.Event()

    def settled() -> None:
        left.append(len(settler))
        if not len(settler):
            is_over.set()

    settler = Settler(
        store=app.store,
        judge=app.judge,
        clock=clock,
        caller=Caller(InlineDriver(), outage=Outage(clock), longest_pause=1.0, troubled=lambda: None),
        is_more_to_come=lambda: False,
        let_go=lambda _held: None,
        settled=settled,
    )

    async def settle_all() -> None:
        for one in running(app, 3 * BATCH):
            settler.offer(one, Success("null"), 0.001)
        settling = asyncio.create_task(settler.run())
        await asyncio.wait_for(is_over.wait(), timeout=30)
        settling.cancel()

    asyncio.run(settle_all())
    assert left == [2 * BATCH, BATCH, 0]
    assert {job.state for job in app.jobs(limit=100).jobs} == {State.SUCCEEDED}
