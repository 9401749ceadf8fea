"""The keeper: extends leases, stores progress, and learns of cancellations and lost leases.

A separate thread calls `step`, so a task that blocks the event loop keeps its lease.
"""

from datetime import timedelta
from typing import Protocol

from mulligan.errors import StoreError
from mulligan.records.job import Fence
from mulligan.store.messages import Beat, WorkerRecord
from mulligan.store.store import Store
from mulligan.values.clock import Clock
from mulligan.worker.ending import StopReason
from mulligan.worker.running import Running
from mulligan.worker.store_calls import OutageLog

BEATS_PER_LEASE = 3
LONGEST_INTERVAL = 1.0


class HeldAttempts(Protocol):
    """Both methods are safe to call from the keeper's thread."""

    def held(self) -> list[Running]: ...

    def interrupt_from_thread(self, running: Running, why: StopReason) -> None: ...


class Keeper:
    def __init__(
        self,
        store: Store,
        *,
        worker: WorkerRecord,
        lease: timedelta,
        clock: Clock,
        outage: OutageLog,
        attempts: HeldAttempts,
    ) -> None:
        self._store = store
        self._worker = worker
        self.lease = lease
        self._clock = clock
        self._outage = outage
        self._attempts = attempts
        self._seen_at: float | None = None
        self.interval = min(LONGEST_INTERVAL, lease.total_seconds() / BEATS_PER_LEASE / 2)

    def step(self) -> None:
        now = self._clock.monotonic()
        held = {running.lease.fence: running for running in self._attempts.held()}
        beat = Beat(
            worker=self._worker,
            lease=self.lease,
            extend=[fence for fence, running in held.items() if now >= running.extend_at],
            progress=[running.progress() for running in held.values() if running.has_news],
        )
        if not (beat.extend or beat.progress or held or self._is_due(now)):
            return
        try:
            reply = self._store.beat(beat)
        except StoreError as error:
            self._outage.failed("beat", error)
            return
        self._outage.answered("beat")
        self._seen_at = now
        self._mark(beat, held, now)
        self._interrupt(held, reply.lost, StopReason.LOST)
        self._interrupt(held, reply.cancelled, StopReason.CANCELLED)

    def running(self) -> list[Running]:
        """The attempts whose code runs now."""
        return [running for running in self._attempts.held() if running.task is not None and not running.is_over]

    def _is_due(self, now: float) -> bool:
        """An idle worker sends a beat too, so that it is seen."""
        return self._seen_at is None or now - self._seen_at >= self.lease.total_seconds() / BEATS_PER_LEASE

    def _mark(self, beat: Beat, held: dict[Fence, Running], now: float) -> None:
        for fence in beat.extend:
            held[fence].extend_at = now + self.lease.total_seconds() / BEATS_PER_LEASE
        for progress in beat.progress:
            held[progress.fence].mark_stored(progress)

    def _interrupt(self, held: dict[Fence, Running], fences: list[Fence], why: StopReason) -> None:
        for fence in fences:
            if fence in held:
                self._attempts.interrupt_from_thread(held[fence], why)
