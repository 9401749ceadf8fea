"""Rows that somebody damaged: passed over by statements about many, and failed when nothing else can be done."""

from collections.abc import Sequence
from typing import Any

from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import State
from mulligan.store.expire import FAILED, UnrunSteps
from mulligan.store.rows import records, to_json
from mulligan.store.session import Rows, Statement, Steps
from mulligan.store.settle import damaged
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.sqlite.play import SQL, play
from mulligan.store.values import error_values


def past_damage(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> "sqlite3.Cursor":
    """Run an update of many rows; one that somebody damaged is passed over, and stops nobody else."""
    try:
        return db.execute(statement, values)
    except sqlite3.IntegrityError:
        return db.execute(_or_ignore(statement), values)


def passing_damage(update: Statement) -> Steps[Rows]:
    """The same as steps."""
    try:
        return (yield update)
    except sqlite3.IntegrityError:
        return (yield Statement(_or_ignore(update.sql), update.values))


def _or_ignore(update: str) -> str:
    return update.replace("UPDATE", "UPDATE OR IGNORE", 1)


def left(db: "sqlite3.Connection", statement: str, now: int, limit: int) -> list[int]:
    """The numbers of rows that a statement of ours should have moved."""
    return [number for (number,) in db.execute(SQL[statement], {"now": now, "limit": limit})]


class Damage:
    def __init__(self, unrun: UnrunSteps) -> None:
        self._unrun = unrun

    def condemn(
        self,
        db: "sqlite3.Connection",
        rows: Sequence[int],
        now: int,
        *,
        sources: Sequence[State],
        settled_by: str | None = None,
    ) -> None:
        """Fail what somebody damaged so that nothing else can be done with it. Whoever settles counts by himself."""
        if not rows:
            return
        verdict = damaged()
        values = {"rows": to_json(rows), "sources": to_json(sources), "settled_by": settled_by, "now": now}
        cursor = db.execute(SQL["condemn"], {**values, "failed": FAILED.target, **error_values(verdict)})
        failed = records(cursor, cursor.fetchall())
        play(db, self._unrun.telling(failed, verdict, "its record is damaged"))
        ends = self._unrun.ending(failed, now) if settled_by is None else self._unrun.following(failed)
        play(db, ends)

    def expire(self, db: "sqlite3.Connection", verdict: Verdict, limit: int, now: int) -> int:
        did = play(db, self._unrun.expiring(verdict, limit, now))
        late = left(db, "expire_left", now, limit - did)
        self.condemn(db, late, now, sources=[State.WAITING, State.QUEUED])
        return did
