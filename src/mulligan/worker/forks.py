"""Protects a worker whose task forks. The fork is not a worker: it exits when the task's code returns to ours.

It exits without touching connections, sockets and files, which belong to its parent. A fork that does not return, such
as a process of `multiprocessing`, is not affected.
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
"""The number of forks between the first process and this one. Code that sees it change runs in a fork."""

_loops: list[tuple[asyncio.AbstractEventLoop, int]] = []
"""The loops of workers, each with its thread."""
_has_handlers = False
_blocked = threading.local()


@contextmanager
def _exit_in_fork() -> Iterator[None]:
    """A fork that begins inside exits instead of leaving the block."""
    before = generation
    try:
        yield
    except BaseException as error:
        if generation != before:
            exit_fork(error)
        raise
    if generation != before:
        exit_fork()


def guard(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap the function: a fork of this process exits instead of returning from it."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with _exit_in_fork():
            return function(*args, **kwargs)

    return call


def guard_async(function: Callable[P, Any]) -> Callable[P, Any]:
    async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        with _exit_in_fork():
            return await function(*args, **kwargs)

    return call


@contextmanager
def hide_loop_from_forks(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Inside, no fork runs this loop, because it shares the loop's selector and sockets."""
    entry = (loop, threading.get_ident())
    _loops.append(entry)
    try:
        yield
    finally:
        with suppress(ValueError):
            _loops.remove(entry)


@contextmanager
def hide_signals_from_forks() -> Iterator[None]:
    """Inside, SIGTERM ends a fork. With its parent's handlers the signal would be lost or stop the parent, because both
    write to one wake-up socket. Ctrl-C still goes to the worker, which lets jobs finish."""
    global _has_handlers
    _has_handlers = True
    try:
        yield
    finally:
        _has_handlers = False


class Executor(ThreadPoolExecutor):
    """For `asyncio.to_thread`: code in its threads may fork too."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        return super().submit(guard(fn), *args, **kwargs)


def _before_fork() -> None:
    # A signal to a fork waits until the fork has replaced its parent's handlers.
    _blocked.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if _has_handlers else None


def _after_fork() -> None:
    if _blocked.before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _blocked.before)


def _in_fork() -> None:
    global generation, _has_handlers
    generation += 1
    # A thread of the user's own executor does not know its task. In a process that is only a worker it works for one.
    is_of_task = CURRENT.get(None) is not None or _has_handlers
    if _has_handlers:
        _has_handlers = False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _after_fork()
    if is_of_task:
        for loop, thread in _loops:
            _close_in_fork(loop, is_its_thread=thread == threading.get_ident())
    _loops.clear()


def _close_in_fork(loop: asyncio.AbstractEventLoop, *, is_its_thread: bool) -> None:
    # A thread of the user's own executor delivers its result by this call.
    with suppress(AttributeError):
        loop.call_soon_threadsafe = lambda *_, **__: exit_fork()  # type: ignore[method-assign]
    if not is_its_thread:
        return
    ready = getattr(loop, "_ready", None)
    if isinstance(ready, deque):
        # It must run before the next step of any other task.
        ready.appendleft(asyncio.Handle(exit_fork, (), loop))
    else:
        loop.call_soon(exit_fork)


def exit_fork(error: BaseException | None = None) -> NoReturn:
    """End a fork without any cleanup. `error` is what its code raised."""
    status = 0
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        status = error.code or 0
    elif error is not None:
        status = 1
        # Buffers and log handlers belong to the parent.
        with suppress(OSError):
            os.write(2, f"{evidence.detail_of(error)}\n".encode(errors="replace"))
    os._exit(status & 0xFF)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_fork)
