"""A process that a fork server started, used as if it were our own child."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Protocol

TICK = 0.02


class Parent(Protocol):
    def ask(self, order: dict[str, Any]) -> Any: ...


class ForkedProcess:
    def __init__(self, parent: Parent, pid: int) -> None:
        self._parent = parent
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._parent.ask({"status of": self.pid})
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        end = None if seconds is None else time.monotonic() + seconds
        while (status := self.poll()) is None:
            if end is not None and time.monotonic() >= end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", seconds or 0.0)
            time.sleep(TICK)
        return status

    def send_signal(self, number: int) -> None:
        # No other process has this id: it is freed only when its status is asked for.
        if self.poll() is None:
            os.kill(self.pid, number)

    @property
    def is_stopped(self) -> bool:
        """Whether every thread has stopped, by SIGSTOP or for good."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        try:
            return all(thread.read_text().rpartition(")")[2].split()[0] in "TZX" for thread in threads)
        except (FileNotFoundError, ProcessLookupError):
            return False  # a thread ended meanwhile

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def status_of(pid: int) -> int | None:
    """By its parent: how it ended, if it did."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None
