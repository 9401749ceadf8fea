"""The attempts a worker holds: each one, and those that wait for a slot."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import timedelta

from mulligan.attempt import NO_PORTS, Attempt, Ports
from mulligan.records.job import Lease
from mulligan.store.messages import ReportedProgress
from mulligan.worker.ending import StopReason
from mulligan.worker.tracing import AttemptTrace


@dataclass(slots=True, eq=False)
class Running:
    """One attempt. Mutable on purpose: everything that changes while it runs is here."""

    lease: Lease
    _: KW_ONLY
    claimed: float
    """Monotonic time of the claim's reply; the lease has the store's time."""
    extend_at: float
    ports: InitVar[Ports] = NO_PORTS
    attempt: Attempt = field(init=False)
    started: float = field(init=False)
    task: asyncio.Task[None] | None = None
    stop: Callable[[], None] | None = None
    """How to interrupt a task that runs in a thread."""
    look_at: float = 0.0
    """Monotonic time at which the worker checks whether it has ended."""
    timeout: timedelta = timedelta(0)
    """The timeout in force when it started."""
    why: StopReason | None = None
    has_begun: bool = False
    """The task's own code has run, or may have."""
    is_over: bool = False
    """Its outcome is on the way to the store: the code's result no longer counts."""
    trace: AttemptTrace | None = None
    """Its spans, if the worker traces."""
    make_current: Callable[[], None] | None = None
    """Makes its span the current one where its code runs."""
    _stored: tuple[float, str] = (0.0, "")

    def __post_init__(self, ports: Ports) -> None:
        self.attempt = Attempt(self.lease, ports)
        self.started = self.claimed

    @property
    def has_news(self) -> bool:
        return (self.attempt.ratio, self.attempt.text) != self._stored

    def progress(self) -> ReportedProgress:
        return ReportedProgress(self.lease.fence, self.attempt.ratio, self.attempt.text)

    def mark_stored(self, progress: ReportedProgress) -> None:
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
