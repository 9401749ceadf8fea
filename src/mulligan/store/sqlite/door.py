"""The door on SQLite: what is due is let through, in passes of bounded size."""

from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.limits import LimitDesk
from mulligan.store.services import ServiceDesk
from mulligan.store.sqlite.damage import Damage, left, past_damage
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.sqlite.play import SQL, append, play
from mulligan.store.tally import Tally
from mulligan.store.unrun import UnrunSteps
from mulligan.store.values import event_values

PROMOTE_PASS = 1_000
PROMOTE_PASSES = 10


class Door:
    def __init__(self, services: ServiceDesk, limits: LimitDesk, unrun: UnrunSteps, damage: Damage) -> None:
        self._services = services
        self._limits = limits
        self._unrun = unrun
        self._damage = damage

    def promote(self, db: "sqlite3.Connection", now: int, tally: Tally | None = None) -> tuple[bool, int | None]:
        """Whether a service has to be asked before its jobs are claimed, and in how many microseconds it is worth to
        look at the limits again."""
        self._say_limits(db, now)
        is_somebody_there, asks, has_budget, has_limit = db.execute(SQL["door"], {"now": now}).fetchone()
        if is_somebody_there:
            for _ in range(PROMOTE_PASSES):
                if sum(self._pass(db, now)) < PROMOTE_PASS:
                    break
            _, asks, has_budget, has_limit = db.execute(SQL["door"], {"now": now}).fetchone()
        if has_budget:
            has_limit = self._admit(db, now) > 0 or has_limit
        return bool(asks), self._let_in(db, now, tally) if has_limit else None

    def promote_by_duty(self, db: "sqlite3.Connection", duty: str, limit: int, now: int, *, by_hand: bool) -> int:
        self._say_limits(db, now)
        passed, _ = self._pass(db, now, duty=duty, limit=limit)
        if by_hand and passed < limit:
            passed += sum(self._pass(db, now, statement="admit", duty=duty, limit=limit - passed))
        self._let_in(db, now)
        return passed

    def promote_past_damage(self, db: "sqlite3.Connection", now: int) -> None:
        """Once more; who is due and still does not move is damaged, and would stand in the door for ever."""
        limit = PROMOTE_PASS - sum(self._pass(db, now))
        self._damage.condemn(db, left(db, "promote_left", now, limit), now, sources=[State.WAITING])

    def _say_limits(self, db: "sqlite3.Connection", now: int) -> None:
        if self._limits.has_news:
            play(db, self._limits.says(now))

    def _let_in(self, db: "sqlite3.Connection", now: int, tally: Tally | None = None) -> int | None:
        """In how many microseconds it is worth to look again."""
        admitted = play(db, self._limits.admit(now))
        play(db, self._unrun.ending(admitted.failed, now, tally=tally))
        return admitted.again_in

    def _admit(self, db: "sqlite3.Connection", now: int) -> int:
        """Retries that their services' budgets allow."""
        return sum(
            sum(self._pass(db, now, statement="admit", gate=gate, limit=number or PROMOTE_PASS))
            for gate, number in play(db, self._services.admitted(now))
        )

    def _pass(
        self,
        db: "sqlite3.Connection",
        now: int,
        *,
        statement: str = "promote",
        duty: str | None = None,
        gate: str | None = None,
        limit: int | None = None,
    ) -> tuple[int, int]:
        """How many passed the door, and how many a pause holds back from now on."""
        step = TABLE[Move.PROMOTE, State.WAITING]
        where = {"duty": duty, "gate": gate or f"duty/{duty}", "limit": PROMOTE_PASS if limit is None else limit}
        moved = past_damage(db, SQL[statement], {**where, "now": now, "queued": step.target}).fetchall()
        rows = [row for *row, state in moved if state == step.target]
        append(db, [event_values(step.event, id_, kind, owner, attempt, now=now) for id_, kind, owner, attempt in rows])
        return len(rows), len(moved) - len(rows)
