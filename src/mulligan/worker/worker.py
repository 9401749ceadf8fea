"""The worker: claim → run → judge → settle, until told to stop."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from mulligan.attempt import Ports
from mulligan.errors import LeaseLost, StoreError, StoreUnavailable, WornOut
from mulligan.failure.classify import worker_lost
from mulligan.failure.verdict import Failure
from mulligan.judge import Judge
from mulligan.records.job import Lease
from mulligan.store.protocols import Claim, Claimed, Store, WorkerRecord
from mulligan.task.registry import Registry
from mulligan.task.task import Task
from mulligan.values.clock import Clock
from mulligan.worker import log
from mulligan.worker.caller import Caller, GaveUpError
from mulligan.worker.children.pool import START_SECONDS, Children
from mulligan.worker.drivers import Driver
from mulligan.worker.ending import Ended, Failed, Interruption, Judged, Why
from mulligan.worker.hooks import Hook
from mulligan.worker.keeper import BEATS_PER_LEASE, Keeper
from mulligan.worker.outage import Outage
from mulligan.worker.run import run, stopped
from mulligan.worker.running import Running
from mulligan.worker.settler import BATCH, LOST, Settler, speaks_of_service
from mulligan.worker.summary import Summary

logger = logging.getLogger("mulligan.worker")
ABANDONED: list["asyncio.Task[Any]"] = []
T = TypeVar("T")

# Jobs that will have ended before another claim could bring new ones.
AHEAD_SECONDS = 0.1
POLL_SECONDS = 1.0
# After so many attempts none of which looked at the record of its job, claims no longer bring it along.
LEARNED = 1_000
# How long code that was interrupted may take to stop before it is given up.
GRACE_SECONDS = 5.0
LONGEST_PAUSE = 5.0
SHORTEST_REST = 0.001


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
    """How long jobs in flight may go on after the worker was told to stop."""
    version: str | None = None
    """Of the app, kept with each attempt."""
    at_once: int = BATCH
    """How many are claimed, or settled, at once."""


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
        children: Children | None = None,
        around: Sequence[Hook] = (),
        fair_queues: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._judge = judge
        self._driver = driver
        self._clock = clock
        self._options = options
        self._duties = duties
        self._children = children
        """None: every task runs in this process."""
        self._around = around
        self._fair_queues = fair_queues
        self._record = WorkerRecord(
            incarnation=incarnation,
            host=host,
            pid=pid,
            queues=options.queues,
            kinds=tuple(tasks.kinds),
            concurrency=options.concurrency,
        )
        self._outage = Outage(clock)
        self._keeper = Keeper(
            store,
            worker=self._record,
            lease=options.lease,
            clock=clock,
            outage=self._outage,
            held=self._held,
            interrupt=self._interrupt_from_elsewhere,
        )
        self._ports = Ports(secure=store.secure, blocking=driver.blocking)
        self._claims = 0
        self._adopt_at = clock.monotonic() + options.lease.total_seconds()
        self._backlog: deque[Running] = deque()
        self._running: dict[Running, None] = {}
        """A set in the order of their starts. By attempt, not by job: an earlier attempt of one may still be here."""
        self._left_behind: set[Running] = set()
        """Attempts that were given up, but whose code would not stop: their slots are not free."""
        self._worn_out: WornOut | None = None
        # Shorter than a beat: after an outage we must be back before our leases are another's.
        longest_pause = min(LONGEST_PAUSE, options.lease.total_seconds() / BEATS_PER_LEASE / 2)
        self._caller = Caller(driver, outage=self._outage, longest_pause=longest_pause, troubled=self._adopt_soon)
        self._summary = Summary(clock)
        self._settler = Settler(
            store=store,
            judge=judge,
            clock=clock,
            caller=self._caller,
            is_more_to_come=lambda: bool(self._backlog),
            let_go=self._let_go,
            settled=self._go_on,
            summary=self._summary,
            at_once=options.at_once,
        )
        self._usual_seconds = 1.0
        self._ended_ones = 0
        """How many attempts ended."""
        self._may_be_more = True
        """The last claim brought all that it asked for."""
        self._has_looked = False
        """A task looked at the record of its job: claims bring them along."""
        self._stops = 0
        self._has_given_up = False
        """The last claim may still take jobs, and nobody waits for its answer."""
        self._wake = asyncio.Event()
        self._patience: asyncio.TimerHandle | None = None
        self._has_ended = asyncio.Event()
        self._watch_timer: asyncio.TimerHandle | None = None
        self._watch_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    # From outside

    def stop(self) -> None:
        """Stop claiming and finish what is in flight; called again: release it at once."""
        self._stops += 1
        if self._stops == 1:
            logger.info("stopping: %d jobs in flight may finish; stop again to release them", len(self._running))
        else:
            self._interrupt_all()
        if self._loop is not None and self._patience is None:
            # A worker that was told to stop does not wait for a store that is silent.
            self._patience = self._loop.call_later(GRACE_SECONDS, self._caller.lose_patience)
        self._wake.set()

    def look(self) -> None:
        """Claim again at once: there may be jobs."""
        self._wake.set()

    async def prepare(self, resources: Any = None) -> None:
        """Raises what keeps this worker from its work; else its first child is warm, if it needs one.

        `resources` is what the attempts find as theirs.
        """
        self._ports = replace(self._ports, resources=resources)
        if self._children is not None:
            await self._children.prepare(self._tasks.values())

    @property
    def is_stopping(self) -> bool:
        """It takes no more jobs: it was told to stop, or is worn out."""
        return self._stops > 0

    async def ended(self) -> None:
        """Wait until it has drained and left, whoever told it to."""
        await self._has_ended.wait()

    async def run(self, *, until: Callable[[], bool] | None = None) -> None:
        """Work until stopped, or until nothing is left here and `until` says that this is enough.

        Raises WornOut when too much of the tasks' code would not stop: only a new process has all slots again; and what
        keeps it from settling, such as StoreClosed.
        """
        self._loop = asyncio.get_running_loop()
        self._driver.start(self._store, self._keeper, self._wake.set)
        duties = [self._loop.create_task(self._upkeep(duty)) for duty in self._duties]
        settler = self._loop.create_task(self._settler.run())
        settler.add_done_callback(self._left_alone)
        try:
            await self._work(until)
        except asyncio.CancelledError:
            # Whoever runs the loop takes it down: no time to let anything finish.
            self._stops = 2
            raise
        finally:
            await self._drain()
            if self._stops:
                self._summary.say(len(self._running))
            for task in (*duties, settler):
                task.cancel()
            await asyncio.gather(*duties, settler, return_exceptions=True)
            for timer in (self._watch_timer, self._patience):
                if timer is not None:
                    timer.cancel()
            if self._children is not None:
                await self._children.close()
            await self._leave()
            self._driver.stop()
            self._has_ended.set()
        if self._worn_out is not None:
            raise self._worn_out
        if not settler.cancelled():
            # It has failed: it does not end by itself.
            settler.result()

    # Claim

    async def _work(self, until: Callable[[], bool] | None) -> None:
        while not self._stops:
            self._wake.clear()
            self._summary.say_if_due(len(self._running))
            wanted = self._wanted()
            pause = POLL_SECONDS
            if wanted > 0:
                try:
                    pause = await self._claim(wanted)
                except GaveUpError:
                    self._has_given_up = True
                    return
                if self._stops:
                    return
            if until is not None and self._is_idle and await self._driver.blocking(until):
                return
            await self._rest(pause)

    def _wanted(self, coming: int = 0) -> int:
        """Free slots and what will end before another claim could answer; nothing while settles lag behind."""
        most = self._options.at_once
        if len(self._settler) > 3 * most:
            return 0
        slots = self._options.concurrency - len(self._left_behind)
        # Those that end first are the quick ones: not more than have ended.
        ahead = min(2 * most, self._ended_ones, int(slots * AHEAD_SECONDS / max(self._usual_seconds, 1e-6)))
        waiting = len(self._backlog) + coming
        wanted = min(most, slots + ahead - len(self._running) - waiting)
        # With work in hand there is time to wait for room: few large claims cost less than many small ones.
        return wanted if not waiting or wanted >= min(most, (slots + ahead) // 2) else 0

    async def _claim(self, limit: int) -> float:
        """Claim as long as there may be more and there is room for it; seconds to rest before the next claim."""
        claimed = await self._claimed(limit)
        while self._may_be_more:
            limit = 0 if self._stops or self._is_to_adopt else self._wanted(coming=len(claimed.leases))
            if limit <= 0:
                await self._take(claimed)
                return 0.0 if self._wanted() > 0 else POLL_SECONDS
            claimed = await self._take_meanwhile(claimed, self._claimed(limit))
        await self._take(claimed)
        due = POLL_SECONDS if claimed.next_due is None else claimed.next_due.total_seconds()
        return min(POLL_SECONDS, max(due, SHORTEST_REST))

    async def _claimed(self, limit: int) -> Claimed:
        self._claims += 1
        claim = Claim(
            incarnation=self._record.incarnation,
            number=self._claims,
            kinds=self._record.kinds,
            queues=self._options.queues,
            limit=limit,
            lease=self._options.lease,
            version=self._options.version,
            whole=self._has_looked or self._settler.mostly_fails or self._ended_ones < LEARNED,
            fair=self._fair_queues(),
        )
        # The same number until there is an answer: if only the reply was lost, the same jobs come back.
        claimed = await self._caller.ask(lambda: self._store.claim(claim), kind="claim")
        self._may_be_more = len(claimed.leases) >= limit
        return claimed

    async def _take_meanwhile(self, claimed: Claimed, following: Coroutine[Any, Any, Claimed]) -> Claimed:
        """The store looks for more while what came is taken up."""
        assert self._loop is not None
        claiming = self._loop.create_task(following)
        try:
            try:
                # It is asked first.
                await asyncio.sleep(0)
            finally:
                self._take_up(claimed)
            return await claiming
        finally:
            claiming.cancel()

    async def _take(self, claimed: Claimed) -> None:
        self._take_up(claimed)
        if self._is_to_adopt:
            await self._adopt()

    def _take_up(self, claimed: Claimed) -> None:
        log.changed(claimed.changes)
        self._hold(claimed.leases)

    @property
    def _is_to_adopt(self) -> bool:
        return self._clock.monotonic() >= self._adopt_at

    async def _adopt(self) -> None:
        """Take up jobs of earlier claims whose replies were lost."""
        self._hold(await self._caller.ask(self._lost_in_claims(before=self._claims), kind="adopt"))
        self._adopt_at = self._clock.monotonic() + self._options.lease.total_seconds()

    def _lost_in_claims(self, *, before: int) -> Callable[[], list[Lease]]:
        """A call for the leases of claims that are over and that this worker does not hold."""
        held = [running.lease.fence for running in self._held()]
        return lambda: self._store.adopt(self._record.incarnation, before=before, held=held)

    def _hold(self, leases: Sequence[Lease]) -> None:
        now = self._clock.monotonic()
        extend_at = now + self._options.lease.total_seconds() / BEATS_PER_LEASE
        self._backlog.extend(Running(lease, claimed=now, extend_at=extend_at, ports=self._ports) for lease in leases)
        if not self._stops:
            self._start_waiting()

    async def _rest(self, seconds: float) -> None:
        assert self._loop is not None
        alarm = self._loop.call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    def _held(self) -> list[Running]:
        """Every attempt whose lease must be kept; called from the keeper's thread too."""
        return [*list(self._backlog), *list(self._running), *self._settler.held()]

    @property
    def _is_idle(self) -> bool:
        return not (self._backlog or self._running or len(self._settler))

    # Run

    def _start_waiting(self) -> None:
        while len(self._running) < self._options.concurrency - len(self._left_behind):
            running = self._next()
            if running is None:
                return
            if running.why is None and running.lease.is_refused:
                running.is_over = True
                self._settler.offer(running, Judged(self._judge.refused(running.lease)))
            elif running.why is None:
                self._start(running)
            else:
                self._drop(running, running.why)

    def _next(self) -> Running | None:
        """The first that waits for a slot, but of no service whose failures the store is to hear of first."""
        doubted = self._settler.doubted()
        if not doubted:
            return self._backlog.popleft() if self._backlog else None
        found = next((one for one in self._backlog if one.lease.service not in doubted), None)
        if found is not None:
            self._backlog.remove(found)
        return found

    def _drop(self, running: Running, why: Why) -> None:
        """Interrupted while it waited for a slot: it does not begin."""
        running.is_over = True
        self._settler.offer(running, Interruption(why))

    def _start(self, running: Running) -> None:
        assert self._loop is not None
        lease = running.lease
        running.started = self._clock.monotonic()
        self._running[running] = None
        log.started(lease)
        task = self._tasks[lease.kind]
        children = self._children if _is_isolated(task, lease) else None
        running.timeout = self._judge.in_force(lease.kind, lease.owner).timeout
        self._loop.create_task(self._attempt(running, task, children))
        # In a child the time is counted anew when the task's own code begins.
        self._watch(running, running.timeout.total_seconds() + (START_SECONDS if children else 0))

    async def _attempt(self, running: Running, task: Task[..., Any, Any], children: Children | None) -> None:
        # Set here, not by whoever starts it: a task cancelled before its first step never comes to an end of its own.
        running.task = asyncio.current_task()
        try:
            before = await self._begun(running) if _runs_only_once(running, task) else stopped(running)
            if before is not None:
                ended = before
            elif children is None:
                ended = await run(running, task, self._driver, self._around)
            else:
                ended = await self._run_isolated(running, task, children)
        except LeaseLost:
            ended = LOST
        except StoreError:
            ended = Interruption(Why.CUT_OFF)
        except BaseException as error:
            # Nothing may leave an attempt without an end: its slot and its job would be lost with it.
            ended = stopped(running) or Failed(Failure.of(error))
        if running.is_over:
            # It was given up; this is the code's late end, and the slot is free again.
            self._left_behind.discard(running)
            self._start_waiting()
            self._wake.set()
            return
        self._end(running, _only_once(running, ended) if _runs_only_once(running, task) else ended)

    async def _begun(self, running: Running) -> Ended | None:
        """Make the claim durable and record that the code begins: neither a crash of the database nor an adoption after
        lost replies runs it again, and a reclaimer knows what it did not reach. What ends it, if something does."""
        fence = running.lease.fence
        if (before := stopped(running)) is not None:
            return before
        if not await self._driver.blocking(lambda: self._store.begin(fence)):
            # Refused by the fence, unless this attempt began before and its end could not be stored.
            detail = "it had begun before, or its lease is lost"
            return Judged(worker_lost(kind=running.lease.kind, detail=detail))
        return stopped(running)

    async def _run_isolated(self, running: Running, task: Task[..., Any, Any], children: Children) -> Ended:
        def count_time() -> None:
            if running.why is None:
                self._watch(running, running.timeout.total_seconds())

        ended = await children.run(running, task, count_time)
        if ended is None:
            running.stop = None
            count_time()
            ended = await run(running, task, self._driver, self._around)
        return ended

    def _end(self, running: Running, ended: Ended) -> None:
        running.is_over = True
        del self._running[running]
        seconds = self._clock.monotonic() - running.started
        # How long a failure of a service took says nothing of the others: they may be held.
        if not speaks_of_service(running, ended):
            # The first ones tell more: a worker that knows nothing claims few.
            self._usual_seconds += max(0.05, 1 / (self._ended_ones + 2)) * (seconds - self._usual_seconds)
        self._ended_ones += 1
        self._has_looked |= running.attempt.has_looked
        self._settler.offer(running, ended, seconds)
        self._start_waiting()
        # A free slot alone brings no job where the last claim found too few. What this end brings, such as a slot under
        # a limit, is there once it is settled, and then the worker claims again.
        if self._may_be_more or not len(self._settler):
            self._wake.set()

    # Interrupt

    def _watch(self, running: Running, seconds: float) -> None:
        """Look at this attempt again after so long. One timer serves them all: most end long before."""
        assert self._loop is not None
        running.look_at = self._clock.monotonic() + seconds
        if self._watch_timer is None or running.look_at < self._watch_at:
            if self._watch_timer is not None:
                self._watch_timer.cancel()
            self._watch_at = running.look_at
            self._watch_timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        now = self._clock.monotonic()
        self._watch_timer = None
        for running in list(self._running):
            if running.look_at > now:
                self._watch(running, running.look_at - now)
            elif running.why is None:
                self._interrupt(running, Why.TIMEOUT)
            else:
                self._give_up(running)

    def _interrupt(self, running: Running, why: Why) -> None:
        if running.is_over or running.why is not None:
            return
        running.interrupt(why)
        if running in self._backlog:
            # No slot may become free for long.
            self._backlog.remove(running)
            self._drop(running, why)
        else:
            self._watch(running, GRACE_SECONDS)

    def _interrupt_from_elsewhere(self, running: Running, why: Why) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._interrupt, running, why)

    def _interrupt_all(self) -> None:
        for running in list(self._running):
            self._interrupt(running, Why.SHUTDOWN)

    def _give_up(self, running: Running) -> None:
        """The code does not stop: settle without it and leave it behind."""
        task = self._tasks[running.lease.kind]
        ended = stopped(running)
        if running.is_over or ended is None:
            return
        logger.error(
            "task %r does not stop after %s; its slot is lost until it does (job %s)",
            task.name,
            running.why,
            running.lease.fence.id,
        )
        self._leave_behind(running)
        self._end(running, _only_once(running, ended) if _runs_only_once(running, task) else ended)

    def _leave_behind(self, running: Running) -> None:
        self._left_behind.add(running)
        if running.task is not None and running.stop is None:
            # Whoever closes the loop cancels all tasks and waits for them: not for a coroutine that takes no notice.
            asyncio.tasks._unregister_task(running.task)
            # Nor is it thrown away: closing such a coroutine may never come to an end.
            ABANDONED.append(running.task)
            running.task.add_done_callback(ABANDONED.remove)
        slots = self._options.concurrency
        if self._stops or len(self._left_behind) * 2 < slots:
            return
        kinds = sorted({left.lease.kind for left in self._left_behind})
        self._worn_out = WornOut(len(self._left_behind), slots, kinds)
        logger.error("%s", self._worn_out)
        self.stop()

    # Settle

    def _let_go(self, held: Mapping[str, int]) -> None:
        """Jobs that were claimed before their service changed, and have not begun, stay out of the outage."""
        stale = [
            running
            for running in self._backlog
            if running.lease.service in held and running.lease.service_epoch < held[running.lease.service]
        ]
        for running in stale:
            self._backlog.remove(running)
            self._drop(running, Why.HELD)

    def _go_on(self) -> None:
        """The store has heard of what ended."""
        self._start_waiting()
        self._wake.set()

    def _left_alone(self, settler: "asyncio.Task[None]") -> None:
        """Nobody tells the store of what ends any more: better none than such a worker."""
        if not settler.cancelled():
            logger.error("nothing can be settled here any more: the worker stops", exc_info=settler.exception())
            self.stop()

    def _adopt_soon(self) -> None:
        self._adopt_at = self._clock.monotonic()

    # Upkeep

    async def _upkeep(self, duty: Duty) -> None:
        trouble: type[BaseException] | None = None
        while True:
            await asyncio.sleep(duty.interval)
            try:
                await self._driver.blocking(duty.step)
            except StoreUnavailable as error:
                self._outage.failed("upkeep", error)
            except Exception as error:
                # Once for a mistake, not once a second.
                if type(error) is not trouble:
                    _complain(duty, error)
                trouble = type(error)
            else:
                self._outage.answered("upkeep")
                trouble = None

    # Stop

    async def _drain(self) -> None:
        """Let what runs end by itself for a while; what does not is released, and nothing is counted."""
        # From now on every end is waited for.
        self._may_be_more = True
        self._release_waiting()
        releasing = asyncio.create_task(self._release_late()) if self._has_given_up else None
        try:
            await self._finish()
        finally:
            if releasing is not None:
                releasing.cancel()
                await asyncio.gather(releasing, return_exceptions=True)

    def _release_waiting(self) -> None:
        for running in self._backlog:
            self._settler.offer(running, Interruption(Why.SHUTDOWN))
        self._backlog.clear()

    async def _release_late(self) -> None:
        """Give back what the last claim took all the same: else it is held for a whole lease and counts as lost."""
        while True:
            self._hold(await self._caller.persist(self._lost_in_claims(before=self._claims + 1), kind="adopt"))
            self._release_waiting()
            await asyncio.sleep(POLL_SECONDS)

    async def _finish(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.drain.total_seconds() if self._stops < 2 else 0):
                await self._until(lambda: not self._running)
        self._interrupt_all()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS * 2):
                await self._until(lambda: self._is_idle)
        if not self._is_idle:
            logger.error("%d outcomes could not be stored; their jobs run again", len(self._held()))

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._wake.clear()
            await self._wake.wait()

    async def _leave(self) -> None:
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._driver.blocking(lambda: self._store.leave(self._record.incarnation))


def _runs_only_once(running: Running, task: Task[..., Any, Any]) -> bool:
    """By this version of the task, or by the one that enqueued the job."""
    return task.at_most_once or running.lease.at_most_once


def _only_once(running: Running, ended: Ended) -> Ended:
    """An attempt that was stopped after its code had begun is lost: it cannot be handed back to run again. One that
    was stopped before, also by its timeout, can."""
    if not running.has_begun:
        return Interruption(Why.CUT_OFF) if running.why is Why.TIMEOUT else ended
    if not isinstance(ended, Interruption) or ended.why in (Why.CANCELLED, Why.LOST):
        return ended
    return Judged(worker_lost(kind=running.lease.kind, detail=f"the worker stopped it before its end: {ended.why}"))


def _is_isolated(task: Task[..., Any, Any], lease: Lease) -> bool:
    """A job that may have taken its worker down is let near no other one."""
    return lease.is_suspect if task.isolate is None else task.isolate


def _complain(duty: Duty, error: Exception) -> None:
    if isinstance(error, StoreError):
        logger.error("duty %r failed; it is tried every %s s: %s", duty.name, duty.interval, error)
    else:
        logger.error("duty %r failed; it is tried every %s s", duty.name, duty.interval, exc_info=error)
