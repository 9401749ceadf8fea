"""The door on SQLite: a row that somebody damaged is passed over, and does not stand there for ever."""

from typing import Any

from mulligan.lifecycle import State
from mulligan.store import promote
from mulligan.store.batch_counts import CountChanges
from mulligan.store.expire import UnrunSteps
from mulligan.store.limits import LimitDesk
from mulligan.store.protocols import Claim
from mulligan.store.rows import to_json
from mulligan.store.services import ServiceDesk
from mulligan.store.session import Statement, Steps
from mulligan.store.sqlite.corruption import Damage, left, passing_damage
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.sqlite.play import SQL, play


class Door:
    def __init__(self, services: ServiceDesk, limits: LimitDesk, unrun: UnrunSteps, damage: Damage) -> None:
        self._limits = limits
        self._steps = promote.DoorSteps(SQL, services, limits, unrun, _passing)
        self._damage = damage

    def promote(
        self, db: "sqlite3.Connection", now: int, tally: CountChanges | None = None, claim: Claim | None = None
    ) -> tuple[promote.Look, int | None]:
        """What is left to do there, and in how many microseconds it is worth to look at the limits again."""
        return play(db, self._steps.promoting(now, tally, claim))

    def unconcerned(self, db: "sqlite3.Connection", claim: Claim) -> Claim:
        """What of it may be claimed while there is a new limit."""
        return play(db, self._limits.unconcerned(claim))

    def promote_by_duty(self, db: "sqlite3.Connection", duty: str, limit: int, now: int, *, by_hand: bool) -> int:
        return play(db, self._steps.promoting_by_duty(duty, limit, now, by_hand=by_hand))

    def promote_past_damage(self, db: "sqlite3.Connection", now: int) -> None:
        """Once more; who is due and still does not move is damaged, and would stand in the door for ever."""
        limit = promote.PROMOTE_PASS - sum(play(db, self._steps.passing("promote", now, limit=promote.PROMOTE_PASS)))
        self._damage.condemn(db, left(db, "promote_left", now, limit), now, sources=[State.WAITING])


def _passing(statement: str, values: dict[str, Any]) -> Steps[tuple[int, int]]:
    moved = yield from passing_damage(Statement(SQL[statement], values))
    if passed := [row for row in moved if row["state"] == values["queued"]]:
        about = {"event": values["event"], "code": None, "data": "{}", "now": values["now"]}
        yield Statement(SQL["events_of_many"], {**about, "jobs": to_json(passed)})
    return len(passed), len(moved) - len(passed)
