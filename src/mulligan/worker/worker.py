"""The worker's life cycle: claim, run and settle until it is stopped, then drain and leave."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any, Protocol

from mulligan.errors import StoreError, StoreUnavailable
from mulligan.judge import Judge
from mulligan.store.messages import WorkerRecord
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.values.clock import Clock
from mulligan.worker.children.pool import ChildPool
from mulligan.worker.claiming import Claimer
from mulligan.worker.drivers import Driver
from mulligan.worker.hooks import Hook
from mulligan.worker.keeper import BEATS_PER_LEASE, Keeper
from mulligan.worker.log import Summary
from mulligan.worker.running import Backlog
from mulligan.worker.settler import BATCH, Settler
from mulligan.worker.slots import GRACE_SECONDS, Slots
from mulligan.worker.store_calls import OutageLog, StoreCalls, StoreSilent

logger = logging.getLogger("mulligan.worker")

# How long a worker that was told to stop waits for a store that does not answer.
PATIENCE_SECONDS = 5.0
LONGEST_PAUSE = 5.0


class Idle(Enum):
    """What a worker that has no job does next."""

    STOP = "stop"
    CLAIM = "claim"
    WAIT = "wait"
    """There are jobs, and it claims again: at once if attempts have ended since the last claim, else after a while."""


class WhenIdle(Protocol):
    def __call__(self, *, is_vain: bool) -> Idle:
        """Tell what to do next. `is_vain`: the worker has just claimed and got nothing."""
        ...


class Duty(Protocol):
    """A periodic piece of upkeep."""

    name: str
    interval: float

    def step(self) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    concurrency: int = 10
    queues: tuple[str, ...] | None = None
    lease: timedelta = timedelta(seconds=60)
    drain: timedelta = timedelta(seconds=30)
    """How long running jobs may continue after the worker was told to stop."""
    version: str | None = None
    """The app's version, stored with each attempt."""
    at_once: int = BATCH
    """The most jobs in one claim or settle."""


class Worker:
    def __init__(
        self,
        *,
        store: Store,
        tasks: Registry,
        judge: Judge,
        driver: Driver,
        clock: Clock,
        incarnation: str,
        host: str,
        pid: int,
        options: WorkerOptions,
        duties: Sequence[Duty] = (),
        children: ChildPool | None = None,
        around: Sequence[Hook] = (),
        fair_queues: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._store = store
        self._driver = driver
        self._options = options
        self._duties = duties
        self._incarnation = incarnation
        record = WorkerRecord(
            incarnation=incarnation,
            host=host,
            pid=pid,
            queues=options.queues,
            kinds=tuple(tasks.kinds),
            concurrency=options.concurrency,
            version=options.version,
        )
        self._outage = OutageLog(clock)
        # Shorter than a beat: after an outage the worker must be back before its leases expire.
        longest_pause = min(LONGEST_PAUSE, options.lease.total_seconds() / BEATS_PER_LEASE / 2)
        self._calls = StoreCalls(driver.blocking, outage=self._outage, longest_pause=longest_pause)
        self._summary = Summary(clock)
        backlog = Backlog()
        self._settler = Settler(
            store=store,
            judge=judge,
            clock=clock,
            calls=self._calls,
            backlog=backlog,
            summary=self._summary,
            at_once=options.at_once,
            on_settled=lambda: self._slots.go_on(),
        )
        self._slots = Slots(
            store=store,
            tasks=tasks,
            judge=judge,
            driver=driver,
            clock=clock,
            settler=self._settler,
            backlog=backlog,
            concurrency=options.concurrency,
            lease=options.lease,
            on_worn_out=self.stop,
            children=children,
            around=around,
        )
        self._claimer = Claimer(
            store=store,
            calls=self._calls,
            slots=self._slots,
            settler=self._settler,
            clock=clock,
            worker=record,
            lease=options.lease,
            version=options.version,
            at_once=options.at_once,
            fair_queues=fair_queues,
        )
        self._keeper = Keeper(
            store, worker=record, lease=options.lease, clock=clock, outage=self._outage, attempts=self._slots
        )
        self._wake = self._slots.wake
        self._stops = 0
        self._has_given_up = False
        """The last claim may still take jobs, but the worker no longer waits for its answer."""
        self._can_settle = True
        self._patience: asyncio.TimerHandle | None = None
        self._has_ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    # From outside

    def stop(self) -> None:
        """Stop claiming and let running jobs finish. A second call releases them at once."""
        self._stops += 1
        self._slots.is_stopping = True
        if self._stops == 1:
            logger.info("stopping: %d jobs in flight may finish; stop again to release them", len(self._slots))
        else:
            self._slots.interrupt_all()
        if self._loop is not None and self._patience is None:
            self._patience = self._loop.call_later(PATIENCE_SECONDS, self._calls.lose_patience)
        self._wake.set()

    async def prepare(self, resources: Any = None) -> None:
        """Start a child if a task needs one. `resources` is what attempts find as `attempt().resources`.

        Raises BadTask when a task cannot run in a child as it must.
        """
        await self._slots.prepare(resources)

    @property
    def is_stopping(self) -> bool:
        """It takes no more jobs, because it was told to stop or is worn out."""
        return self._stops > 0

    async def ended(self) -> None:
        """Wait until it has drained and left."""
        await self._has_ended.wait()

    async def run(self, *, when_idle: WhenIdle | None = None) -> None:
        """Work until stopped. Whenever no job is left, `when_idle` tells what to do next; default: wait.

        Raises WornOut when too many slots are held by code that does not stop: the process must be restarted to have
        them back. Also raises the error that keeps it from settling, such as StoreClosed.
        """
        self._loop = asyncio.get_running_loop()
        self._slots.open(self._loop)
        self._driver.start(self._store, self._keeper, self._wake.set)
        duties = [self._loop.create_task(self._repeat(duty)) for duty in self._duties]
        settler = self._loop.create_task(self._settler.run())
        settler.add_done_callback(self._stop_unsettled)
        try:
            await self._work(when_idle)
        except asyncio.CancelledError:
            # The loop is being closed: there is no time to let jobs finish.
            self._stops = 2
            self._slots.is_stopping = True
            raise
        finally:
            self._claimer.stop()
            await self._drain()
            if self._stops:
                self._summary.log(len(self._slots))
            for task in (*duties, settler):
                task.cancel()
            await asyncio.gather(*duties, settler, return_exceptions=True)
            if self._patience is not None:
                self._patience.cancel()
            await self._slots.close()
            await self._leave()
            self._driver.stop()
            self._has_ended.set()
        if self._slots.worn_out is not None:
            raise self._slots.worn_out
        if not settler.cancelled():
            # It does not end by itself, so it has failed.
            settler.result()

    # Work

    async def _work(self, when_idle: WhenIdle | None) -> None:
        while not self._stops:
            self._wake.clear()
            self._summary.log_if_due(len(self._slots))
            try:
                pause = await self._claimer.claim()
            except StoreSilent:
                self._has_given_up = True
                return
            if self._stops:
                return
            is_vain = self._slots.is_idle
            if when_idle is None or not is_vain:
                await self._rest(pause)
            if when_idle is None or self._stops or not self._slots.is_idle:
                continue
            match await self._driver.blocking(partial(when_idle, is_vain=is_vain)):
                case Idle.STOP:
                    return
                case Idle.WAIT if is_vain:
                    await self._rest(pause)

    async def _rest(self, seconds: float) -> None:
        assert self._loop is not None
        alarm = self._loop.call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _repeat(self, duty: Duty) -> None:
        logged: type[BaseException] | None = None
        while True:
            await asyncio.sleep(duty.interval)
            try:
                await self._driver.blocking(duty.step)
            except StoreUnavailable as error:
                self._outage.failed("upkeep", error)
            except Exception as error:
                # A repeated error is logged once, not once a second.
                if type(error) is not logged:
                    _log_failed_duty(duty, error)
                logged = type(error)
            else:
                self._outage.answered("upkeep")
                logged = None

    # Stop

    def _stop_unsettled(self, settler: "asyncio.Task[None]") -> None:
        """A worker that can no longer settle must not run jobs."""
        if not settler.cancelled():
            logger.error("nothing can be settled here any more: the worker stops", exc_info=settler.exception())
            self._can_settle = False
            self.stop()

    async def _drain(self) -> None:
        """Let running attempts end for a while, then release the others without counting anything."""
        # From now on every end is waited for.
        self._slots.may_be_more = True
        self._slots.release_waiting()
        releasing = asyncio.create_task(self._claimer.release_late()) if self._has_given_up else None
        try:
            await self._finish()
        finally:
            if releasing is not None:
                releasing.cancel()
                await asyncio.gather(releasing, return_exceptions=True)

    async def _finish(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.drain.total_seconds() if self._stops < 2 else 0):
                await self._until(lambda: not len(self._slots))
        self._slots.interrupt_all()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS + PATIENCE_SECONDS):
                await self._until(lambda: self._slots.is_idle or not (self._can_settle or len(self._slots)))
        if not self._slots.is_idle:
            logger.error("%d outcomes could not be stored; their jobs run again", len(self._slots.held()))

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._wake.clear()
            await self._wake.wait()

    async def _leave(self) -> None:
        """Sign off after the last beat, which would make the worker look alive again."""
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._driver.end_beats()
                await self._driver.blocking(lambda: self._store.leave(self._incarnation))


def _log_failed_duty(duty: Duty, error: Exception) -> None:
    if isinstance(error, StoreError):
        logger.error("duty %r failed; it is tried every %s s: %s", duty.name, duty.interval, error)
    else:
        logger.error("duty %r failed; it is tried every %s s", duty.name, duty.interval, exc_info=error)
