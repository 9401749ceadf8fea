"""The participants of a world: worker processes, which can be killed and stopped, and the clients."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from mulligan.app import App
from mulligan.errors import StoreError, WornOut
from mulligan.settings import Settings
from mulligan.store.store import Store
from mulligan.wiring import AppParts
from mulligan.worker.slots import GRACE_SECONDS
from mulligan.worker.worker import LONGEST_PAUSE, Worker
from simulator.clocks import SkewedClock
from simulator.connection import Connection
from simulator.driver import SimulatedDriver
from simulator.tasks import register
from simulator.timeline import SECOND, Timeline

# Attempts that do not stop at their timeout are stuck soon after it.
STUCK_AFTER = timedelta(seconds=15)

if TYPE_CHECKING:
    from simulator.world import World


class Participant:
    """Has an event loop and a connection to the store. Only a `Process` can be killed."""

    is_mortal = False

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.loop = world.timeline.new_loop(self._complain)
        self.connection = Connection(self)
        self.own_store = world.server.store.own_store()
        self.is_dead = False
        self.on_resume: list[Callable[[], None]] = []
        self.troubled_at = world.timeline.now

    @property
    def store(self) -> Store:
        return cast("Store", self.connection)

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.loop.create_task(work)

    def trouble(self, story: str = "", *, seconds: float = 0.0) -> None:
        """For so long, and a while longer, it cannot be held to its promises."""
        self.troubled_at = max(self.troubled_at, self.world.timeline.now + int(seconds * SECOND))
        if story:
            self.world.tell(self.name, story)

    def hears(self, name: str, answer: Any) -> None:
        """The answer to a store call has arrived."""

    def crash(self) -> None:
        raise NotImplementedError

    def pause(self, seconds: float) -> None:
        raise NotImplementedError

    def _complain(self, message: str, error: BaseException | None) -> None:
        if not self.is_dead:
            self.world.break_promise(f"{self.name}: {message}: {error!r}")


class Process(Participant):
    """One start of one worker: the app of a user, with the engine's own worker in it."""

    is_mortal = True

    def __init__(self, world: "World", name: str, kinds: tuple[str, ...], *, concurrency: int) -> None:
        super().__init__(world, name)
        self.kinds = kinds
        self.allotment = world.allotment
        self.concurrency = concurrency
        self.incarnation = ""
        self.started_at = world.timeline.now
        self._full_at = world.timeline.now
        self.holding: dict[tuple[str, int], None] = {}
        """Attempts it was given and has not ended: what fills its slots."""
        self.knows: dict[tuple[str, int], int] = {}
        """Since when it has known of each lease, for its keeper to extend."""
        self.is_leaving = False
        self.was_held_back = False
        self.driver = SimulatedDriver(self)
        self._worker: Worker | None = None
        self._parts = ExitStack()
        self._stopping = asyncio.Event()
        self._main = self.begin(self._serve(self._app()))
        world.tell(name, f"starts, knows {' '.join(kinds)}")

    def _app(self) -> App:
        randomness = self.world.fork()
        app = App(
            settings=Settings(
                database_url="sqlite:///:memory:",
                worker_lease_ttl=self.world.parameters.lease,
                stuck=self.world.parameters.stuck,
                stuck_after=timedelta(minutes=30) if self.world.parameters.stuck == "report" else STUCK_AFTER,
            ),
            queues=self.allotment.queues,
            owners=self.allotment.owners,
            services=self.world.services,
        )
        register(app, self)
        parts = AppParts(
            open_store=lambda _url, _services: self.store,
            driver=lambda: self.driver,
            clock=SkewedClock(self.world.timeline, timedelta(seconds=randomness.uniform(-3600, 3600))),
            randomness=randomness,
            isolates=False,
            at_once=self.world.parameters.at_once,
        )
        self._parts.enter_context(app.wiring.use(parts))
        return app

    async def _serve(self, app: App) -> None:
        try:
            async with app.worker(concurrency=self.concurrency) as worker:
                self._worker = worker
                waits = [asyncio.create_task(wait) for wait in (self._stopping.wait(), worker.ended())]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
        except WornOut:
            self.world.reached.note("a worker is worn out")
        except StoreError:
            # It did not even start: its supervisor will try again.
            self.world.tell(self.name, "cannot start: the store is not there")
        self._gone()

    @property
    def is_up(self) -> bool:
        is_stopping = self.is_leaving or (self._worker is not None and self._worker.is_stopping)
        return not (self.is_dead or self.loop.is_stopped or is_stopping)

    @property
    def steady_since(self) -> int:
        """Since when nothing has kept it from its duties, and it has come back from the last trouble."""
        pause = min(LONGEST_PAUSE, self.world.parameters.lease.total_seconds() / 6)
        return max(self.troubled_at, self.world.troubled_at) + int(pause * SECOND)

    # What it knows of its leases

    def hears(self, name: str, answer: Any) -> None:
        if self.is_dead:
            return
        if name in ("claim", "adopt"):
            for lease in answer if name == "adopt" else answer.leases:
                self._learns(lease.fence.id, lease.fence.attempt)
        elif name == "beat":
            for fence in answer.lost:
                self.knows.pop((fence.id, fence.attempt), None)
                # Interrupted before it began, an attempt ends without a word.
                self.world.timeline.call_in(GRACE_SECONDS + 1, partial(self.is_rid_of, fence.id, fence.attempt))

    def _learns(self, job: str, attempt: int) -> None:
        self.holding[job, attempt] = None
        self.knows[job, attempt] = self.world.timeline.now
        self._note_if_full()

    def is_rid_of(self, job: str, attempt: int) -> None:
        """Its outcome is on the way, or there is none; the slot is free unless the code still runs."""
        if (job, attempt) not in self.world.oracle.executions:
            self.frees(job, attempt)

    def frees(self, job: str, attempt: int) -> None:
        self._note_if_full()
        self.holding.pop((job, attempt), None)

    def _note_if_full(self) -> None:
        if len(self.holding) >= self.concurrency:
            self._full_at = self.world.timeline.now

    @property
    def free_since(self) -> int:
        """Since when it has had a free slot."""
        self._note_if_full()
        return self._full_at

    # What befalls it

    def stop(self) -> None:
        """SIGTERM."""
        if self.is_dead:
            return
        self.world.tell(self.name, "is told to stop")
        if self.world.faults.is_out:
            self.world.reached.note("a worker is stopped during an outage")
        if self.is_leaving and self._worker is not None:
            self.world.reached.note("a worker is stopped twice")
            self._worker.stop()
        self.is_leaving = True
        self.loop.call_soon(self._stopping.set)

    def crash(self) -> None:
        """kill -9: no line of its code runs any more."""
        if self.is_dead:
            return
        self.world.tell(self.name, "is killed")
        self._die()
        self.world.timeline.call_in(0, self._bury)

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT so much later."""
        if self.is_dead or self.loop.is_stopped:
            return
        self.world.tell(self.name, f"is stopped for {seconds:.1f} s")
        if seconds > self.world.parameters.lease.total_seconds():
            self.world.reached.note("a process is stopped for longer than its lease")
        self.loop.is_stopped = True
        self.world.timeline.call_in(seconds, self.resume)

    def resume(self) -> None:
        if self.is_dead or not self.loop.is_stopped:
            return
        self.loop.is_stopped = False
        self.trouble("goes on")
        waiting, self.on_resume = self.on_resume, []
        for call in waiting:
            call()

    def _gone(self) -> None:
        if self.is_dead:
            return
        self.world.tell(self.name, "is gone")
        self.world.oracle.executions.left(self)
        self._die()
        self.world.timeline.call_in(0, self._bury)

    def _die(self) -> None:
        self.is_dead = True
        self.loop.is_stopped = True
        self.world.oracle.executions.died(self)
        self.world.timeline.forget(self.loop)

    def _bury(self) -> None:
        """Let its tasks end in a time of their own, where they reach neither the store nor other processes."""
        self.connection.cut()
        nowhere = Timeline(self.world.fork())
        nowhere.now = self.world.timeline.now
        nowhere.inherit(self.loop)
        self.loop.is_stopped = False
        if self._worker is not None:
            self._worker.stop()
            self._worker.stop()
        self._main.cancel()
        with self.world.unheard():
            nowhere.run(nowhere.now + int(4 * GRACE_SECONDS * SECOND))
            if nowhere.has_more:
                # Killed while it was about to end, it left its duties running.
                for task in asyncio.all_tasks(self.loop):
                    task.cancel()
                nowhere.run(nowhere.now + 600 * SECOND)
        self._parts.close()
