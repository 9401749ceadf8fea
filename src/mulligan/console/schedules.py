"""Schedules: list them, run one now, and remove one that no code defines any more. Workers run them when due."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mulligan.console.arguments import NAME, REQUEST_ID, STRING, check
from mulligan.errors import BadSchedule, JobNotFound, ScheduleInUse, StoreUnavailable, UnknownSchedule
from mulligan.failure.redact import bounded
from mulligan.lifecycle import SCHEDULE_REMOVED, SCHEDULE_RUN
from mulligan.records.cron import Cron, upcoming
from mulligan.records.job import Job
from mulligan.records.pause import Pause
from mulligan.records.schedule import UNSEEN_AFTER, ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.store.requests import JOB, NOTHING, part_id, to_once
from mulligan.store.store import Store
from mulligan.task.schedule import LATE, Schedule, Timetable

SHOWN_TICKS = 3
TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """`next` are its next ticks; there are none while it is orphaned or paused without an end. `overdue_since` is a
    past tick that no worker ran. `is_orphaned`: neither this app nor a worker has it in its code any more."""

    name: str
    kind: str
    expression: str
    timezone: str
    missed: str
    next: tuple[datetime, ...]
    overdue_since: datetime | None
    last_tick: datetime | None
    last_job: str | None
    last_state: str | None
    paused: Pause | None
    is_orphaned: bool


@dataclass(frozen=True, slots=True)
class Schedules:
    store: Callable[[], Store]
    ids: Callable[[], str]
    timetable: Timetable

    def list_schedules(self) -> list[ScheduleStatus]:
        """Those in the code of this app and those in the store, by name."""
        now = self.store().now()
        pauses = {pause.name: pause for pause in self.store().pauses() if pause.what == "schedule"}
        return [self._status(record, pauses.get(name), now) for name, record in sorted(self._records(now).items())]

    @check(name=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def run(
        self, name: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> Job[Any]:
        once = to_once(request_id, "run schedule", JOB, schedule=name, actor=actor, reason=reason)
        note = self._note(SCHEDULE_RUN, part_id(once, "note", self.ids), actor, reason)
        return self.store().in_parts(once, lambda: self._run(name, part_id(once, "job", self.ids), note))

    def _run(self, name: str, job_id: str, note: ScheduleNote) -> Job[Any]:
        job = self._schedule(name).job(job_id)
        note = replace(note, data={"job": job.id, **note.data})
        for _ in range(TRIES):
            record = self.require(name)
            changed = ScheduleChange(record=replace(record, last_job=job.id), jobs=[job], notes=[note])
            if self.store().change_schedule(changed):
                return self.store().job(job.id)
        raise StoreUnavailable(f"schedule {name!r} keeps being changed by other processes; try again")

    @check(name=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def remove(
        self, name: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> None:
        once = to_once(request_id, "remove schedule", NOTHING, schedule=name, actor=actor, reason=reason)
        note = self._note(SCHEDULE_REMOVED, self.ids(), actor, reason)
        self.store().in_parts(once, lambda: self._remove(name, note))

    def _remove(self, name: str, note: ScheduleNote) -> None:
        record = self.require(name)
        if not self._is_orphaned(record, self.store().now()):
            raise ScheduleInUse(name)
        self.store().remove_schedule(name, note)

    def _note(self, event: str, request: str, actor: str | None, reason: str | None) -> ScheduleNote:
        why = {"reason": reason} if (reason := bounded(reason)) else {}
        return ScheduleNote(type=event, data=why, request=request, actor=bounded(actor))

    def _records(self, now: datetime) -> dict[str, ScheduleRecord]:
        stored = {record.name: record for record in self.store().schedules()}
        new = {name: schedule for name, schedule in self.timetable.items() if name not in stored}
        return stored | {name: schedule.planned(None, now, by="by hand", since=now) for name, schedule in new.items()}

    def require(self, name: str) -> ScheduleRecord:
        """Raise UnknownSchedule if neither this app nor the store has it."""
        records = self._records(self.store().now())
        if name not in records:
            raise UnknownSchedule(name, sorted(records))
        return records[name]

    def _schedule(self, name: str) -> Schedule:
        if name in self.timetable:
            return self.timetable[name]
        self.require(name)
        raise BadSchedule(
            f"schedule {name!r} is not in the code of this app, so its task is unknown here; name its app with "
            "--app MODULE:APP"
        )

    def _is_orphaned(self, record: ScheduleRecord, now: datetime) -> bool:
        return record.name not in self.timetable and now - (record.seen_at or now) > UNSEEN_AFTER

    def _status(self, record: ScheduleRecord, pause: Pause | None, now: datetime) -> ScheduleStatus:
        is_orphaned = self._is_orphaned(record, now)
        runs_again = None if is_orphaned else _not_before(now, pause)
        definition = record.definition
        return ScheduleStatus(
            name=record.name,
            kind=definition.kind,
            expression=definition.expression,
            timezone=definition.timezone,
            missed=definition.missed,
            next=() if runs_again is None else _upcoming(record, runs_again),
            overdue_since=record.next_tick if not pause and record.next_tick < now - LATE else None,
            last_tick=record.last_tick,
            last_job=record.last_job,
            last_state=self._state(record.last_job),
            paused=pause,
            is_orphaned=is_orphaned,
        )

    def _state(self, job: str | None) -> str | None:
        """None also if the job has been deleted."""
        try:
            return None if job is None else str(self.store().job(job).state)
        except JobNotFound:
            return None


def _not_before(moment: datetime, pause: Pause | None) -> datetime | None:
    """The moment, or the end of the pause if that is later; None if the pause has no end."""
    if pause is None:
        return moment
    return None if pause.until is None else max(moment, pause.until)


def _upcoming(record: ScheduleRecord, after: datetime) -> tuple[datetime, ...]:
    try:
        cron = Cron(record.definition.expression, record.definition.timezone)
    except BadSchedule:
        # Written by a newer version, or for a zone that this machine lacks: only the stored tick is known.
        return (record.next_tick,)
    return upcoming(cron, after, number=SHOWN_TICKS)
