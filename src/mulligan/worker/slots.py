"""Slots: what runs in this worker, what waits for a slot, and how an attempt that overruns is stopped."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mulligan import traces
from mulligan.attempt import Ports
from mulligan.errors import LeaseLost, MulliganError, StoreError, WornOut
from mulligan.failure.verdict import Failure
from mulligan.judge import Judge
from mulligan.records.job import Lease
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.task.task import Task
from mulligan.values.clock import Clock
from mulligan.worker.children.pool import START_SECONDS, ChildPool
from mulligan.worker.drivers import Driver
from mulligan.worker.ending import Ended, Failed, Interruption, Judged, StopReason
from mulligan.worker.hooks import Hook
from mulligan.worker.keeper import BEATS_PER_LEASE
from mulligan.worker.log import log_start
from mulligan.worker.run import begin_once, end_if_interrupted, end_once, run, runs_at_most_once
from mulligan.worker.running import Backlog, Running
from mulligan.worker.settler import LOST, Settler, concerns_service
from mulligan.worker.tracing import AttemptTrace

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

logger = logging.getLogger("mulligan.worker")

ABANDONED: list["asyncio.Task[Any]"] = []

# How long interrupted code may take to stop before its slot is given up.
GRACE_SECONDS = 5.0


class Slots:
    """Runs attempts, at most `concurrency` at once, and offers their ends to the settler.

    `on_worn_out` is called when half of the slots are held by code that does not stop. Except for `held` and
    `interrupt_from_thread`, only the loop's thread may use it.
    """

    def __init__(
        self,
        *,
        store: Store,
        tasks: Registry,
        judge: Judge,
        driver: Driver,
        clock: Clock,
        settler: Settler,
        backlog: Backlog,
        concurrency: int,
        lease: timedelta,
        on_worn_out: Callable[[], None],
        children: ChildPool | None = None,
        around: Sequence[Hook] = (),
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._judge = judge
        self._driver = driver
        self._clock = clock
        self._settler = settler
        self._backlog = backlog
        self._concurrency = concurrency
        self._beat = lease.total_seconds() / BEATS_PER_LEASE
        self._on_worn_out = on_worn_out
        self._children = children
        """None: every task runs in this process."""
        self._around = around
        self._ports = Ports(secure=store.secure, blocking=driver.blocking)
        self._running: dict[Running, None] = {}
        """A set in order of start. It holds attempts, not jobs: an earlier attempt of a job may still be here."""
        self._left_behind: set[Running] = set()
        """Attempts that were given up but whose code has not stopped: their slots are not free."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._loop: asyncio.AbstractEventLoop
        self.wake = asyncio.Event()
        """Set when the worker should look for work again."""
        self.is_stopping = False
        """The worker takes no more jobs: claimed attempts are kept, not started."""
        self.may_be_more = True
        """The last claim returned as many jobs as it asked for, so every end is a reason to claim again."""
        self.worn_out: WornOut | None = None
        self.ended_count = 0
        self.usual_seconds = 1.0
        """How long an attempt usually takes: a moving average."""
        self.has_looked = False
        """A task asked for the record of its job, so claims should return the records."""

    def __len__(self) -> int:
        """How many attempts run."""
        return len(self._running)

    @property
    def usable(self) -> int:
        """How many slots are not held by code that does not stop."""
        return self._concurrency - len(self._left_behind)

    @property
    def waiting(self) -> int:
        """How many claimed attempts wait for a slot."""
        return len(self._backlog)

    @property
    def is_idle(self) -> bool:
        return not (self._backlog or self._running or len(self._settler))

    def held(self) -> list[Running]:
        """Every attempt whose lease must be extended. Safe to call from any thread."""
        return [*list(self._backlog), *list(self._running), *self._settler.held()]

    async def prepare(self, resources: Any) -> None:
        """Start a child if a task needs one. `resources` is what attempts find as `attempt().resources`."""
        self._ports = replace(self._ports, resources=resources)
        if self._children is not None:
            await self._children.prepare(self._tasks.values())

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._children is not None:
            await self._children.close()

    # Start

    def add(self, leases: Sequence[Lease]) -> None:
        """Queue what was claimed, and start as many as there are free slots."""
        now = self._clock.monotonic()
        extend_at = now + self._beat
        self._backlog.extend(Running(lease, claimed=now, extend_at=extend_at, ports=self._ports) for lease in leases)
        if not self.is_stopping:
            self._fill()

    def go_on(self) -> None:
        """The store has stored some ends: services may have changed, and slots under limits may be free."""
        self._fill()
        self.wake.set()

    def release_waiting(self) -> None:
        """Give back every attempt that waits for a slot."""
        for running in self._backlog:
            self._settler.offer(running, Interruption(StopReason.SHUTDOWN))
        self._backlog.clear()

    def _fill(self) -> None:
        while len(self._running) < self._concurrency - len(self._left_behind):
            running = self._backlog.take(avoid=self._settler.services_to_avoid())
            if running is None:
                return
            if running.why is not None:
                self._settler.drop(running, running.why)
            elif running.lease.is_refused:
                running.is_over = True
                self._settler.offer(running, Judged(self._judge.refusal(running.lease)))
            else:
                self._start(running)

    def _start(self, running: Running) -> None:
        lease = running.lease
        running.started = self._clock.monotonic()
        self._running[running] = None
        tracer = traces.tracer()
        if tracer is None:
            log_start(lease)
        task = self._tasks[lease.kind]
        children = self._children if _is_isolated(task, lease) else None
        running.timeout = self._judge.timeout_of(lease)
        self._loop.create_task(self._attempt(running, task, children, tracer))
        # In a child the time starts again when the task's own code begins.
        self._watch(running, running.timeout.total_seconds() + (START_SECONDS if children else 0))

    # Run and end

    async def _attempt(
        self, running: Running, task: Task[..., Any, Any], children: ChildPool | None, tracer: "Tracer | None"
    ) -> None:
        # Set here, not in `_start`: a task that is cancelled before its first step never ends by itself.
        running.task = asyncio.current_task()
        is_once = runs_at_most_once(running, task)
        try:
            if tracer is not None:
                await self._trace(running, tracer)
            ended = await begin_once(running, self._store, self._driver) if is_once else end_if_interrupted(running)
            if ended is None and children is None:
                ended = await run(running, task, self._driver, self._around)
            elif ended is None and children is not None:
                ended = await self._run_isolated(running, task, children)
        except LeaseLost:
            ended = LOST
        except StoreError:
            ended = Interruption(StopReason.CUT_OFF)
        except BaseException as error:
            # Every attempt must end: otherwise its slot and its job would be lost.
            ended = end_if_interrupted(running) or Failed(Failure.of(error))
        if running.is_over:
            # The attempt was given up earlier; its code ends only now, and the slot is free again.
            self._left_behind.discard(running)
            self.go_on()
            return
        assert ended is not None
        self._end(running, end_once(running, ended) if is_once else ended)

    async def _trace(self, running: Running, tracer: "Tracer") -> None:
        """Begin the attempt's spans. The record of the job has the trace that it belongs to."""
        # Without the record, the attempt runs without a trace.
        with contextlib.suppress(MulliganError):
            job = await self._driver.blocking(lambda: running.lease.job)
            running.trace = AttemptTrace(tracer, running.lease, job)
            running.make_current = running.trace.make_current
        log_start(running.lease)

    async def _run_isolated(self, running: Running, task: Task[..., Any, Any], children: ChildPool) -> Ended:
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
        if running.trace is not None:
            running.trace.end(ended)
        del self._running[running]
        seconds = self._clock.monotonic() - running.started
        # The time that a service took to fail says nothing about other jobs.
        if not concerns_service(running, ended):
            # The first ends weigh more: a worker that knows nothing claims few jobs.
            self.usual_seconds += max(0.05, 1 / (self.ended_count + 2)) * (seconds - self.usual_seconds)
        self.ended_count += 1
        self.has_looked |= running.attempt.has_looked
        self._settler.offer(running, ended, seconds)
        self._fill()
        # If the last claim found too few jobs, a free slot alone is no reason to claim. What this end makes possible,
        # such as a slot under a limit, exists once it is settled; the worker is woken then.
        if self.may_be_more or not len(self._settler):
            self.wake.set()

    # Interrupt

    def interrupt(self, running: Running, why: StopReason) -> None:
        if running.is_over or running.why is not None:
            return
        running.interrupt(why)
        if running in self._backlog:
            # It may be long before a slot is free.
            self._backlog.remove(running)
            self._settler.drop(running, why)
        else:
            self._watch(running, GRACE_SECONDS)

    def interrupt_from_thread(self, running: Running, why: StopReason) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.interrupt, running, why)

    def interrupt_all(self) -> None:
        for running in list(self._running):
            self.interrupt(running, StopReason.SHUTDOWN)

    def _watch(self, running: Running, seconds: float) -> None:
        """Check this attempt again after so long. One timer serves all attempts: most end long before."""
        running.look_at = self._clock.monotonic() + seconds
        if self._timer is None or running.look_at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = running.look_at
            self._timer = self._loop.call_later(seconds, self._check)

    def _check(self) -> None:
        now = self._clock.monotonic()
        self._timer = None
        for running in list(self._running):
            if running.look_at > now:
                self._watch(running, running.look_at - now)
            elif running.why is None:
                self.interrupt(running, StopReason.TIMEOUT)
            else:
                self._give_up(running)

    def _give_up(self, running: Running) -> None:
        """The code does not stop: settle the attempt without it."""
        task = self._tasks[running.lease.kind]
        ended = end_if_interrupted(running)
        if running.is_over or ended is None:
            return
        logger.error(
            "task %r does not stop after %s; its slot is lost until it does (job %s)",
            task.name,
            running.why,
            running.lease.fence.id,
        )
        self._leave_behind(running)
        self._end(running, end_once(running, ended) if runs_at_most_once(running, task) else ended)

    def _leave_behind(self, running: Running) -> None:
        self._left_behind.add(running)
        if running.task is not None and running.stop is None:
            # Closing the loop cancels all tasks and waits for them; it must not wait for a coroutine that ignores that.
            asyncio.tasks._unregister_task(running.task)
            # Keep a reference: closing such a coroutine on garbage collection may never return.
            ABANDONED.append(running.task)
            running.task.add_done_callback(ABANDONED.remove)
        if self.is_stopping or len(self._left_behind) * 2 < self._concurrency:
            return
        kinds = sorted({left.lease.kind for left in self._left_behind})
        self.worn_out = WornOut(len(self._left_behind), self._concurrency, kinds)
        logger.error("%s", self.worn_out)
        self._on_worn_out()


def _is_isolated(task: Task[..., Any, Any], lease: Lease) -> bool:
    """A job that may have killed its worker runs alone in a process."""
    return lease.is_suspect if task.isolate is None else task.isolate
