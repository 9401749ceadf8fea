"""What is over, in every store: looked through, and deleted with its history."""

from collections.abc import Callable, Sequence
from datetime import datetime

from mulligan.lifecycle import State
from mulligan.records.job import JobFilter
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.store.clock import Now
from mulligan.store.idempotency import told
from mulligan.store.rows import from_time, to_json, to_piles, to_time
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements
from mulligan.store.values import filter_conditions, purge_event

Removing = Callable[[Sequence[str]], Steps[int]]


class ClearingSteps:
    """`removing` are a store's steps to delete jobs with their history, as far as all cursors have passed it."""

    def __init__(self, sql: Statements, removing: Removing) -> None:
        self._sql = sql
        self._removing = removing

    def newest(self, state: State, count: int) -> Steps[datetime | None]:
        rows = yield Statement(self._sql["newest"], {"state": state.value, "count": count})
        return from_time(rows[0]["since"]) if rows else None

    def old(self, state: State, before: datetime, limit: int) -> Steps[list[str]]:
        values = {"state": state.value, "before": to_time(before), "limit": limit}
        rows = yield Statement(self._sql["prune"], values)
        return [row["id"] for row in rows]

    def pruning(self, state: State, before: datetime, limit: int) -> Steps[int]:
        yield Statement(self._sql["prune_alone"], {})
        return (yield from self._remove((yield from self.old(state, before, limit))))

    def over(
        self, wanted: JobFilter, before: datetime, owner: str | None, limit: int, cursor: str | None, now: Now
    ) -> Steps[list[str]]:
        conditions, values = filter_conditions(wanted, owner, cursor)
        values |= {"before": to_time(before), "limit": limit, "now": now}
        rows = yield Statement(self._sql.filtered("over", conditions), values)
        return [row["id"] for row in rows]

    def counting(self, wanted: JobFilter, before: datetime, owner: str | None, now: Now) -> Steps[list[EndedCount]]:
        conditions, values = filter_conditions(wanted, owner, None)
        rows = yield Statement(
            self._sql.filtered("count_over", conditions), {**values, "before": to_time(before), "now": now}
        )
        return to_piles(rows)

    def purging(self, request: PurgeRequest, now: Now) -> Steps[int]:
        if before := (yield from told(self._sql, request.id)):
            return int(before.data.get("did", 0))
        yield Statement(self._sql["prune_alone"], {})
        values = {"ids": to_json(list(request.jobs)), "before": to_time(request.before), "now": now}
        rows = yield Statement(self._sql["purge"], values)
        did = yield from self._remove([row["id"] for row in rows])
        if did:
            yield Statement(self._sql["event"], purge_event(request, did, now=now))
        return did

    def _remove(self, ids: Sequence[str]) -> Steps[int]:
        return (yield from self._removing(ids)) if ids else 0
