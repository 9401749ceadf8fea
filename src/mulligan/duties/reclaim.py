"""Reclaim: takes back the jobs of lost workers. A lost worker is a failure like others, with the same `decide` and
`settle`."""

import logging
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

from mulligan.duties.runner import repeat_while_full
from mulligan.failure.verdict import worker_lost
from mulligan.judge import Judge
from mulligan.records.job import Lease
from mulligan.store.messages import Outcome, Settled
from mulligan.store.store import Store
from mulligan.values.clock import Clock
from mulligan.values.duration import describe

logger = logging.getLogger("mulligan.duties")

# Bounds one step; the next step continues.
PASSES = 10
STUCK_SECONDS = 300.0
STUCK_NAMED = 5
# A machine that fails may lose thousands of leases.
LOST_NAMED = 20
# How far the store's clock and ours may drift apart between two passes.
TOLERANCE_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Reclaim:
    """Takes back expired leases of other workers, and logs stuck jobs every few minutes.

    After an outage, a clock step or a pause of this process every lease looks expired. So it acts only after a whole
    beat in which no pass was late and the store's clock agreed with ours: every live worker has extended its leases by
    then.
    """

    name = "reclaim"

    store: Store
    _: KW_ONLY
    judge: Judge
    clock: Clock
    incarnation: str
    interval: float
    beat: float
    limit: int = 200
    stuck_after: timedelta = timedelta(minutes=30)
    _reported_at: float = field(init=False)
    _last: tuple[float, datetime] | None = field(default=None, init=False)
    _quiet_since: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._reported_at = self.clock.monotonic()

    def step(self) -> int:
        """How many leases were taken back."""
        before, self._last = self._last, None
        now, ours = self.store.now(), self.clock.monotonic()
        self._last = (ours, now)
        if before is None or not self._is_trusted(ours - before[0], (now - before[1]).total_seconds()):
            self._quiet_since = ours
        self._report_stuck(ours, now)
        is_quiet = self._quiet_since is not None and ours - self._quiet_since >= self.beat
        return (
            repeat_while_full(lambda limit: self._reclaim(now, limit), limit=self.limit, passes=PASSES)
            if is_quiet
            else 0
        )

    def _is_trusted(self, ours: float, theirs: float) -> bool:
        return abs(ours - theirs) <= TOLERANCE_SECONDS and ours <= self.interval * 2 + TOLERANCE_SECONDS

    def _report_stuck(self, ours: float, now: datetime) -> None:
        if ours - self._reported_at < STUCK_SECONDS:
            return
        self._reported_at = ours
        found = self.store.stuck(after=self.stuck_after, limit=1_000)
        stuck = [lease for lease in found if self.judge.is_over_time(lease, now)]
        if stuck:
            named = ", ".join(lease.fence.id for lease in stuck[:STUCK_NAMED])
            logger.warning(
                "%d jobs are stuck: they have been running for longer than %s (%s%s); see: mulligan jobs stuck",
                len(stuck),
                describe(self.stuck_after),
                named,
                ", …" if len(stuck) > STUCK_NAMED else "",
            )

    def _reclaim(self, now: datetime, limit: int) -> int:
        leases = self.store.overdue(besides=self.incarnation, limit=limit)
        if not leases:
            return 0
        answers = self.store.settle([self._outcome(lease, now) for lease in leases])
        taken = [lease for lease, answer in zip(leases, answers, strict=True) if answer is Settled.ACCEPTED]
        _report(taken)
        return len(taken)

    def _outcome(self, lease: Lease, now: datetime) -> Outcome:
        verdict = worker_lost(kind=lease.kind, has_begun=lease.has_begun)
        return Outcome(lease, self.judge.decide_lease(verdict, lease, now=now), reclaimed_by=self.incarnation)


def _report(taken: list[Lease]) -> None:
    for lease in taken[:LOST_NAMED]:
        fence = lease.fence
        logger.warning(
            "attempt %d of job %s (%s) lost its worker %s",
            fence.attempt,
            fence.id,
            lease.kind,
            fence.incarnation,
            extra=lease.fields,
        )
    if len(taken) > LOST_NAMED:
        logger.warning("%d more attempts lost their workers", len(taken) - LOST_NAMED)
