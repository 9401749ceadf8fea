"""Schedules in every store: a tick, its job and what the log says of it are written together, or not at all."""

from collections.abc import Callable, Iterable, Sequence

from mulligan.records.job import NewJob
from mulligan.records.schedule import ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.store.clock import Now
from mulligan.store.idempotency import is_done
from mulligan.store.rows import to_schedule
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements
from mulligan.store.values import schedule_event, schedule_values


class ScheduleSteps:
    """`storing` are a store's steps to store jobs."""

    def __init__(self, sql: Statements, storing: Callable[[Sequence[NewJob]], Steps[object]]) -> None:
        self._sql = sql
        self._storing = storing

    def listing(self) -> Steps[list[ScheduleRecord]]:
        rows = yield Statement(self._sql["schedules"], {})
        return [to_schedule(row) for row in rows]

    def changing(self, change: ScheduleChange, now: Now) -> Steps[bool]:
        """Whether the record was still as it was read."""
        if (yield from self._is_done(change.notes)):
            return True
        statement = self._sql["schedule" if change.record.version else "schedule_new"]
        if not (yield Statement(statement, {**schedule_values(change.record), "now": now})):
            return False
        if change.jobs:
            yield from self._storing(change.jobs)
        for note in change.notes:
            yield Statement(self._sql["event"], schedule_event(change.record.name, note, now=now))
        return True

    def _is_done(self, notes: Iterable[ScheduleNote]) -> Steps[bool]:
        for note in notes:
            if note.request and (yield from is_done(self._sql, note.request)):
                return True
        return False

    def removing(self, name: str, note: ScheduleNote, now: Now) -> Steps[bool]:
        """With its pause; whether there was one."""
        if (yield from self._is_done([note])):
            return True
        if not (yield Statement(self._sql["schedule_remove"], {"name": name})):
            return False
        yield Statement(self._sql["resume"], {"what": "schedule", "name": name})
        yield Statement(self._sql["event"], schedule_event(name, note, now=now))
        return True
