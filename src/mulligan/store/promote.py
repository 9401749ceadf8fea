"""Promote due jobs to `queued`, in passes of bounded size, unless a gate blocks them.

A claim promotes before it leases; the duties `retry` and `promote` do it too. A blocked job waits under its gate: a
paused duty, a draft batch, the budget of its owner or service, its service, or a limit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.batches import CountChanges
from mulligan.store.enqueue import SharedOperations
from mulligan.store.messages import Claim
from mulligan.store.probes import ProbeOperations
from mulligan.store.rows import Record
from mulligan.store.session import Session

PROMOTE_PASS = 1_000
# A claim waits for this many passes. The worker promotes the rest beside its claims.
PROMOTE_PASSES = 3

PromotePass = Callable[[Session, str, dict[str, Any]], tuple[int, int]]
"""Run one pass with the named statement. Return how many jobs were promoted and how many became blocked."""


class Promotable(NamedTuple):
    """What there is to promote."""

    has_due: bool
    """Jobs are due, or a pause or a draft no longer blocks them."""
    has_restricted: bool
    """A service restricts how many of its jobs a claim may take."""
    has_budget: bool
    """Retries wait for the budget of a service."""
    has_probes: bool
    """Jobs wait for their service."""
    has_limit: bool
    """Jobs wait for a limit or the budget of an owner."""
    is_new_limit: bool
    """A new limit has not counted the jobs admitted earlier; its jobs are not claimed until it has."""

    @property
    def has_work(self) -> bool:
        return self.has_due or self.has_budget or self.has_probes or self.has_limit or self.is_new_limit


def find_promotable(session: Session) -> Promotable:
    (row,) = session.rows("promotable")
    return to_promotable(row)


def to_promotable(row: Record) -> Promotable:
    return Promotable(*(bool(row[name]) for name in Promotable._fields))


class PromoteOperations:
    def __init__(self, operations: SharedOperations, promote_pass: PromotePass) -> None:
        self._services = operations.services
        self._limits = operations.limits
        self._expire = operations.expire
        self._promote_pass = promote_pass
        self._probes = ProbeOperations(operations.services)
        self.without_new_limits = operations.limits.without_new_limits

    @property
    def has_news(self) -> bool:
        """Limits are to be announced, and may block jobs."""
        return self._limits.has_news

    def promote(
        self, session: Session, changes: CountChanges | None = None, claim: Claim | None = None
    ) -> tuple[Promotable, int | None]:
        """Promote the jobs that are due longest. Return what is left, and in how many microseconds to check the limits
        again.

        Batch members that fail here are added to `changes`, if given, else counted at once. Jobs that `claim` needs to
        probe a service become due again.
        """
        self._announce_limits(session)
        found, again = self._promote(session, changes)
        if found.has_probes and self._return_probes(session, claim):
            found, again = self._promote(session, changes)
        return found, again

    def _promote(self, session: Session, changes: CountChanges | None) -> tuple[Promotable, int | None]:
        found = find_promotable(session)
        if found.has_due:
            self._repeat_pass(session, "promote")
            # Some of them may be blocked by a budget or a limit now.
            found = find_promotable(session)
        has_admitted = found.has_budget and self._admit_retries(session) > 0
        if not (found.has_limit or found.is_new_limit or has_admitted):
            return found, None
        again = self._admit_limited(session, changes)
        if found.is_new_limit:
            found = find_promotable(session)
        return found, again

    def promote_by_duty(self, session: Session, duty: str | None, limit: int, *, is_manual: bool) -> int:
        """Promote up to `limit` jobs of one duty, or of both. A manual run ignores the pause of the duty."""
        self._announce_limits(session)
        promoted = 0
        if find_promotable(session).has_due:
            promoted, _ = self.promote_pass(session, "promote", duty=duty, limit=limit)
        if is_manual and promoted < limit:
            promoted += sum(self.promote_pass(session, "admit", duty=duty, limit=limit - promoted))
        self._admit_limited(session)
        return promoted

    def promote_pass(
        self,
        session: Session,
        statement: str,
        *,
        limit: int,
        duty: str | None = None,
        gate: str | None = None,
    ) -> tuple[int, int]:
        """Return how many jobs were promoted and how many became blocked."""
        step = TABLE[Move.PROMOTE, State.WAITING]
        where = {"duty": duty, "gate": gate or f"duty/{duty}", "limit": limit}
        return self._promote_pass(session, statement, {**where, "queued": step.target.value, "event": step.event})

    def _repeat_pass(
        self, session: Session, statement: str, *, gate: str | None = None, passes: int = PROMOTE_PASSES
    ) -> int:
        total = 0
        for _ in range(passes):
            moved = sum(self.promote_pass(session, statement, gate=gate, limit=PROMOTE_PASS))
            total += moved
            if moved < PROMOTE_PASS:
                break
        return total

    def _announce_limits(self, session: Session) -> None:
        if self._limits.has_news:
            self._limits.announce(session)

    def _admit_retries(self, session: Session) -> int:
        """Unblock as many retries as the budgets of their services allow."""
        allowed = self._services.find_retry_allowances(session)
        return sum(
            sum(self.promote_pass(session, "admit", gate=gate, limit=number or PROMOTE_PASS))
            for gate, number in allowed
        )

    def _return_probes(self, session: Session, claim: Claim | None) -> int:
        """Make jobs due that no longer wait for their service. Last: the claim may probe with a job that is due now."""
        free, needed = self._probes.find_gates(session, claim)
        moved = sum(self._repeat_pass(session, "unblock", gate=gate) for gate in free)
        # One pass: a round with that many probes takes hours, and the claim that begins it waits for this.
        return moved + sum(self._repeat_pass(session, "unblock", gate=gate, passes=1) for gate in needed)

    def _admit_limited(self, session: Session, changes: CountChanges | None = None) -> int | None:
        """Admit jobs under limits. Return in how many microseconds to check again."""
        admitted = self._limits.admit(session)
        self._expire.finish(session, admitted.failed, changes=changes)
        return admitted.again_in
