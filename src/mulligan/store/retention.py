"""What is over, in every store: looked through, and deleted with its history."""

from collections.abc import Callable, Sequence
from datetime import datetime

from mulligan.lifecycle import State
from mulligan.records.job import JobFilter
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.store.idempotency import find_request
from mulligan.store.rows import from_time, to_json, to_piles, to_time
from mulligan.store.session import Now, Session
from mulligan.store.values import filter_conditions, purge_event

Remove = Callable[[Session, Sequence[str]], int]


class RetentionOperations:
    """`remove` deletes jobs with their history, as far as all cursors have passed it."""

    def __init__(self, remove: Remove) -> None:
        self._remove = remove

    def newest(self, session: Session, state: State, count: int) -> datetime | None:
        rows = session.rows("newest", {"state": state.value, "count": count})
        return from_time(rows[0]["since"]) if rows else None

    def old(self, session: Session, state: State, before: datetime, limit: int) -> list[str]:
        values = {"state": state.value, "before": to_time(before), "limit": limit}
        rows = session.rows("prune", values)
        return [row["id"] for row in rows]

    def prune(self, session: Session, state: State, before: datetime, limit: int) -> int:
        session.rows("prune_alone")
        return self._remove_any(session, self.old(session, state, before, limit))

    def over(
        self,
        session: Session,
        wanted: JobFilter,
        before: datetime,
        owner: str | None,
        limit: int,
        cursor: str | None,
        now: Now,
    ) -> list[str]:
        conditions, values = filter_conditions(wanted, owner, cursor)
        values |= {"before": to_time(before), "limit": limit, "now": now}
        rows = session.execute(session.sql.filtered("over", conditions), values)
        return [row["id"] for row in rows]

    def count_over(
        self, session: Session, wanted: JobFilter, before: datetime, owner: str | None, now: Now
    ) -> list[EndedCount]:
        conditions, values = filter_conditions(wanted, owner, None)
        rows = session.execute(
            session.sql.filtered("count_over", conditions), {**values, "before": to_time(before), "now": now}
        )
        return to_piles(rows)

    def purge(self, session: Session, request: PurgeRequest, now: Now) -> int:
        if before := find_request(session, request.id):
            return int(before.data.get("did", 0))
        session.rows("prune_alone")
        values = {"ids": to_json(list(request.jobs)), "before": to_time(request.before), "now": now}
        rows = session.rows("purge", values)
        did = self._remove_any(session, [row["id"] for row in rows])
        if did:
            session.rows("event", purge_event(request, did, now=now))
        return did

    def _remove_any(self, session: Session, ids: Sequence[str]) -> int:
        return self._remove(session, ids) if ids else 0
