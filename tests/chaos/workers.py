"""Real `mulligan worker` processes, each ended by its own id only, and how long each of them lived."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.fork_server import WORKER, ForkServer
from chaos.forked import ForkedProcess
from live import eventually

TESTS = Path(__file__).parent.parent
CONCURRENCY = 4
MENDED_EVERY = 0.1


def environment(url: str, *, lease: float, ledger: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "MULLIGAN_DATABASE_URL": url,
        "MULLIGAN_WORKER_LEASE_TTL_SEC": str(lease),
        "CHAOS_LEDGER": str(ledger),
    }


@dataclass(slots=True)
class Life:
    """One process, by the clock of this machine, which is the store's too."""

    process: ForkedProcess
    started: float
    killed: float | None = None
    stops: list[tuple[float, float]] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    def was_frozen(self, begin: float, end: float) -> bool:
        return any(stopped <= end and begin <= continued for stopped, continued in self.stops)


class Workers:
    def __init__(self, slots: int, environment: Mapping[str, str], log: Path) -> None:
        self._environment = environment
        self._fork_server = ForkServer(environment, log)
        self.slots: list[Life] = []
        self.lives: list[Life] = []
        self._mend_at = 0.0
        for _ in range(slots):
            self.slots.append(self._start())

    def _start(self, **more: str) -> Life:
        command = ["worker", "chaos.app:app", "--concurrency", str(CONCURRENCY)]
        life = Life(self._fork_server.start(WORKER, command, {**self._environment, **more}), time.time())
        self.lives.append(life)
        return life

    def beside(self, module: str, *arguments: object) -> ForkedProcess:
        """Another program, forked by the same server."""
        return self._fork_server.start(module, arguments, self._environment)

    def add(self, **more: str) -> Life:
        """One more, with other things in its environment."""
        self.slots.append(self._start(**more))
        return self.slots[-1]

    def kill(self, slot: int) -> None:
        """SIGKILL: nothing is settled or released. Another worker is started in its place at once."""
        life = self.slots[slot]
        if life.process.poll() is None:
            life.process.kill()
            life.killed = time.time()
            life.process.wait()
        self.slots[slot] = self._start()

    @property
    def pids(self) -> list[int]:
        """Of each slot."""
        return [life.pid for life in self.slots]

    def freeze(self, slot: int) -> Life:
        life = self.slots[slot]
        life.stops.append((time.time(), float("inf")))
        life.process.send_signal(signal.SIGSTOP)
        # A thread that waits for a file lock still takes it if the lock is released before the thread has stopped.
        eventually(lambda: life.process.is_stopped)
        return life

    def thaw(self, life: Life) -> None:
        life.process.send_signal(signal.SIGCONT)
        life.stops[-1] = (life.stops[-1][0], time.time())

    def is_frozen(self, slot: int) -> bool:
        """Now, or a moment ago."""
        return self.slots[slot].was_frozen(time.time() - 0.5, time.time())

    def mend(self) -> None:
        """As a supervisor does: a worker that could not start because the store was away is started again."""
        if time.monotonic() < self._mend_at:
            return
        self._mend_at = time.monotonic() + MENDED_EVERY
        for slot, life in enumerate(self.slots):
            if life.process.poll() is not None:
                self.slots[slot] = self._start()

    def end(self, seconds: float = 30.0) -> list[int]:
        """Tell all to stop and wait for it; their exit statuses."""
        for life in self.slots:
            life.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + seconds
        return [life.process.wait(max(0.1, deadline - time.monotonic())) for life in self.slots]

    def close(self) -> None:
        for life in self.lives:
            if life.process.poll() is None:
                life.process.kill()
                life.process.wait()
        self._fork_server.close()
