"""Rows that were damaged in the database: statements about many rows skip them, and they are failed if nothing else is
possible."""

from collections.abc import Sequence

from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import State
from mulligan.store.expire import FAILED, ExpireOperations
from mulligan.store.rows import error_values, to_json
from mulligan.store.session import Session
from mulligan.store.settle import damaged_verdict
from mulligan.store.sqlite.session import SQL, SqliteSession


def find_left(session: SqliteSession, statement: str, limit: int) -> list[int]:
    """Return the numbers of rows that a statement should have moved."""
    return [number for (number,) in session.db.execute(SQL[statement], {"now": session.now, "limit": limit})]


class Corruption:
    def __init__(self, expire: ExpireOperations) -> None:
        self._expire = expire

    def condemn(
        self,
        session: Session,
        rows: Sequence[int],
        *,
        sources: Sequence[State],
        settled_by: str | None = None,
    ) -> None:
        """Fail rows so damaged that nothing else is possible. With `settled_by` the settle counts batch members
        itself."""
        if not rows:
            return
        verdict = damaged_verdict()
        values = {"rows": to_json(rows), "sources": to_json(sources), "settled_by": settled_by}
        failed = session.rows("fail_damaged", {**values, "failed": FAILED.target, **error_values(verdict)})
        self._expire.log_failures(session, failed, verdict, "its record is damaged")
        if settled_by is None:
            self._expire.finish(session, failed)
        else:
            self._expire.store_follow_ups(session, failed)

    def expire(self, session: SqliteSession, verdict: Verdict, limit: int) -> int:
        did = self._expire.expire(session, verdict, limit)
        late = find_left(session, "expire_damaged", limit - did)
        self.condemn(session, late, sources=[State.WAITING, State.QUEUED])
        return did
