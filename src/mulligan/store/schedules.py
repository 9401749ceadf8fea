"""Schedules: a tick, its job and its events are written together or not at all."""

from collections.abc import Iterable
from typing import Any

from mulligan.records.schedule import Definition, ScheduleChange, ScheduleNote, ScheduleOverview, ScheduleRecord
from mulligan.store.events import event_values, is_done
from mulligan.store.follow_up import Enqueue
from mulligan.store.rows import Record, from_time, to_record, to_time
from mulligan.store.session import Session


class ScheduleOperations:
    def __init__(self, enqueue: Enqueue) -> None:
        self._enqueue = enqueue

    def list_all(self, session: Session) -> list[ScheduleRecord]:
        rows = session.rows("schedules")
        return [to_schedule(row) for row in rows]

    def find_overview(self, session: Session) -> ScheduleOverview:
        rows = session.rows("schedule_overview")
        paused = frozenset(row["name"] for row in rows if row["is_paused"])
        return ScheduleOverview(from_time(session.moment()), list(map(to_schedule, rows)), paused)

    def change(self, session: Session, change: ScheduleChange) -> bool:
        """Return whether the record had not changed since it was read."""
        if self._is_done(session, change.notes):
            return True
        statement = "schedule" if change.record.version else "schedule_new"
        if not session.rows(statement, schedule_values(change.record)):
            return False
        if change.jobs:
            self._enqueue(session, change.jobs)
        for note in change.notes:
            session.rows("event", schedule_event(change.record.name, note))
        return True

    def _is_done(self, session: Session, notes: Iterable[ScheduleNote]) -> bool:
        return any(note.request and is_done(session, note.request) for note in notes)

    def remove(self, session: Session, name: str, note: ScheduleNote) -> bool:
        """Delete the schedule with its pause. Return whether there was one."""
        if self._is_done(session, [note]):
            return True
        if not session.rows("schedule_remove", {"name": name}):
            return False
        session.rows("resume", {"what": "schedule", "name": name})
        session.rows("event", schedule_event(name, note))
        return True


def schedule_values(record: ScheduleRecord) -> dict[str, Any]:
    definition = record.definition
    return {
        "name": record.name,
        "kind": definition.kind,
        "expression": definition.expression,
        "timezone": definition.timezone,
        "missed": definition.missed,
        "arguments": definition.arguments,
        "next_tick": to_time(record.next_tick),
        "last_tick": None if record.last_tick is None else to_time(record.last_tick),
        "last_job": record.last_job,
        "planned_by": record.planned_by,
        "since": to_time(record.since),
        "version": record.version,
    }


def schedule_event(name: str, note: ScheduleNote) -> dict[str, Any]:
    data: dict[str, Any] = {"what": "schedule", "name": name, **note.data}
    return event_values(note.type, request=note.request, actor=note.actor, data=data)


def to_schedule(row: Record) -> ScheduleRecord:
    return to_record(ScheduleRecord, row, definition=to_record(Definition, row))
