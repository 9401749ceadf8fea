"""Drivers: how a worker calls the store, plain functions, the keeper and the listener. In threads, or inline."""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from mulligan.errors import StoreError
from mulligan.program.interrupt import Interrupted, interrupt
from mulligan.store.messages import Changes
from mulligan.store.store import Store
from mulligan.values.clock import Clock, SystemClock
from mulligan.worker import forks
from mulligan.worker.keeper import Keeper
from mulligan.worker.loop_watch import LoopWatch

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

    async def end_beats(self) -> None:
        """Start no beat any more, and wait for the one in flight."""
        ...

    def stop(self) -> None: ...


class ThreadDriver:
    """Store calls, tasks, the keeper and the listener have separate threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._store_threads = Threads("mulligan-store")
        self._task_threads = Threads("mulligan-task")
        self._beats_ended = threading.Event()
        self._keeper: threading.Thread | None = None
        self._stopped = threading.Event()
        self._opened = contextlib.ExitStack()

    async def blocking(self, function: Callable[[], T]) -> T:
        return await self._store_threads.run(function)

    async def call(self, function: Callable[[], T], on_start: Callable[[Interrupt], None], /) -> T:
        call = self._task_threads.start(function)
        on_start(call.interrupt)
        result: T = await asyncio.shield(call.future)
        return result

    def start(self, store: Store, keeper: Keeper, wake: Callable[[], None]) -> None:
        loop, changes = asyncio.get_running_loop(), store.changes()
        self._opened.callback(changes.close)
        self._opened.callback(store.on_hint(lambda: _call_in(loop, wake)))
        watch = LoopWatch(
            loop, thread=threading.get_ident(), clock=self._clock, lease=keeper.lease, running=keeper.running
        )
        self._keeper = threading.Thread(target=self._beat, args=(keeper, watch), name="mulligan-keeper", daemon=True)
        self._keeper.start()
        threading.Thread(target=self._listen, args=(changes, loop, wake), name="mulligan-listener", daemon=True).start()

    async def end_beats(self) -> None:
        self._beats_ended.set()
        if self._keeper is not None:
            await self._store_threads.run(self._keeper.join)

    def stop(self) -> None:
        self._beats_ended.set()
        self._stopped.set()
        self._opened.close()
        self._store_threads.close()
        self._task_threads.close()

    def _beat(self, keeper: Keeper, watch: LoopWatch) -> None:
        while not self._beats_ended.is_set():
            keeper.step()
            before = self._clock.monotonic()
            self._beats_ended.wait(keeper.interval)
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

    async def end_beats(self) -> None:
        pass

    def stop(self) -> None:
        pass


class Threads:
    """As many daemon threads as there are calls at once. Idle threads are kept for later calls.

    The interpreter waits at exit for the threads of `concurrent.futures`: a task that never returns would keep a
    stopped worker alive for ever.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._idle = 0
        self._started = 0
        self._lock = threading.Lock()

    async def run(self, function: Callable[[], T]) -> T:
        result: T = await self.start(function).future
        return result

    def start(self, function: Callable[[], Any]) -> "ThreadCall":
        call = ThreadCall(function, self._release)
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._started += 1
                threading.Thread(target=self._serve, name=f"{self._name}-{self._started}", daemon=True).start()
            self._calls.put(call)
        return call

    def close(self) -> None:
        """End idle threads now, and the others when their call returns."""
        with self._lock:
            for _ in range(self._started):
                self._calls.put(None)

    def _serve(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                call.run()
                if call.was_interrupted:
                    # An exception may still be raised in this thread, so it is not used again.
                    return
        except Interrupted:
            return

    def _release(self) -> None:
        with self._lock:
            self._idle += 1


class ThreadCall:
    """One call of a function in a thread."""

    def __init__(self, function: Callable[[], Any], release: Callable[[], None]) -> None:
        self.function = function
        self._release = release
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_over = False
        self.was_interrupted = False

    def run(self) -> None:
        before = forks.generation
        result, error = self._work()
        if forks.generation != before:
            forks.exit_fork(error)
        try:
            self._finish(result, error)
        except Interrupted:
            # The interrupt came after the function had returned. It is raised only once.
            self._finish(result, error)

    def _work(self) -> tuple[Any, BaseException | None]:
        try:
            with self._lock:
                self._thread = threading.current_thread()
            return self.context.run(self.function), None
        except BaseException as error:
            return None, error

    def _finish(self, result: Any, error: BaseException | None) -> None:
        with self._lock:
            self._is_over = True
        if not self.was_interrupted:
            # Before the caller hears of it: its next call takes this thread, and starts no other.
            self._release()
        self._deliver(result, error)

    def interrupt(self) -> None:
        """Raise in the thread that runs this call, unless the call is over or listens for the stop itself."""
        with self._lock:
            if self._is_over or self._thread is None:
                return
            self.was_interrupted = interrupt(self._thread)

    def _deliver(self, result: Any, error: BaseException | None) -> None:
        def deliver() -> None:
            if self.future.done():
                return
            if error is None:
                self.future.set_result(result)
            else:
                # asyncio refuses StopIteration in a future.
                wrapped = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
                self.future.set_exception(wrapped)

        _call_in(self.loop, deliver)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call a function in the thread of the loop. A closed loop waits for nothing."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function)
