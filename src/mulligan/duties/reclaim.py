"""Reclaim: takes back the jobs of lost workers. A lost worker is a failure like others, with the same `decide` and
`settle`."""

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

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


class TakeStuck(Protocol):
    def __call__(self, *, limit: int, now: datetime) -> list[str]: ...


@dataclass(slots=True, eq=False)
class Reclaim:
    """Takes back expired leases of other workers, and logs or settles stuck jobs every few minutes.

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
    take_stuck: TakeStuck | None = None
    """Settles stuck attempts and returns their ids; None: they are only logged."""
    _checked_at: float = field(init=False)
    _last: tuple[float, datetime] | None = field(default=None, init=False)
    _quiet_since: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._checked_at = self.clock.monotonic()

    def step(self) -> int:
        """How many leases were taken back."""
        before, self._last = self._last, None
        now, ours = self.store.now(), self.clock.monotonic()
        self._last = (ours, now)
        if before is None or not self._is_trusted(ours - before[0], (now - before[1]).total_seconds()):
            self._quiet_since = ours
        is_quiet = self._quiet_since is not None and ours - self._quiet_since >= self.beat
        is_due = ours - self._checked_at >= self._stuck_interval
        taken = self._check_stuck(ours, now, is_quiet=is_quiet) if is_due else 0
        if not is_quiet:
            return taken
        return taken + repeat_while_full(lambda limit: self._reclaim(now, limit), limit=self.limit, passes=PASSES)

    def _is_trusted(self, ours: float, theirs: float) -> bool:
        return abs(ours - theirs) <= TOLERANCE_SECONDS and ours <= self.interval * 2 + TOLERANCE_SECONDS

    @property
    def _stuck_interval(self) -> float:
        """A few checks within the stuck limit, if that is short."""
        return min(STUCK_SECONDS, self.stuck_after.total_seconds() / 6)

    def _check_stuck(self, ours: float, now: datetime, *, is_quiet: bool) -> int:
        """How many were taken from their workers."""
        taken: list[str] = []
        if self.take_stuck is None:
            found = self.store.stuck(after=self.stuck_after, limit=1_000)
            stuck = [lease.fence.id for lease in found if self.judge.is_stuck(lease, now, after=self.stuck_after)]
            sentence = "%d jobs are stuck: they have been running for longer than %s (%s%s); see: mulligan jobs stuck"
            self._log_stuck(stuck, sentence)
        elif is_quiet:
            # Not the store's clock by now: it may have stepped since it was trusted, while this process did not run.
            taken = self.take_stuck(limit=self.limit, now=now)
            self._log_stuck(taken, "%d stuck jobs were taken from their workers: they ran for longer than %s (%s%s)")
        else:
            return 0
        self._checked_at = ours
        return len(taken)

    def _log_stuck(self, jobs: Sequence[str], sentence: str) -> None:
        if jobs:
            more = ", …" if len(jobs) > STUCK_NAMED else ""
            logger.warning(sentence, len(jobs), describe(self.stuck_after), ", ".join(jobs[:STUCK_NAMED]), more)

    def _reclaim(self, now: datetime, limit: int) -> int:
        found = self.store.overdue(besides=self.incarnation, limit=limit)
        # The store's clock may have stepped since it was trusted, while this process did not run.
        leases = [lease for lease in found if lease.until < now]
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
