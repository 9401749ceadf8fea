"""Stuck jobs: an attempt that runs beyond all measure is taken from its worker and settled as a timeout.

The lease is taken away by the settle itself, which asks once more whether the attempt is stuck: a worker that
settles in the same moment wins, and one that comes later is refused.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from mulligan.failure.classify import timed_out
from mulligan.judge import Judge
from mulligan.records.job import Lease
from mulligan.store.messages import Outcome, Settled
from mulligan.store.store import Store


class Stuck:
    """`after` is the stuck limit; a job whose own timeout is longer is stuck only beyond that."""

    def __init__(self, store: Callable[[], Store], judge: Judge, after: Callable[[], timedelta]) -> None:
        self._store = store
        self._judge = judge
        self._after = after

    @property
    def after(self) -> timedelta:
        return self._after()

    def found(self, *, owner: str | None = None, limit: int) -> list[Lease]:
        """Those that run longest first."""
        leases = self._store().stuck(after=self.after, owner=owner, limit=limit)
        now = self._store().now()
        return [lease for lease in leases if self._judge.is_over_time(lease, now)]

    def outcome(self, job_id: str, *, actor: str | None, owner: str | None = None) -> Outcome | None:
        """What takes this one away from its worker; None when it is not stuck."""
        leases = self._store().stuck(after=self.after, job=job_id, owner=owner, limit=1)
        now = self._store().now()
        return next(
            (self._outcome(lease, now, actor) for lease in leases if self._judge.is_over_time(lease, now)), None
        )

    def process(self, *, owner: str | None = None, actor: str | None, limit: int) -> list[str]:
        """Take them away and settle each as a TIMEOUT failure through its policy; the ids of those that were."""
        leases = self.found(owner=owner, limit=limit)
        now = self._store().now()
        answers = self._store().settle([self._outcome(lease, now, actor) for lease in leases]) if leases else []
        return [lease.fence.id for lease, answer in zip(leases, answers, strict=True) if answer is not Settled.REFUSED]

    def _outcome(self, lease: Lease, now: datetime, actor: str | None) -> Outcome:
        elapsed = now - lease.claimed_at
        verdict = timed_out(elapsed, kind=lease.kind, detail="it was stuck, and its lease was taken away")
        return Outcome(
            lease,
            self._judge.decide_lease(verdict, lease, now=now),
            seconds=elapsed.total_seconds(),
            # Not the name of any worker: those carry no space.
            reclaimed_by=f"by hand, {actor or 'somebody'}",
            stuck_after=self.after,
            actor=actor,
        )
