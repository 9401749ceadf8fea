"""Schedule: enqueues the job of each tick once, in whichever worker sees the tick first."""

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta

from mulligan.errors import StoreError
from mulligan.lifecycle import SCHEDULE_PLANNED, SCHEDULE_SKIPPED
from mulligan.records.schedule import SEEN_EVERY, UNSEEN_AFTER, ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.store.store import Store
from mulligan.task.schedule import Schedule, Timetable

logger = logging.getLogger("mulligan.duties")


@dataclass(slots=True, eq=False)
class RunSchedules:
    """Ticks go by the store's clock. Every change requires the version that was read: of all workers that see a tick,
    one writes the record and the job, in one transaction.

    If code and record differ, workers run different versions of the app. The worker that started last wins, and the
    others leave the schedule alone. A definition that no worker has any more is replaced by any worker.

    `has_ticks` tells whether a record needs attention. Once every schedule of the code is stored, the records are read
    only then.
    """

    name = "schedule"

    store: Store
    timetable: Timetable
    _: KW_ONLY
    worker: str
    interval: float = 1.0
    limit: int = 100
    has_ticks: Callable[[], bool] = lambda: True
    _began: datetime | None = field(default=None, init=False)
    _is_planned: bool = field(default=False, init=False)

    def step(self) -> int:
        """How many jobs were enqueued."""
        if not self.timetable or (self._is_planned and not self.has_ticks()):
            return 0
        now, stored, paused = self.store.schedule_overview()
        self._began = self._began or now
        records = {record.name: record for record in stored}
        self._is_planned = all(
            name in records and records[name].definition == schedule.definition
            for name, schedule in self.timetable.items()
        )
        # A paused schedule is only marked as seen: its ticks count as missed later.
        steps = {name: self._mark_seen if name in paused else self._tick for name in self.timetable}
        return sum(
            self._step(steps[name], schedule, records.get(name), now) for name, schedule in self.timetable.items()
        )

    def _step(
        self,
        step: Callable[[Schedule, ScheduleRecord, datetime], int],
        schedule: Schedule,
        record: ScheduleRecord | None,
        now: datetime,
    ) -> int:
        """Step one schedule. Errors in a task's own code, such as its `service`, do not block the others."""
        try:
            if record is None or self._replaces(schedule, record, now):
                return self._plan(schedule, record, now)
            return step(schedule, record, now) if record.definition == schedule.definition else 0
        except StoreError:
            raise
        except Exception:
            logger.exception("the tick of schedule %r failed; it is tried again", schedule.name)
            return 0

    def _replaces(self, schedule: Schedule, record: ScheduleRecord, now: datetime) -> bool:
        if record.definition == schedule.definition:
            return False
        assert self._began is not None
        return self._began > record.since or _unseen(record, now) > UNSEEN_AFTER

    def _plan(self, schedule: Schedule, record: ScheduleRecord | None, now: datetime) -> int:
        assert self._began is not None
        planned = schedule.planned(record, now, by=self.worker, since=self._began)
        clock = {"expression": schedule.cron.expression, "timezone": schedule.cron.timezone}
        note = ScheduleNote(type=SCHEDULE_PLANNED, data={**clock, "kind": schedule.task.name, "worker": self.worker})
        if self.store.change_schedule(ScheduleChange(record=planned, notes=[note])):
            logger.info("schedule %r is planned: next at %s", schedule.name, planned.next_tick.isoformat())
        return 0

    def _tick(self, schedule: Schedule, record: ScheduleRecord, now: datetime) -> int:
        if record.next_tick > now:
            return self._mark_seen(schedule, record, now)
        ticks = schedule.due(record.next_tick, now, limit=self.limit)
        jobs = [schedule.job_of(tick) for tick in ticks]
        changed = replace(
            record,
            next_tick=schedule.cron.next(now),
            last_tick=ticks[-1] if ticks else record.last_tick,
            last_job=jobs[-1].id if jobs else record.last_job,
        )
        notes = _skipped(schedule, record.next_tick, ticks, now)
        if not self.store.change_schedule(ScheduleChange(record=changed, jobs=jobs, notes=notes)):
            return 0
        for note in notes:
            logger.warning(
                "schedule %r missed its ticks from %s to %s", schedule.name, note.data["from"], note.data["to"]
            )
        return len(jobs)

    def _mark_seen(self, _schedule: Schedule, record: ScheduleRecord, now: datetime) -> int:
        if _unseen(record, now) > SEEN_EVERY:
            self.store.change_schedule(ScheduleChange(record=record))
        return 0


def _unseen(record: ScheduleRecord, now: datetime) -> timedelta:
    return now - (record.seen_at or record.since)


def _skipped(schedule: Schedule, first: datetime, run: list[datetime], now: datetime) -> list[ScheduleNote]:
    """A note about the ticks that are not run, from the first to the last."""
    end = run[0] if run else now + timedelta(microseconds=1)
    if first >= end:
        return []
    instant = timedelta(microseconds=1)
    last = schedule.cron.last(first - instant, end - instant, most=1) or [first]
    data = {"from": first.isoformat(), "to": last[0].isoformat(), "missed": schedule.missed}
    return [ScheduleNote(type=SCHEDULE_SKIPPED, data=data)]
