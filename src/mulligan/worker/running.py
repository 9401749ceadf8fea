"""One attempt in flight, as its worker knows it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from mulligan.attempt import NO_PORTS, Attempt, Ports
from mulligan.records.job import Lease
from mulligan.store.protocols import Progress
from mulligan.worker.ending import Why


class Running:
    """Mutable on purpose: what changes while an attempt runs is here and nowhere else."""

    __slots__ = (
        "_noted",
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
        """Monotonic time of the claim's reply, beside the store's own time in the lease."""
        self.started = claimed
        self.extend_at = extend_at
        self.task: asyncio.Task[None] | None = None
        self.stop: Callable[[], None] | None = None
        """How to interrupt a task that runs in a thread."""
        self.look_at = 0.0
        """When its worker looks whether it has ended, by monotonic time."""
        self.timeout = timedelta(0)
        """How long it may take: what was in force when it started."""
        self.why: Why | None = None
        self.has_begun = False
        """The task's own code has run, or may have."""
        self.is_over = False
        """Its outcome is on the way to the store: whatever the code still does counts no more."""
        self._noted = (0.0, "")

    @property
    def has_news(self) -> bool:
        return (self.attempt.ratio, self.attempt.text) != self._noted

    def progress(self) -> Progress:
        return Progress(self.lease.fence, self.attempt.ratio, self.attempt.text)

    def noted(self, progress: Progress) -> None:
        self._noted = (progress.ratio, progress.text)

    def interruptible_by(self, stop: Callable[[], None]) -> None:
        self.stop = stop

    def interrupt(self, why: Why) -> None:
        """Ask the code to stop. The first reason stands."""
        if self.why is not None or self.is_over:
            return
        self.why = why
        self.attempt.cancelled = True
        self.attempt.lost = self.attempt.lost or why is Why.LOST
        if self.stop is not None:
            self.stop()
        elif self.task is not None:
            self.task.cancel()
