"""Worker processes and servers, seen from outside: their memory, their CPU time, their end."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

MIB = 2**20
STOP_SECONDS = 5
MEMORY_SECONDS = 0.25


class Stuck(Exception):
    """A peer that does not come to an end in time."""


class Workers:
    """One or more worker processes with all their children."""

    def __init__(self, processes: Sequence["subprocess.Popen[bytes]"], log: Path) -> None:
        self._processes = processes
        self._log = log
        self._looked_at = 0.0
        self._peak = 0.0

    def check(self) -> None:
        """Raise if one has ended, and note the memory now and then."""
        if any(process.poll() is not None for process in self._processes):
            raise Stuck(f"a worker ended: {self._log.read_text(errors='replace')[-1_000:].strip()}")
        if time.monotonic() - self._looked_at > MEMORY_SECONDS:
            self.memory()

    def memory(self) -> float:
        """MiB in use by the first worker. Pages that forked processes share count in each."""
        self._looked_at = time.monotonic()
        used = sum(process.memory for process in tree(self._processes[0].pid)) / MIB
        self._peak = max(self._peak, used)
        return used

    def peak(self) -> float:
        """The most MiB that the first worker has used: what was seen, or what the system says of what still runs."""
        highest = sum(process.highest() for process in tree(self._processes[0].pid)) / MIB
        return max(self._peak, highest)

    def seconds(self) -> float:
        """CPU time of all workers so far."""
        return sum(each.seconds for process in self._processes for each in tree(process.pid))


@contextlib.contextmanager
def start(commands: Sequence[Sequence[str]], log: Path) -> Iterator[Workers]:
    """Run workers. In the end they and everything they started are gone."""
    with log.open("wb") as output:
        # A session of its own, so that children of a worker can be ended with it.
        processes = [
            subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True) for command in commands
        ]
    try:
        yield Workers(processes, log)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def server_seconds(pid: int) -> float:
    """CPU time of a server so far, including that of connections which are closed. 0 without a server."""
    return sum(process.seconds for process in tree(pid)) if pid else 0.0


@dataclass(frozen=True)
class Process:
    """What the system says of a process at this moment."""

    pid: int
    parent: int
    seconds: float
    """User and system time, also of children that have ended."""
    memory: int

    @classmethod
    def read(cls, pid: int) -> Self:
        # The name may hold anything, so the fields are counted from its end. proc(5) counts from one.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
        return cls(pid, int(fields[1]), seconds, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))

    def highest(self) -> int:
        """The most memory it ever had."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) * 1024
        return 0


def tree(pid: int) -> list[Process]:
    """A process and all that it started, directly or not; nothing if it has ended."""
    processes = {process.pid: process for process in _all()}
    found = [processes[pid]] if pid in processes else []
    # It grows while it is read: each is followed by its children.
    for process in found:
        found += [child for child in processes.values() if child.parent == process.pid]
    return found


def _all() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield Process.read(int(folder.name))
