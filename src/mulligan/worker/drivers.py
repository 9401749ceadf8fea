"""Drivers: how a worker calls the store, plain functions, the keeper and the listener. In threads, or inline."""

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from mulligan.errors import StoreError
from mulligan.store.protocols import Changes, Store
from mulligan.values.clock import Clock, SystemClock
from mulligan.worker.keeper import Keeper
from mulligan.worker.loop_watch import LoopWatch
from mulligan.worker.threads import Threads

T = TypeVar("T")
Interrupt = Callable[[], None]


class Driver(Protocol):
    async def blocking(self, function: Callable[[], T]) -> T:
        """Call a function that blocks, without blocking the loop."""
        ...

    async def call(self, function: Callable[[], T], on_start: Callable[[Interrupt], None], /) -> T:
        """Run a task that is a plain function. `on_start` receives a function that interrupts it."""
        ...

    def start(self, store: Store, keeper: Keeper, wake: Callable[[], None]) -> None:
        """Start the keeper's beats, and call `wake` when the store changes."""
        ...

    def stop(self) -> None: ...


class ThreadDriver:
    """Store calls, tasks, the keeper and the listener have separate threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._store_threads = Threads("mulligan-store")
        self._task_threads = Threads("mulligan-task")
        self._stopped = threading.Event()
        self._changes: Changes | None = None

    async def blocking(self, function: Callable[[], T]) -> T:
        return await self._store_threads.run(function)

    async def call(self, function: Callable[[], T], on_start: Callable[[Interrupt], None], /) -> T:
        call = self._task_threads.start(function)
        on_start(call.interrupt)
        result: T = await asyncio.shield(call.future)
        return result

    def start(self, store: Store, keeper: Keeper, wake: Callable[[], None]) -> None:
        self._changes = store.changes()
        loop = asyncio.get_running_loop()
        watch = LoopWatch(
            loop, thread=threading.get_ident(), clock=self._clock, lease=keeper.lease, running=keeper.running
        )
        threading.Thread(target=self._beat, args=(keeper, watch), name="mulligan-keeper", daemon=True).start()
        threading.Thread(
            target=self._listen, args=(self._changes, loop, wake), name="mulligan-listener", daemon=True
        ).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._changes is not None:
            self._changes.close()
        self._store_threads.close()
        self._task_threads.close()

    def _beat(self, keeper: Keeper, watch: LoopWatch) -> None:
        while not self._stopped.is_set():
            keeper.step()
            before = self._clock.monotonic()
            self._stopped.wait(keeper.interval)
            watch.look(self._clock.monotonic() - before - keeper.interval)

    def _listen(self, changes: Changes, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        while not self._stopped.is_set():
            try:
                if changes.wait(1.0):
                    loop.call_soon_threadsafe(wake)
            except StoreError:
                self._stopped.wait(1.0)
            except RuntimeError:
                return  # the loop is closed


class InlineDriver:
    """Runs everything in the caller's thread, for the sandbox."""

    async def blocking(self, function: Callable[[], T]) -> T:
        # As with a thread, tasks that are ready run first.
        await asyncio.sleep(0)
        return function()

    async def call(self, function: Callable[[], T], _on_start: Callable[[Interrupt], None], /) -> T:
        return function()

    def start(self, store: Store, keeper: Keeper, wake: Callable[[], None]) -> None:
        pass

    def stop(self) -> None:
        pass
