"""The sandbox: runs the tasks of an app on a database in memory, in virtual time."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial

from mulligan.app import App
from mulligan.duties.runner import DutyGroup
from mulligan.service.config import ServiceBook
from mulligan.store.messages import Outlook
from mulligan.store.sqlite import SqliteStore
from mulligan.store.store import Store
from mulligan.testing.virtual import START, VirtualClock, VirtualDriver, VirtualLoop
from mulligan.values.duration import Duration, parse
from mulligan.wiring import AppParts
from mulligan.worker.tuning import collect_less

SECOND = timedelta(seconds=1)


class Sandbox:
    """Runs due jobs and moves virtual time."""

    def __init__(self, app: App, clock: VirtualClock) -> None:
        self._app = app
        self._wiring = app.wiring
        self._clock = clock

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return self._clock.now()

    def run(self) -> None:
        """Run all jobs that are due now, and those that they enqueue."""
        self._run(self.now)

    def advance(self, by: Duration) -> None:
        """Move time forward: `box.advance("5m")`. Jobs and schedules that come due run at their time."""
        self._run(self.now + parse(by))

    def _run(self, end: datetime) -> None:
        """Run one worker until `end`. One for each tick of a schedule would take longer than the jobs."""
        ticker = self._wiring.duty_builder.ticker()
        with collect_less():
            ticker.run_now()
            goes_on = partial(self._goes_on, ticker, end)
            _outside_any_loop(lambda: self._wiring.run_while(goes_on, ticker))
            ticker.record_runs()

    def _goes_on(self, ticker: DutyGroup, end: datetime, outlook: Outlook) -> bool:
        """Whether there may be more to run: a redrive has advanced, or time has moved."""
        if ticker.run_now(outlook.duties):
            return True
        if self.now >= end:
            return False
        due = self._next(outlook)
        moment = end if due is None else min(due, end)
        self._clock.advance(moment - self.now)
        ticker.run_now(outlook.duties_at(moment))
        return True

    def _next(self, outlook: Outlook) -> datetime | None:
        """The next time at which anything happens: a job comes due or times out, a batch expires, a schedule ticks, a
        redrive advances, a service is probed, a pause ends, or a retry gets its budget."""
        wiring = self._wiring
        services = wiring.services.list_services() if any(task.service for task in self._app.tasks.values()) else ()
        moments = [outlook.next_moment, *(service.open_until for service in services)]
        if any(service.parked and service.state == "closed" for service in services):
            moments.append(self.now + SECOND)
        if "redrive" not in outlook.duties.idle:
            moments.append(wiring.redrives.next_look())
        # Jobs that were due by now have not run, so something holds them back.
        return min((moment for moment in moments if moment is not None and moment > self.now), default=None)

    # The sandbox is also the `Changes` that `app.wait` waits for: waiting moves time.

    def wait(self, timeout: float) -> bool:
        before = self._app.store.last_position()
        self.run()
        if self._app.store.last_position() != before:
            return True
        due = self._next(self._app.store.outlook(self._app.tasks.kinds))
        soon = timedelta(seconds=timeout)
        self._clock.advance(soon if due is None else min(soon, due - self.now))
        return due is not None

    def close(self) -> None:
        pass


@contextmanager
def sandbox(app: App, *, now: datetime = START, seed: int = 0) -> Iterator[Sandbox]:
    """Run the tasks of an app on SQLite in memory. Its own database is never connected to.

        with sandbox(app) as box:
            job = convert.enqueue("a.pdf")
            box.advance("5m")
            assert app.job(job.id).state == "succeeded"

    `connection=` is accepted and ignored, and `isolate` runs in this process. `now` is the virtual time at the start;
    `seed` makes the jitter of retries the same in every run.
    """
    clock = VirtualClock(now)
    box = Sandbox(app, clock)

    def open_store(_url: str, services: Callable[[], ServiceBook]) -> Store:
        return SqliteStore("sqlite:///:memory:", now=clock.now, threaded=False, services=services)

    parts = AppParts(
        open_store=open_store,
        changes=lambda _store: box,
        driver=VirtualDriver,
        loop=lambda: VirtualLoop(clock),
        clock=clock,
        randomness=random.Random(seed),  # noqa: S311
        uses_connections=False,
        isolates=False,
    )
    with app.wiring.use(parts):
        yield box


def _outside_any_loop(function: Callable[[], None]) -> None:
    """Call it directly, or in a thread if an event loop is running here, as in an async test."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        function()
        return
    raised: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
