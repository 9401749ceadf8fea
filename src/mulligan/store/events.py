"""The log as far as it is the same in every store: the histories of jobs, and how far its readers have come."""

from collections.abc import Sequence

from mulligan.records.event import Cursor, Event
from mulligan.store.clock import Now
from mulligan.store.rows import to_cursor, to_event, to_histories, to_json
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements


class HistorySteps:
    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    def of_job(self, job: str, owner: str | None, after: int, limit: int) -> Steps[list[Event]]:
        values = {"job": job, "owner": owner, "after": after, "limit": limit}
        return [to_event(row) for row in (yield Statement(self._sql["events_of_job"], values))]

    def of_many(self, jobs: Sequence[str]) -> Steps[dict[str, list[Event]]]:
        return to_histories(jobs, (yield Statement(self._sql["histories"], {"jobs": to_json(list(jobs))})))

    def cursors(self) -> Steps[list[Cursor]]:
        return [to_cursor(row) for row in (yield Statement(self._sql["cursors"], {}))]

    def setting(self, name: str, position: int, now: Now) -> Steps[None]:
        yield Statement(self._sql["set_cursor_shared"], {})
        yield Statement(self._sql["set_cursor"], {"name": name, "position": position, "now": now})

    def dropping(self, name: str) -> Steps[None]:
        yield Statement(self._sql["drop_cursor"], {"name": name})
