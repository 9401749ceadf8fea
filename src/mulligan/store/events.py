"""The log as far as it is the same in every store: the histories of jobs, and how far its readers have come."""

from collections.abc import Sequence

from mulligan.records.event import Cursor, Event
from mulligan.store.rows import to_cursor, to_event, to_histories, to_json
from mulligan.store.session import Now, Session


class EventOperations:
    def of_job(self, session: Session, job: str, owner: str | None, after: int, limit: int) -> list[Event]:
        values = {"job": job, "owner": owner, "after": after, "limit": limit}
        return [to_event(row) for row in session.rows("events_of_job", values)]

    def of_many(self, session: Session, jobs: Sequence[str]) -> dict[str, list[Event]]:
        return to_histories(jobs, session.rows("histories", {"jobs": to_json(list(jobs))}))

    def cursors(self, session: Session) -> list[Cursor]:
        return [to_cursor(row) for row in session.rows("cursors")]

    def set_cursor(self, session: Session, name: str, position: int, now: Now) -> None:
        session.rows("set_cursor_shared")
        session.rows("set_cursor", {"name": name, "position": position, "now": now})

    def drop_cursor(self, session: Session, name: str) -> None:
        session.rows("drop_cursor", {"name": name})
