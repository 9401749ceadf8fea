"""Schedules in every store: a tick, its job and what the log says of it are written together, or not at all."""

from collections.abc import Iterable

from mulligan.records.schedule import ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.store.batches import EnqueueSteps
from mulligan.store.idempotency import is_done
from mulligan.store.rows import to_schedule
from mulligan.store.session import Now, Session
from mulligan.store.values import schedule_event, schedule_values


class ScheduleOperations:
    def __init__(self, enqueue_steps: EnqueueSteps) -> None:
        self._enqueue_steps = enqueue_steps

    def list_all(self, session: Session) -> list[ScheduleRecord]:
        rows = session.rows("schedules")
        return [to_schedule(row) for row in rows]

    def change(self, session: Session, change: ScheduleChange, now: Now) -> bool:
        """Whether the record was still as it was read."""
        if self._is_done(session, change.notes):
            return True
        statement = "schedule" if change.record.version else "schedule_new"
        if not session.rows(statement, schedule_values(change.record), now=now):
            return False
        if change.jobs:
            session.play(self._enqueue_steps(change.jobs))
        for note in change.notes:
            session.rows("event", schedule_event(change.record.name, note, now=now))
        return True

    def _is_done(self, session: Session, notes: Iterable[ScheduleNote]) -> bool:
        return any(note.request and is_done(session, note.request) for note in notes)

    def remove(self, session: Session, name: str, note: ScheduleNote, now: Now) -> bool:
        """With its pause; whether there was one."""
        if self._is_done(session, [note]):
            return True
        if not session.rows("schedule_remove", {"name": name}):
            return False
        session.rows("resume", {"what": "schedule", "name": name})
        session.rows("event", schedule_event(name, note, now=now))
        return True
