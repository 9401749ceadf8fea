"""The sandbox: a user's own tasks on a database in memory, in a time that moves when told."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from mulligan.app import App, Parts
from mulligan.duties.runner import DutyGroup
from mulligan.records.duty import DutyOverview
from mulligan.service import ServiceBook
from mulligan.store.sqlite import SqliteStore
from mulligan.store.store import Store
from mulligan.testing.virtual import START, VirtualClock, VirtualLoop
from mulligan.values.duration import Duration, parse
from mulligan.worker.drivers import InlineDriver
from mulligan.worker.tuning import collect_less

SECOND = timedelta(seconds=1)


class Sandbox:
    """Runs what is due, and moves time."""

    def __init__(self, app: App, clock: VirtualClock) -> None:
        self._app = app
        self._clock = clock

    @property
    def now(self) -> datetime:
        return self._clock.now()

    def run(self) -> None:
        """Run everything that is due now, until nothing is."""
        self._run(self.now)

    def advance(self, by: Duration) -> None:
        """Let time pass: every job that comes due on the way runs at its time, and so does every schedule."""
        self._run(self.now + parse(by))

    def _run(self, end: datetime) -> None:
        """One worker for all of it: to start one for each tick of a schedule would take longer than what it does."""
        ticker = self._app._ticker()
        with collect_less():
            ticker.run_now()
            _outside_any_loop(lambda: self._app._run_while(lambda: self._goes_on(ticker, end), ticker))
            ticker.record_runs()

    def _goes_on(self, ticker: DutyGroup, end: datetime) -> bool:
        """Whether there may be more to run: a redrive goes on by what came of the jobs before, or time has passed."""
        if ticker.run_now():
            return True
        if self.now >= end:
            return False
        due = self._next(ticker.pending.now())
        self._clock.advance((end if due is None else min(due, end)) - self.now)
        ticker.run_now()
        return True

    def _next(self, chores: DutyOverview) -> datetime | None:
        """When a job comes due or runs out of time, a batch expires, a schedule ticks, a redrive goes on, a service may
        be probed, a pause is over, or a retry may get its budget."""
        store, console = self._app.store, self._app.console
        services = console.services() if any(task.service for task in self._app.tasks.values()) else ()
        moments = [store.next_moment(), *(service.open_until for service in services)]
        if any(service.parked and service.state == "closed" for service in services):
            moments.append(self.now + SECOND)
        if "redrive" not in chores.idle:
            moments.append(console.next_redrive())
        # What was due by now has had its chance: something holds it back.
        return min((moment for moment in moments if moment is not None and moment > self.now), default=None)

    # `app.wait` asks here for changes: waiting makes time pass.

    def wait(self, timeout: float) -> bool:
        before = self._app.store.last_position()
        self.run()
        if self._app.store.last_position() != before:
            return True
        due = self._next(self._app.store.chores())
        soon = timedelta(seconds=timeout)
        self._clock.advance(soon if due is None else min(soon, due - self.now))
        return due is not None

    def close(self) -> None:
        pass


@contextmanager
def sandbox(app: App, *, now: datetime = START, seed: int = 0) -> Iterator[Sandbox]:
    """The app's tasks on SQLite in memory, whatever its URL, which is never connected to.

    `now` is when it begins; `seed` makes the jitter of retries the same in every run.
    """
    clock = VirtualClock(now)
    box = Sandbox(app, clock)

    def open_store(_url: str, services: Callable[[], ServiceBook]) -> Store:
        return SqliteStore("sqlite:///:memory:", now=clock.now, threaded=False, services=services)

    parts = Parts(
        open_store=open_store,
        changes=lambda _store: box,
        driver=InlineDriver,
        loop=lambda: VirtualLoop(clock),
        clock=clock,
        randomness=random.Random(seed),  # noqa: S311
        uses_connections=False,
        isolates=False,
    )
    with app.made_of(parts):
        yield box


def _outside_any_loop(function: Callable[[], None]) -> None:
    """An async test has a loop of its own running: then a thread gives us room for ours."""
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
