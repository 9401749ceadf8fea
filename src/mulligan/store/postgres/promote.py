"""The door on PostgreSQL: looked at first, and passed in a transaction of its own."""

from typing import Any

from mulligan.store.batch_counts import CountChanges
from mulligan.store.clock import Now
from mulligan.store.expire import UnrunSteps
from mulligan.store.limits import LimitDesk
from mulligan.store.postgres.connections import Connection
from mulligan.store.postgres.play import BEGIN, BEGIN_ASYNCHRONOUS, SQL, play, play_in, transaction
from mulligan.store.promote import DoorSteps, Look
from mulligan.store.protocols import Claim
from mulligan.store.services import ServiceDesk
from mulligan.store.session import Statement, Steps


class Door:
    def __init__(self, services: ServiceDesk, limits: LimitDesk, unrun: UnrunSteps) -> None:
        self._limits = limits
        self._steps = DoorSteps(SQL, services, limits, unrun, _passing)

    def promote_if_needed(self, db: Connection, claim: Claim, now: Now) -> tuple[Look, int | None]:
        """For a claim, which mostly finds nobody there."""
        # Asked first: the keeper may tell the limits in this very moment, and the look came too early for them.
        has_news = self._limits.has_news
        look = play(db, self._steps.looking(now))
        if not (look.has_work or has_news):
            return look, None
        # In its own transaction: its id would be older than those of jobs that come now, and the log would start them
        # before they came.
        with transaction(db, BEGIN_ASYNCHRONOUS):
            return self.promote(db, now, claim=claim)

    def promote(
        self, db: Connection, now: Now, tally: CountChanges | None = None, claim: Claim | None = None
    ) -> tuple[Look, int | None]:
        """What is left to do there, and in how many microseconds it is worth to look at the limits again."""
        return play(db, self._steps.promoting(now, tally, claim))

    def unconcerned(self, db: Connection, claim: Claim) -> Claim:
        """What of it may be claimed while there is a new limit."""
        return play(db, self._limits.unconcerned(claim))

    def promote_by_duty(self, db: Connection, duty: str, limit: int, now: Now, *, by_hand: bool) -> int:
        return play_in(db, BEGIN, self._steps.promoting_by_duty(duty, limit, now, by_hand=by_hand))


def _passing(statement: str, values: dict[str, Any]) -> Steps[tuple[int, int]]:
    (row,) = yield Statement(SQL[statement], values)
    return int(row["passed"]), int(row["held"])
