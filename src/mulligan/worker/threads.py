"""Daemon threads for blocking store calls and for tasks that are plain functions.

The interpreter waits at exit for the threads of `concurrent.futures`: a task that never returns would keep a stopped
worker alive for ever.
"""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from mulligan.program.interrupt import Interrupted, interrupt
from mulligan.worker import forks

T = TypeVar("T")


class ThreadCall:
    """One call of a function in a thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
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

        # The loop is closed: nothing waits for the result.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(deliver)


class Threads:
    """As many threads as there are calls at once. Idle threads are kept for later calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._idle = 0
        self._started = 0
        self._lock = threading.Lock()

    async def run(self, function: Callable[[], T]) -> T:
        result: T = await self.start(function).future
        return result

    def start(self, function: Callable[[], Any]) -> ThreadCall:
        call = ThreadCall(function)
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
                with self._lock:
                    self._idle += 1
        except Interrupted:
            return
