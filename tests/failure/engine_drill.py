"""The outage drill of the engine itself, in simulated time: its workers, its store, and a service that is not real.

Nothing of the engine is replaced but time. Store calls take some milliseconds, and every write to the store wakes
the other workers, as it is with a file.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from email.message import Message
from functools import partial
from math import ceil
from random import Random
from typing import Any, TypeVar
from urllib.error import HTTPError

from drill import FAULTS, SECOND, Remote, Report, Setting, line

from mulligan import App, Exponential, RetryPolicy
from mulligan.records.event import Event
from mulligan.service.state import Change
from mulligan.settings import Settings
from mulligan.store.sqlite import SqliteStore
from mulligan.store.store import Store
from mulligan.testing.virtual import START, VirtualClock, VirtualLoop
from mulligan.wiring import AppParts
from mulligan.worker.drivers import Interrupt
from mulligan.worker.keeper import Keeper

T = TypeVar("T")

TICK = 0.1
RETRY_AFTER = "5"


def sized(fault: str, **changes: Any) -> Setting:
    """Small enough for the tests: two workers, 48 calls a second."""
    usual = {"workers": 2, "slots": 40, "capacity": 60.0, "waiting": 2_000, "begins": 25.0, "ends": 90.0}
    return Setting(fault, **{**usual, **changes})


class WatchedStore(SqliteStore):
    @property
    def version(self) -> int:
        """Differs after something was written."""
        return self._database._connection.total_changes


class Neighbours:
    """The workers of one file: each hears of what another wrote."""

    def __init__(self, draw: Random, away: float) -> None:
        self._draw = draw
        self._away = away
        self._wakes: list[Callable[[], None]] = []
        self.store: WatchedStore | None = None

    def join(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    def call(self, function: Callable[[], T], by: Callable[[], None] | None = None) -> T:
        assert self.store is not None
        before = self.store.version
        answer = function()
        if self.store.version != before:
            loop = asyncio.get_running_loop()
            for wake in self._wakes:
                if wake is not by:
                    loop.call_later(self._draw.uniform(0.001, 0.010), wake)
        return answer

    async def blocking(self, function: Callable[[], T], by: Callable[[], None] | None = None) -> T:
        await asyncio.sleep(self._away * self._draw.uniform(0.5, 1.5))
        return self.call(function, by)


class NeighbourDriver:
    """Of one worker."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._wake: Callable[[], None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def blocking(self, function: Callable[[], T]) -> T:
        return await self._neighbours.blocking(function, self._wake)

    async def call(self, function: Callable[[], T], _on_start: Callable[[Interrupt], None], /) -> T:
        return function()

    def start(self, store: Store, keeper: Keeper, wake: Callable[[], None]) -> None:  # noqa: ARG002
        self._wake = wake
        self._neighbours.join(wake)
        self._keeping = asyncio.create_task(self._keep(keeper))

    async def end_beats(self) -> None:
        # A beat is one step of the loop: none is in flight.
        if self._keeping is not None:
            self._keeping.cancel()

    def stop(self) -> None:
        pass

    async def _keep(self, keeper: Keeper) -> None:
        while True:
            await self.blocking(keeper.step)
            await asyncio.sleep(keeper.interval)


class EngineDrill:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.draw = Random(setting.seed)
        self.remote = Remote(setting, self.draw)
        self.report = Report(setting)
        self.clock = VirtualClock()
        self.neighbours = Neighbours(self.draw, setting.away)
        self.called: set[int] = set()
        self.in_flight = 0
        self.app = App(
            settings=Settings(database_url="sqlite:///:memory:"),
            services=[] if setting.service is None else [setting.service],
        )
        backoff = Exponential(f"{setting.rest:g}s", factor=2, cap="40s", jitter=0.2)
        self.task = self.app.task(
            "ask",
            retry=RetryPolicy(max_attempts=100, backoff=backoff),
            service=None if setting.service is None else setting.service.name,
        )(self.ask)

    def run(self) -> Report:
        parts = AppParts(
            open_store=self.open_store,
            driver=lambda: NeighbourDriver(self.neighbours),
            clock=self.clock,
            randomness=self.draw,
            uses_connections=False,
            isolates=False,
        )
        with self.app.wiring.use(parts), asyncio.Runner(loop_factory=lambda: VirtualLoop(self.clock)) as runner:
            runner.run(self.play())
            self.report.changes = [told(event) for event in self.events() if event.type.startswith("service.")]
        return self.report

    def open_store(self, _url: str, services: Any) -> Store:
        self.neighbours.store = WatchedStore(
            "sqlite:///:memory:", now=self.clock.now, threaded=False, services=services
        )
        return self.neighbours.store

    async def play(self) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(self.setting.workers):
                await stack.enter_async_context(self.app.worker(concurrency=self.setting.slots))
            asyncio.get_running_loop().call_at(
                self.setting.begins + self.setting.floods, self.hand_in, self.setting.waiting
            )
            handed_in = 0
            while self.seconds < self.setting.ends:
                due = int(self.setting.arrivals * self.seconds)
                self.hand_in(due - handed_in)
                handed_in = due
                await asyncio.sleep(TICK)

    def hand_in(self, number: int) -> None:
        first = self.report.begun
        self.report.begun += number
        bindings = [self.task.bind(first + one) for one in range(number)]
        if bindings:
            self.neighbours.call(partial(self.app.enqueue_many, bindings))

    # The service

    @property
    def seconds(self) -> float:
        return self.clock.monotonic()

    async def ask(self, number: int) -> None:
        second = int(self.seconds)
        self.report.calls[second] += 1
        self.report.firsts[second] += number not in self.called
        self.called.add(number)
        self.in_flight += 1
        self.report.most_in_flight = max(self.report.most_in_flight, self.in_flight)
        is_faulty = self.remote.is_faulty(int(self.seconds * SECOND))
        seconds, ok = self.remote.answer(int(self.seconds * SECOND))
        # Many answers at once cost a simulation less than as many by themselves. Failures come as fast as they can.
        await asyncio.sleep(on_the_tick(self.seconds + seconds) - self.seconds if ok else seconds)
        self.in_flight -= 1
        if not ok:
            self.report.failed[int(self.seconds)] += 1
            raise self.failure(is_faulty=is_faulty)
        self.report.good[int(self.seconds)] += 1
        self.report.done += 1

    def failure(self, *, is_faulty: bool) -> Exception:
        fault = self.setting.fault
        if is_faulty and fault in ("dead", "flapping"):
            return ConnectionRefusedError(111, "Connection refused")
        if is_faulty and fault in ("429", "50 % errors"):
            return answer(429 if fault == "429" else 503)
        return TimeoutError("timed out")

    # What was seen

    def events(self) -> list[Event]:
        found: list[Event] = []
        while more := self.app.events(after=found[-1].position if found else 0, limit=500):
            found += more
        return found


def on_the_tick(seconds: float) -> float:
    return ceil(seconds / TICK) * TICK


def answer(status: int) -> HTTPError:
    headers = Message()
    if status == 429:
        headers["Retry-After"] = RETRY_AFTER
    error = HTTPError("http://service.test/", status, "not now", headers, None)
    error.close()
    return error


def told(event: Event) -> tuple[float, Change]:
    return (event.at - START) / timedelta(seconds=1), Change(event.type, dict(event.data))


def engine_drill(setting: Setting) -> Report:
    return EngineDrill(setting).run()


if __name__ == "__main__":
    for fault in sys.argv[1:] or FAULTS:
        print(line(engine_drill(sized(fault))), flush=True)
