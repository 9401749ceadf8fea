"""Wait until a file is written, by this process or another: inotify, which Linux has and Python does not offer."""

import ctypes
import os
import select
from pathlib import Path

IN_MODIFY = 0x2
# Longer than all events that the kernel keeps for one file: equal ones are merged.
EVENTS = 4_096


class FileWatch:
    """Raises OSError where this is not possible."""

    def __init__(self, path: Path) -> None:
        try:
            system = ctypes.CDLL(None, use_errno=True)
            self._events = _check(system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError:
            raise OSError("no inotify here") from None
        try:
            _check(system.inotify_add_watch(self._events, os.fsencode(path), IN_MODIFY))
            self._end = os.eventfd(0)
        except OSError:
            os.close(self._events)
            raise
        self._ready = select.poll()
        self._ready.register(self._events, select.POLLIN)
        self._ready.register(self._end, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Return whether it was written since the last call, within this time."""
        if not any(file == self._events for file, _ in self._ready.poll(seconds * 1000)):
            return False
        os.read(self._events, EVENTS)
        return True

    def end(self) -> None:
        """Let all waits return, now and later."""
        os.eventfd_write(self._end, 1)

    def close(self) -> None:
        os.close(self._events)
        os.close(self._end)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
