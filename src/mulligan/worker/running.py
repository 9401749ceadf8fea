"""The attempts a worker holds: each one, and those that wait for a slot."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from mulligan.attempt import NO_PORTS, Attempt, Ports
from mulligan.records.job import Lease
from mulligan.store.messages import Progress
from mulligan.worker.ending import StopReason


class Running:
    """One attempt. Mutable on purpose: everything that changes while it runs is here."""

    __slots__ = (
        "_stored",
        "attempt",
        "claimed",
        "extend_at",
        "has_begun",
        "is_over",
        "lease",
        "look_at",
        "started",
        "stop",
        "task",
        "timeout",
        "why",
    )

    def __init__(self, lease: Lease, *, claimed: float, extend_at: float, ports: Ports = NO_PORTS) -> None:
        self.lease = lease
        self.attempt = Attempt(lease, ports)
        self.claimed = claimed
        """Monotonic time of the claim's reply; the lease has the store's time."""
        self.started = claimed
        self.extend_at = extend_at
        self.task: asyncio.Task[None] | None = None
        self.stop: Callable[[], None] | None = None
        """How to interrupt a task that runs in a thread."""
        self.look_at = 0.0
        """Monotonic time at which the worker checks whether it has ended."""
        self.timeout = timedelta(0)
        """The timeout in force when it started."""
        self.why: StopReason | None = None
        self.has_begun = False
        """The task's own code has run, or may have."""
        self.is_over = False
        """Its outcome is on the way to the store: the code's result no longer counts."""
        self._stored = (0.0, "")

    @property
    def has_news(self) -> bool:
        return (self.attempt.ratio, self.attempt.text) != self._stored

    def progress(self) -> Progress:
        return Progress(self.lease.fence, self.attempt.ratio, self.attempt.text)

    def mark_stored(self, progress: Progress) -> None:
        self._stored = (progress.ratio, progress.text)

    def set_interrupt(self, stop: Callable[[], None]) -> None:
        self.stop = stop

    def interrupt(self, why: StopReason) -> None:
        """Ask the code to stop. The first reason stays."""
        if self.why is not None or self.is_over:
            return
        self.why = why
        self.attempt.cancelled = True
        self.attempt.lost = self.attempt.lost or why is StopReason.LOST
        if self.stop is not None:
            self.stop()
        elif self.task is not None:
            self.task.cancel()


class Backlog(deque[Running]):
    """Claimed attempts that wait for a slot, oldest first."""

    def take(self, *, avoid: Collection[str]) -> Running | None:
        """Remove and return the first attempt, skipping those of the services to avoid."""
        if not avoid:
            return self.popleft() if self else None
        found = next((running for running in self if running.lease.service not in avoid), None)
        if found is not None:
            self.remove(found)
        return found

    def take_stale(self, epochs: Mapping[str, int]) -> list[Running]:
        """Remove and return the attempts that were claimed before their service reached this epoch."""
        stale = [
            running
            for running in self
            if running.lease.service in epochs and running.lease.service_epoch < epochs[running.lease.service]
        ]
        for running in stale:
            self.remove(running)
        return stale
