"""Jobs that have ended: list, count and delete them with their events."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from mulligan.lifecycle import PURGED, State
from mulligan.records.job import JobFilter
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.store.events import event_values, find_request
from mulligan.store.reading import filter_conditions
from mulligan.store.rows import Record, from_time, to_json, to_time
from mulligan.store.session import Session

Remove = Callable[[Session, Sequence[str]], int]


class RetentionOperations:
    """`remove` deletes jobs whose events all cursors have passed, with these events."""

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
        session.rows("prune_lock")
        return self._remove_any(session, self.old(session, state, before, limit))

    def over(
        self,
        session: Session,
        wanted: JobFilter,
        before: datetime,
        owner: str | None,
        limit: int,
        cursor: str | None,
    ) -> list[str]:
        conditions, values = filter_conditions(wanted, owner, cursor)
        values |= {"before": to_time(before), "limit": limit}
        rows = session.filtered("list_ended", conditions, values)
        return [row["id"] for row in rows]

    def count_over(self, session: Session, wanted: JobFilter, before: datetime, owner: str | None) -> list[EndedCount]:
        conditions, values = filter_conditions(wanted, owner, None)
        rows = session.filtered("count_ended", conditions, {**values, "before": to_time(before)})
        return to_ended_counts(rows)

    def purge(self, session: Session, request: PurgeRequest) -> int:
        if before := find_request(session, request.id):
            return int(before.data.get("did", 0))
        session.rows("prune_lock")
        values = {"ids": to_json(list(request.jobs)), "before": to_time(request.before)}
        rows = session.rows("purge", values)
        did = self._remove_any(session, [row["id"] for row in rows])
        if did:
            session.rows("event", purge_event(request, did))
        return did

    def forget(self, session: Session, owner: str, limit: int) -> int:
        session.rows("prune_lock")
        rows = session.rows("forget_jobs", {"owner": owner, "limit": limit})
        return self._remove_any(session, [row["id"] for row in rows])

    def _remove_any(self, session: Session, ids: Sequence[str]) -> int:
        return self._remove(session, ids) if ids else 0


def purge_event(request: PurgeRequest, did: int) -> dict[str, Any]:
    data: dict[str, Any] = {"what": "jobs", "name": request.about, "did": did}
    if request.reason:
        data["reason"] = request.reason
    return event_values(PURGED, request=request.id, actor=request.actor, data=data)


def to_ended_counts(rows: Iterable[Record]) -> list[EndedCount]:
    return [
        EndedCount(row["kind"], State(row["state"]), row["error_code"], bool(row["is_held"]), row["number"])
        for row in rows
    ]
