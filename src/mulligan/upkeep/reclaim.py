"""Reclaim: a lost worker is one more failure, with the same `decide` and the same `settle`."""

import logging
from datetime import datetime

from mulligan.clock import Clock
from mulligan.failure.classify import worker_lost
from mulligan.job import Lease
from mulligan.judge import Judge
from mulligan.store.protocols import Outcome, Settled, Store

logger = logging.getLogger("mulligan.upkeep")

PASS = 200
# How far the store's clock and ours may drift apart from one pass to the next and still be trusted.
TOLERANCE_SECONDS = 1.0


class Reclaim:
    """Takes back leases that expired, never its own worker's.

    After an outage, a clock step or a pause of this process every lease looks expired. So it acts only
    when for a whole beat no pass came late and the store's clock went as ours did: whoever is alive has
    extended his leases by then.
    """

    name = "reclaim"

    def __init__(
        self, store: Store, *, judge: Judge, clock: Clock, incarnation: str, interval: float, beat: float
    ) -> None:
        self._store = store
        self._judge = judge
        self._clock = clock
        self._incarnation = incarnation
        self.interval = interval
        self._beat = beat
        self._last: tuple[float, datetime] | None = None
        self._quiet_since: float | None = None

    def step(self) -> int:
        """How many leases were taken back."""
        before, self._last = self._last, None
        now, ours = self._store.now(), self._clock.monotonic()
        self._last = (ours, now)
        if before is None or not self._went_well(ours - before[0], (now - before[1]).total_seconds()):
            self._quiet_since = ours
        is_quiet = self._quiet_since is not None and ours - self._quiet_since >= self._beat
        return self._reclaim(now) if is_quiet else 0

    def _went_well(self, ours: float, theirs: float) -> bool:
        return abs(ours - theirs) <= TOLERANCE_SECONDS and ours <= self.interval * 2 + TOLERANCE_SECONDS

    def _reclaim(self, now: datetime) -> int:
        leases = self._store.overdue(besides=self._incarnation, limit=PASS)
        if not leases:
            return 0
        answers = self._store.settle([self._outcome(lease, now) for lease in leases])
        taken = [lease for lease, answer in zip(leases, answers, strict=True) if answer is Settled.ACCEPTED]
        for lease in taken:
            logger.warning(
                "attempt %d of job %s (%s) lost its worker %s",
                lease.fence.attempt,
                lease.fence.id,
                lease.kind,
                lease.fence.incarnation,
            )
        return len(taken)

    def _outcome(self, lease: Lease, now: datetime) -> Outcome:
        decision = self._judge.decision(worker_lost(kind=lease.kind), lease, now=now)
        return Outcome(lease, decision, reclaimed_by=self._incarnation)
