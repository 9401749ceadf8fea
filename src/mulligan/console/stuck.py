"""Stuck jobs: an attempt that runs far too long is taken from its worker and settled as a timeout.

The settle itself takes the lease and checks again that the attempt is stuck: a worker that settles first wins, and one
that settles later is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mulligan.console.arguments import NAME, PAGE_SIZE, REQUEST_ID, STRING, check
from mulligan.failure.redact import bounded
from mulligan.failure.verdict import Ledger, timed_out
from mulligan.judge import Judge
from mulligan.records.job import Job, Lease
from mulligan.store.messages import Outcome, Settled
from mulligan.store.requests import AnswerFormat, answer_format, to_once
from mulligan.store.store import Store

JOBS: AnswerFormat[list[Job[Any]]] = answer_format(list[Job[Any]])


@dataclass(frozen=True, slots=True)
class StuckJobs:
    """`after` is the stuck limit. A job with a longer timeout is stuck only after that timeout."""

    store: Callable[[], Store]
    judge: Judge
    after: Callable[[], timedelta]

    @check(owner=NAME, limit=PAGE_SIZE)
    def find(self, *, owner: str | None = None, limit: int = 50) -> list[Job[Any]]:
        return [lease.job for lease in self._leases(owner, limit, self.store().now())]

    @check(owner=NAME, actor=STRING, reason=STRING, limit=PAGE_SIZE, request_id=REQUEST_ID)
    def process(
        self,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        limit: int = 200,
        request_id: str | None = None,
    ) -> list[Job[Any]]:
        terms = {"reason": reason} if reason else {}
        once = to_once(request_id, "process stuck", JOBS, owner, actor=actor, limit=limit, **terms)
        return self.store().in_parts(once, lambda: self._process(owner, actor, reason, limit))

    def _process(self, owner: str | None, actor: str | None, reason: str | None, limit: int) -> list[Job[Any]]:
        settled = self.settle(owner=owner, actor=bounded(actor), reason=bounded(reason), limit=limit)
        return [self.store().job(job_id) for job_id in settled]

    def settle(
        self,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        worker: str | None = None,
        limit: int,
        requeues: bool = False,
        now: datetime | None = None,
    ) -> list[str]:
        """Settle stuck attempts through their policies; the ids of those that were still stuck.

        Each is a TIMEOUT failure; with `requeues`, it is counted like a lost worker instead and uses up no retry.
        `worker` is the worker that does it by itself. `now` is a time of the store that the worker trusts.
        """
        now = now or self.store().now()
        leases = self._leases(owner, limit, now)
        by = worker or _signature_of(actor)
        outcomes = [self._outcome(lease, now, by, actor, reason=reason, requeues=requeues) for lease in leases]
        answers = self.store().settle(outcomes) if outcomes else []
        return [lease.fence.id for lease, answer in zip(leases, answers, strict=True) if answer is not Settled.REFUSED]

    def _leases(self, owner: str | None, limit: int, now: datetime) -> list[Lease]:
        """The longest-running first."""
        after = self.after()
        leases = self.store().stuck(after=after, owner=owner, limit=limit)
        # The store's clock may have stepped since `now`.
        return [lease for lease in leases if self.judge.is_stuck(lease, now, after=after)]

    def outcome_of(self, job_id: str, *, actor: str | None) -> Outcome | None:
        """The outcome that takes a job from its worker; None if it is not stuck."""
        after = self.after()
        leases = self.store().stuck(after=after, job=job_id, limit=1)
        now, by = self.store().now(), _signature_of(actor)
        stuck = (lease for lease in leases if self.judge.is_stuck(lease, now, after=after))
        return next((self._outcome(lease, now, by, actor) for lease in stuck), None)

    def _outcome(
        self,
        lease: Lease,
        now: datetime,
        by: str,
        actor: str | None,
        *,
        reason: str | None = None,
        requeues: bool = False,
    ) -> Outcome:
        elapsed = now - lease.claimed_at
        why = f": {reason}" if reason else ""
        verdict = timed_out(elapsed, kind=lease.kind, detail=f"it was stuck, and its lease was taken away{why}")
        if requeues:
            # As a lost worker, which says nothing about the job or its service.
            verdict = replace(verdict, ledger=Ledger.LOSSES, blames_service=None, has_begun=lease.has_begun)
        return Outcome(
            lease,
            self.judge.decide_lease(verdict, lease, now=now),
            seconds=elapsed.total_seconds(),
            reclaimed_by=by,
            stuck_after=self.after(),
            actor=actor,
        )


def _signature_of(actor: str | None) -> str:
    # Stored with the job. The space tells it from the name of a worker.
    return f"by hand, {actor or 'somebody'}"
