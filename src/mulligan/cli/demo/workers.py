"""Workers in processes of their own, started as anybody would: `mulligan worker MODULE:APP`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mulligan import MulliganError

COMMAND = (sys.executable, "-m", "mulligan", "worker", "mulligan.cli.demo.tasks:app", "--concurrency", "4")
LEASE_SECONDS = 2
MOST_REPLACED = 10

# After the first the jobs in flight may end, after the second they are released, after the third nobody asks.
FAREWELLS = ((signal.SIGTERM, 1.4), (signal.SIGTERM, 0.6), (signal.SIGKILL, 1.0))


class WorkersFailed(MulliganError):
    """The demo cannot go on; the workers' own last words say why."""

    def __init__(self, problem: str, log: Path) -> None:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
        super().__init__(f"{problem}; the last line of {log} is: {lines[-1] if lines else '(nothing)'}")


class Workers:
    """Each is known by its process, and ended by its own pid only."""

    def __init__(self, environment: Mapping[str, str], log: Path, *, command: Sequence[str] = COMMAND) -> None:
        self._environment = {**os.environ, "MULLIGAN_WORKER_LEASE_TTL_SEC": str(LEASE_SECONDS), **environment}
        self._log = log
        self._command = command
        self._processes: list[subprocess.Popen[bytes]] = []
        self._replaced = 0

    @property
    def pids(self) -> list[int]:
        """The oldest first."""
        return [process.pid for process in self._processes]

    def start(self) -> None:
        with self._log.open("ab") as log:
            # In a group of its own: Ctrl-C is for the demo, which then ends its workers in order.
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
        """Start others for those that ended by themselves; their pids."""
        ended = [process.pid for process in self._processes if process.poll() is not None]
        self._replaced += len(ended)
        if self._replaced > MOST_REPLACED:
            self.check()
        self._processes = [process for process in self._processes if process.pid not in ended]
        for _ in ended:
            self.start()
        return ended

    def kill(self, pid: int) -> None:
        """No farewell, nothing settled, nothing released: as when the machine goes away."""
        (process,) = (process for process in self._processes if process.pid == pid)
        self._processes.remove(process)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End them all within three seconds, whatever they do."""
        for number, patience in FAREWELLS:
            for process in self._processes:
                process.send_signal(number)
            end = time.monotonic() + patience
            self._processes = [process for process in self._processes if not _ended(process, end - time.monotonic())]


def _ended(process: subprocess.Popen[bytes], patience: float) -> bool:
    try:
        process.wait(max(0.0, patience))
    except subprocess.TimeoutExpired:
        return False
    return True
