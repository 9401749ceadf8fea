"""Rows that somebody damaged: passed over by statements about many, and failed when nothing else can be done."""

from collections.abc import Sequence
from typing import Any

from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import State
from mulligan.store.expire import FAILED, ExpireOperations
from mulligan.store.rows import records, to_json
from mulligan.store.script import Rows
from mulligan.store.session import Session
from mulligan.store.settle import damaged
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.sqlite.session import SQL, SqliteSession
from mulligan.store.values import error_values


def past_damage(session: SqliteSession, statement: str, values: dict[str, Any]) -> "sqlite3.Cursor":
    """Run an update of many rows; one that somebody damaged is passed over, and stops nobody else."""
    try:
        return session.db.execute(statement, values)
    except sqlite3.IntegrityError:
        return session.db.execute(_or_ignore(statement), values)


def rows_past_damage(session: Session, name: str, values: dict[str, Any]) -> Rows:
    """The same, with the rows by column name."""
    try:
        return session.rows(name, values)
    except sqlite3.IntegrityError:
        return session.execute(_or_ignore(SQL[name]), values)


def _or_ignore(update: str) -> str:
    return update.replace("UPDATE", "UPDATE OR IGNORE", 1)


def left(session: SqliteSession, statement: str, now: int, limit: int) -> list[int]:
    """The numbers of rows that a statement of ours should have moved."""
    return [number for (number,) in session.db.execute(SQL[statement], {"now": now, "limit": limit})]


class Corruption:
    def __init__(self, unrun: ExpireOperations) -> None:
        self._unrun = unrun

    def condemn(
        self,
        session: SqliteSession,
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
        cursor = session.db.execute(SQL["condemn"], {**values, "failed": FAILED.target, **error_values(verdict)})
        failed = records(cursor, cursor.fetchall())
        self._unrun.log_failures(session, failed, verdict, "its record is damaged")
        if settled_by is None:
            self._unrun.finish(session, failed, now)
        else:
            self._unrun.store_follow_ups(session, failed)

    def expire(self, session: SqliteSession, verdict: Verdict, limit: int, now: int) -> int:
        did = self._unrun.expire(session, verdict, limit, now)
        late = left(session, "expire_left", now, limit - did)
        self.condemn(session, late, now, sources=[State.WAITING, State.QUEUED])
        return did
