"""The door on SQLite: a row that somebody damaged is passed over, and does not stand there for ever."""

from typing import Any

from mulligan.lifecycle import State
from mulligan.store import promote
from mulligan.store.batch_counts import CountChanges
from mulligan.store.messages import Claim
from mulligan.store.parts import Parts
from mulligan.store.rows import to_json
from mulligan.store.session import Session
from mulligan.store.sqlite.corruption import Corruption, left, rows_past_damage
from mulligan.store.sqlite.session import SqliteSession


class SqlitePromote:
    def __init__(self, parts: Parts, damage: Corruption) -> None:
        self._limits = parts.limits
        self._steps = promote.PromoteOperations(parts.services, parts.limits, parts.expire, _passing)
        self._damage = damage

    def promote(
        self, session: SqliteSession, now: int, tally: CountChanges | None = None, claim: Claim | None = None
    ) -> tuple[promote.Look, int | None]:
        """What is left to do there, and in how many microseconds it is worth to look at the limits again."""
        return self._steps.promote(session, now, tally, claim)

    def without_new_limits(self, session: SqliteSession, claim: Claim) -> Claim:
        """What of it may be claimed while there is a new limit."""
        return self._limits.without_new_limits(session, claim)

    def promote_by_duty(self, session: SqliteSession, duty: str, limit: int, now: int, *, by_hand: bool) -> int:
        return self._steps.promote_by_duty(session, duty, limit, now, by_hand=by_hand)

    def promote_past_damage(self, session: SqliteSession, now: int) -> None:
        """Once more; who is due and still does not move is damaged, and would stand in the door for ever."""
        limit = promote.PROMOTE_PASS - sum(
            self._steps.promote_pass(session, "promote", now, limit=promote.PROMOTE_PASS)
        )
        self._damage.condemn(session, left(session, "promote_left", now, limit), now, sources=[State.WAITING])


def _passing(session: Session, statement: str, values: dict[str, Any]) -> tuple[int, int]:
    moved = rows_past_damage(session, statement, values)
    if passed := [row for row in moved if row["state"] == values["queued"]]:
        about = {"event": values["event"], "code": None, "data": "{}", "now": values["now"]}
        session.rows("events_of_many", {**about, "jobs": to_json(passed)})
    return len(passed), len(moved) - len(passed)
