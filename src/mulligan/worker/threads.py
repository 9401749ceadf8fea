"""Daemon threads of our own: for blocking store calls and for tasks that are plain functions.

Those of `concurrent.futures` are waited for when the interpreter ends; a task that never returns would
keep a stopped worker alive for ever.
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
    """One function on its way through a thread."""

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
        forks.end_copy(before, error)
        try:
            self._finish(result, error)
        except Interrupted:
            # It came a moment too late to stop anything, and it comes once only.
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
        self._tell(result, error)

    def interrupt(self) -> None:
        """Raise in the thread that runs this call, if it still does and does not look for itself."""
        with self._lock:
            if self._is_over or self._thread is None:
                return
            self.was_interrupted = interrupt(self._thread)

    def _tell(self, result: Any, error: BaseException | None) -> None:
        def tell() -> None:
            if self.future.done():
                return
            if error is None:
                self.future.set_result(result)
            else:
                # asyncio refuses StopIteration in a future.
                wrapped = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
                self.future.set_exception(wrapped)

        # A closed loop: nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(tell)


class Threads:
    """As many threads as calls are under way, kept for the next ones."""

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
        """Let idle threads go; those in a call go when it returns."""
        with self._lock:
            for _ in range(self._started):
                self._calls.put(None)

    def _serve(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                call.run()
                if call.was_interrupted:
                    # An exception may still be on its way to this thread: it is not used again.
                    return
                with self._lock:
                    self._idle += 1
        except Interrupted:
            return
