"""The door on PostgreSQL: looked at first, and passed in a transaction of its own."""

from typing import Any

from mulligan.store.batch_counts import CountChanges
from mulligan.store.messages import Claim
from mulligan.store.parts import Parts
from mulligan.store.postgres.session import BEGIN, BEGIN_ASYNCHRONOUS, PostgresSession
from mulligan.store.promote import Look, PromoteOperations
from mulligan.store.session import Now, Session


class PostgresPromote:
    def __init__(self, parts: Parts) -> None:
        self._limits = parts.limits
        self._steps = PromoteOperations(parts.services, parts.limits, parts.expire, _passing)

    def promote_if_needed(self, session: PostgresSession, claim: Claim, now: Now) -> tuple[Look, int | None]:
        """For a claim, which mostly finds nobody there."""
        # Asked first: the keeper may tell the limits in this very moment, and the look came too early for them.
        has_news = self._limits.has_news
        look = self._steps.look(session, now)
        if not (look.has_work or has_news):
            return look, None
        # In its own transaction: its id would be older than those of jobs that come now, and the log would start them
        # before they came.
        with session.transaction(BEGIN_ASYNCHRONOUS):
            return self.promote(session, now, claim=claim)

    def promote(
        self, session: PostgresSession, now: Now, tally: CountChanges | None = None, claim: Claim | None = None
    ) -> tuple[Look, int | None]:
        """What is left to do there, and in how many microseconds it is worth to look at the limits again."""
        return self._steps.promote(session, now, tally, claim)

    def without_new_limits(self, session: PostgresSession, claim: Claim) -> Claim:
        """What of it may be claimed while there is a new limit."""
        return self._limits.without_new_limits(session, claim)

    def promote_by_duty(self, session: PostgresSession, duty: str, limit: int, now: Now, *, by_hand: bool) -> int:
        with session.transaction(BEGIN):
            return self._steps.promote_by_duty(session, duty, limit, now, by_hand=by_hand)


def _passing(session: Session, statement: str, values: dict[str, Any]) -> tuple[int, int]:
    (row,) = session.rows(statement, values)
    return int(row["passed"]), int(row["held"])
