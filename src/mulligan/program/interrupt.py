"""Interrupting code that runs in a thread: raise in it, unless it looks for itself."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread, current_thread
from weakref import WeakKeyDictionary


class Interrupted(BaseException):
    """Raised inside a task's thread when its time is up. Not an Exception: code that catches those
    to carry on does not catch this."""


_lock = Lock()
_listening: WeakKeyDictionary[Thread, int] = WeakKeyDictionary()


def interrupt(thread: Thread) -> bool:
    """Raise in a thread, unless it listens; whether it was raised. Blocking C code is not reached."""
    with _lock:
        if thread in _listening or thread.ident is None:
            return False
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted))
        return True


@contextmanager
def listen_for_stop(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """Inside, nothing is raised in this thread from outside: it asks `is_stopped` itself, and often.

    For work that must not be cut in half. Whoever interrupts makes `is_stopped` true first, so that
    either he finds us listening, or we find that he was there.
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
