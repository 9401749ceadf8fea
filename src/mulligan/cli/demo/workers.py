"""Workers in separate processes, started as usual: `mulligan worker MODULE:APP`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mulligan import MulliganError

TASKS = "mulligan.cli.demo.tasks:app"
LEASE_SECONDS = 2
MOST_REPLACED = 10

# The first signal lets running jobs finish, the second releases them, the third kills.
STOPPING = ((signal.SIGTERM, 1.4), (signal.SIGTERM, 0.6), (signal.SIGKILL, 1.0))


def worker_command(tasks: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "mulligan", "worker", tasks, "--concurrency", "4")


class WorkersFailed(MulliganError):
    """The demo cannot go on; the last line of the workers' log says why."""

    def __init__(self, problem: str, log: Path) -> None:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
        super().__init__(f"{problem}; the last line of {log} is: {lines[-1] if lines else '(nothing)'}")


class Workers:
    """Each worker is ended by its own process id only."""

    def __init__(
        self, environment: Mapping[str, str], log: Path, *, command: Sequence[str] = worker_command(TASKS)
    ) -> None:
        self._environment = {**os.environ, "MULLIGAN_WORKER_LEASE_TTL_SEC": str(LEASE_SECONDS), **environment}
        self._log = log
        self._command = command
        self._processes: list[subprocess.Popen[bytes]] = []
        self._replaced = 0

    @property
    def pids(self) -> list[int]:
        """Oldest first."""
        return [process.pid for process in self._processes]

    def start(self, number: int = 1) -> None:
        for _ in range(number):
            with self._log.open("ab") as log:
                # In its own process group: Ctrl-C reaches the demo only, which then stops its workers.
                process = subprocess.Popen(  # noqa: S603
                    self._command,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                )
            self._processes.append(process)

    def check(self) -> None:
        """Raises WorkersFailed if one of them has ended."""
        for process in self._processes:
            if (code := process.poll()) is not None:
                raise WorkersFailed(f"a worker of the demo ended with exit status {code}", self._log)

    def replace_ended(self) -> list[int]:
        """Replace the workers that ended by themselves, and return their pids."""
        ended = [process.pid for process in self._processes if process.poll() is not None]
        self._replaced += len(ended)
        if self._replaced > MOST_REPLACED:
            self.check()
        self._processes = [process for process in self._processes if process.pid not in ended]
        self.start(len(ended))
        return ended

    def kill(self, pid: int) -> None:
        """Kill it without settling or releasing its jobs, as if its machine had failed."""
        (process,) = (process for process in self._processes if process.pid == pid)
        self._processes.remove(process)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Stop all workers within three seconds."""
        for number, seconds in STOPPING:
            for process in self._processes:
                process.send_signal(number)
            end = time.monotonic() + seconds
            self._processes = [process for process in self._processes if not _ended(process, end - time.monotonic())]


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return False
    return True
