"""Interrupts code in a thread: raises an exception in it, unless the code checks for the stop itself."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread, current_thread
from weakref import WeakKeyDictionary


class Interrupted(BaseException):
    """Raised in a task's thread when the attempt must stop. Not an Exception, so that code which catches those to
    continue does not catch it."""


_lock = Lock()
_listening: WeakKeyDictionary[Thread, int] = WeakKeyDictionary()


def interrupt(thread: Thread) -> bool:
    """Raise in a thread, unless it listens; returns whether it raised. Blocking C code is not interrupted."""
    with _lock:
        if thread in _listening or thread.ident is None:
            return False
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted))
        return True


@contextmanager
def listen_for_stop(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """Inside, nothing is raised in this thread from outside: it must call `is_stopped` often.

    For work that must not be cut in half. The interrupting thread makes `is_stopped` true first, so either it finds
    this thread listening, or this thread finds `is_stopped` true.
    """
    thread = current_thread()
    _count(thread, 1)
    try:
        if is_stopped():
            raise Interrupted
        yield
    finally:
        _count(thread, -1)
        if is_stopped():
            raise Interrupted


def _count(thread: Thread, step: int) -> None:
    with _lock:
        depth = _listening.pop(thread, 0) + step
        if depth:
            _listening[thread] = depth
