"""The agenda: schedules as people see and steer them. Workers run them; here they are listed, paused, run by hand."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mulligan.errors import BadSchedule, JobNotFound, ScheduleInUse, StoreUnavailable, UnknownSchedule
from mulligan.lifecycle import SCHEDULE_REMOVED, SCHEDULE_RUN
from mulligan.records.cron import Cron, upcoming
from mulligan.records.job import Job
from mulligan.records.pause import Pause, PauseRequest
from mulligan.records.schedule import UNSEEN_AFTER, ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.store.store import Store
from mulligan.task.schedule import LATE, Schedule, Timetable

SCHEDULE = "schedule"
SHOWN_TICKS = 3
TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """`next` are its coming ticks, none while it is paused without an end or orphaned. `overdue_since` is a tick that
    came and that nobody ran. `is_orphaned`: neither this app nor a worker has it in its code any more."""

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


class Agenda:
    def __init__(self, store: Callable[[], Store], ids: Callable[[], str], timetable: Timetable) -> None:
        self._store = store
        self._ids = ids
        self._timetable = timetable

    def schedules(self) -> list[ScheduleStatus]:
        """Those of this app's code, and those in the store, by name."""
        now = self._store().now()
        pauses = {pause.name: pause for pause in self._store().pauses() if pause.what == SCHEDULE}
        return [self._status(record, pauses.get(name), now) for name, record in sorted(self._records(now).items())]

    def pause(self, duration: timedelta | None, *, name: str, actor: str | None, reason: str | None) -> Pause:
        return self._store().pause(self._request(name, duration, actor, reason))

    def resume(self, *, name: str, actor: str | None, reason: str | None) -> Pause | None:
        return self._store().resume(self._request(name, None, actor, reason))

    def _request(self, name: str, duration: timedelta | None, actor: str | None, reason: str | None) -> PauseRequest:
        self._known(name)
        return PauseRequest(id=self._ids(), what=SCHEDULE, name=name, duration=duration, actor=actor, reason=reason)

    def run(self, name: str, *, actor: str | None, reason: str | None) -> Job[Any]:
        """A run at once, paused or not; the next tick stays where it is."""
        schedule = self._schedule(name)
        job = schedule.job(self._ids())
        data = {"job": job.id} | ({"reason": reason} if reason else {})
        note = ScheduleNote(type=SCHEDULE_RUN, data=data, request=self._ids(), actor=actor)
        for _ in range(TRIES):
            record = self._known(name)
            changed = ScheduleChange(record=replace(record, last_job=job.id), jobs=[job], notes=[note])
            if self._store().change_schedule(changed):
                return self._store().job(job.id)
        raise StoreUnavailable(f"schedule {name!r} is changed by others all the time; try again")

    def remove(self, name: str, *, actor: str | None, reason: str | None) -> None:
        """Forget a schedule that no code has any more; its jobs stay."""
        record = self._known(name)
        if not self._is_orphaned(record, self._store().now()):
            raise ScheduleInUse(name)
        data = {"reason": reason} if reason else {}
        note = ScheduleNote(type=SCHEDULE_REMOVED, data=data, request=self._ids(), actor=actor)
        self._store().remove_schedule(name, note)

    def _records(self, now: datetime) -> dict[str, ScheduleRecord]:
        stored = {record.name: record for record in self._store().schedules()}
        new = {name: schedule for name, schedule in self._timetable.items() if name not in stored}
        return stored | {name: schedule.planned(None, now, by="by hand", since=now) for name, schedule in new.items()}

    def _known(self, name: str) -> ScheduleRecord:
        records = self._records(self._store().now())
        if name not in records:
            raise UnknownSchedule(name, sorted(records))
        return records[name]

    def _schedule(self, name: str) -> Schedule:
        if name in self._timetable:
            return self._timetable[name]
        self._known(name)
        raise BadSchedule(
            f"schedule {name!r} is not in the code of this app, so what it runs is not known here; name its app with "
            "--app MODULE:APP"
        )

    def _is_orphaned(self, record: ScheduleRecord, now: datetime) -> bool:
        return record.name not in self._timetable and now - (record.seen_at or now) > UNSEEN_AFTER

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
        """None as well when the job was removed meanwhile."""
        try:
            return None if job is None else str(self._store().job(job).state)
        except JobNotFound:
            return None


def _not_before(moment: datetime, pause: Pause | None) -> datetime | None:
    """The moment, or the end of the pause that holds it; None when only a person ends that."""
    if pause is None:
        return moment
    return None if pause.until is None else max(moment, pause.until)


def _upcoming(record: ScheduleRecord, after: datetime) -> tuple[datetime, ...]:
    try:
        cron = Cron(record.definition.expression, record.definition.timezone)
    except BadSchedule:
        # Written by a newer version, or for a zone this machine does not know: the stored one is all that is known.
        return (record.next_tick,)
    return upcoming(cron, after, number=SHOWN_TICKS)
