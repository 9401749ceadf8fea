"""A task may fork. The copy of the process is no worker: it ends where its code comes back to ours.

On its way out it touches nothing: connections, sockets and files belong to its parent. A copy that never comes back,
such as a process of `multiprocessing`, is left alone.
"""

import asyncio
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, ParamSpec, TypeVar

from mulligan.attempt import CURRENT
from mulligan.failure import evidence

P = ParamSpec("P")
T = TypeVar("T")

generation = 0
"""How many forks lie between the first process and this one: code that finds another number than before is a copy."""

_loops: list[tuple[asyncio.AbstractEventLoop, int]] = []
"""Loops of workers, each with its thread."""
_has_handlers = False
_blocked = threading.local()


def end_copy(before: int, error: BaseException | None = None) -> None:
    """End this process if it was forked since `before`; `error` is what its code raised."""
    if generation != before:
        _leave(error)


def guard(function: Callable[P, T]) -> Callable[P, T]:
    """The function, from which no copy of this process returns."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        before = generation
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            end_copy(before, error)
            raise
        end_copy(before)
        return result

    return call


def guard_async(function: Callable[P, Any]) -> Callable[P, Any]:
    async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        before = generation
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            end_copy(before, error)
            raise
        end_copy(before)
        return result

    return call


@contextmanager
def hide_loop_from_forks(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Inside, no copy that a task forked runs this loop, which shares its selector and its sockets."""
    entry = (loop, threading.get_ident())
    _loops.append(entry)
    try:
        yield
    finally:
        with suppress(ValueError):
            _loops.remove(entry)


@contextmanager
def hide_signals_from_forks() -> Iterator[None]:
    """Inside, SIGTERM to a copy ends the copy. With the handlers of its parent it would be lost, or tell the parent to
    stop: both write to one wake-up socket. Ctrl-C stays the worker's, which lets jobs finish."""
    global _has_handlers
    _has_handlers = True
    try:
        yield
    finally:
        _has_handlers = False


class Executor(ThreadPoolExecutor):
    """For `asyncio.to_thread`: its threads may have forked before the loop waits for their results."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        return super().submit(guard(fn), *args, **kwargs)


def _before_fork() -> None:
    # A signal to a copy that still has the handlers of its parent waits until it has its own.
    _blocked.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if _has_handlers else None


def _after_fork() -> None:
    if _blocked.before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _blocked.before)


def _in_copy() -> None:
    global generation, _has_handlers
    generation += 1
    # A thread of the user's own executor does not know for which task it works. In a process that is a worker and
    # nothing else it works for one.
    is_of_a_task = CURRENT.get(None) is not None or _has_handlers
    if _has_handlers:
        _has_handlers = False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _after_fork()
    if is_of_a_task:
        for loop, thread in _loops:
            _close_to_copy(loop, is_its_thread=thread == threading.get_ident())
    _loops.clear()


def _close_to_copy(loop: asyncio.AbstractEventLoop, *, is_its_thread: bool) -> None:
    # A thread of the user's own executor hands its result over.
    with suppress(AttributeError):
        loop.call_soon_threadsafe = lambda *_, **__: _leave()  # type: ignore[method-assign]
    if not is_its_thread:
        return
    ready = getattr(loop, "_ready", None)
    if isinstance(ready, deque):
        # Before the next step of any other task.
        ready.appendleft(asyncio.Handle(_leave, (), loop))
    else:
        loop.call_soon(_leave)


def _leave(error: BaseException | None = None) -> NoReturn:
    status = 0
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        status = error.code or 0
    elif error is not None:
        status = 1
        # Not through a buffer or a handler, which are the parent's.
        with suppress(OSError):
            os.write(2, f"{evidence.detail_of(error)}\n".encode(errors="replace"))
    os._exit(status & 0xFF)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_copy)
