"""The schedules of an app as its code defines them, and the jobs of their ticks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from msgspec import structs

from mulligan.errors import BadSchedule, BadTask, Refused
from mulligan.records.cron import Cron
from mulligan.records.job import NewJob
from mulligan.records.schedule import TAG, Definition, ScheduleRecord, job_id_of, tag_of
from mulligan.task.checks import check_name
from mulligan.task.task import Submission, Task
from mulligan.values.check import LONGEST_NAME, not_allowed, one_of

MISSED = ("once", "skip", "all")
# An older tick is missed. Until then it is only late, and runs whatever `missed` is.
LATE = timedelta(minutes=1)
LONGEST_SCHEDULE_NAME = LONGEST_NAME - len(TAG)


class Schedule:
    """A task that runs by the clock. `missed` decides about ticks that no worker ran in time: one run for all of them,
    none, or one each."""

    def __init__(
        self,
        task: Task[..., Any, Any],
        expression: str,
        *,
        name: str | None = None,
        args: Sequence[Any] = (),
        timezone: str = "UTC",
        missed: str = "once",
    ) -> None:
        self.task = task
        self.name = _name(task.name if name is None else name)
        self.cron = Cron(expression, timezone)
        self.missed = _missed(self.name, missed)
        self._args = _args(self.name, task, args)

    def __repr__(self) -> str:
        return f"<schedule {self.name!r}: {self.task.name!r} at {self.cron.expression!r} {self.cron.timezone}>"

    @cached_property
    def definition(self) -> Definition:
        """Built late: the task's annotations may name types that are defined below it."""
        return Definition(
            kind=self.task.name,
            expression=self.cron.expression,
            timezone=self.cron.timezone,
            missed=self.missed,
            arguments=self.task.payload.encode(self._args, {}),
        )

    def prepare(self) -> None:
        """Raise BadSchedule if the arguments do not fit the task."""
        try:
            assert self.definition
        except Refused as error:
            raise BadSchedule(f"schedule {self.name!r}: {error}") from None

    def planned(self, record: ScheduleRecord | None, now: datetime, *, by: str, since: datetime) -> ScheduleRecord:
        """The record with the definition of this code. A changed expression or time zone counts from now on; any other
        change moves no tick."""
        fresh = ScheduleRecord(
            name=self.name, definition=self.definition, next_tick=self.cron.next(now), planned_by=by, since=since
        )
        if record is None:
            return fresh
        is_same_clock = record.definition.clock == self.definition.clock
        return replace(
            fresh,
            next_tick=record.next_tick if is_same_clock else fresh.next_tick,
            last_tick=record.last_tick,
            last_job=record.last_job,
            version=record.version,
        )

    def job(self, job_id: str) -> NewJob:
        """The job of a manual run."""
        return self.task.client.new_job(self._submission.bind(*self._args), job_id)

    def job_of(self, tick: datetime) -> NewJob:
        """The job of a tick, submitted at the tick. Every worker makes the same one."""
        return structs.replace(self.job(job_id_of(self.name, tick)), submitted_at=tick)

    def due(self, since: datetime, now: datetime, *, limit: int) -> list[datetime]:
        """The ticks from `since` on that must run now; at most `limit` missed ones."""
        # A planned tick runs even if the rules of its time zone have changed since. Mostly it is the only one.
        ticks = [since] if self.cron.next(since) > now else self._last(since, now, limit) or [since]
        late = [tick for tick in ticks if tick > now - LATE]
        missed = ticks[: len(ticks) - len(late)]
        match self.missed:
            case "all":
                return missed[-limit:] + late
            case "once":
                return late or missed[-1:]
        return late

    def _last(self, since: datetime, now: datetime, limit: int) -> list[datetime]:
        instant = timedelta(microseconds=1)
        return self.cron.last(since - instant, now, most=limit + LATE // timedelta(seconds=1))

    @cached_property
    def _submission(self) -> Submission[..., Any]:
        return self.task.options(tags=[tag_of(self.name)])


class Timetable(Mapping[str, Schedule]):
    """The schedules of an app by name."""

    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}

    def add(self, schedule: Schedule) -> None:
        if schedule.name in self._schedules:
            raise BadSchedule(f"two schedules are named {schedule.name!r}; give one of them another name=")
        self._schedules[schedule.name] = schedule

    def prepare(self) -> None:
        for schedule in self.values():
            schedule.prepare()

    def __getitem__(self, name: str) -> Schedule:
        return self._schedules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schedules)

    def __len__(self) -> int:
        return len(self._schedules)


def _name(name: str) -> str:
    try:
        return check_name("the name of a schedule", name, longest=LONGEST_SCHEDULE_NAME)
    except BadTask as error:
        raise BadSchedule(str(error)) from None


def _missed(name: str, missed: str) -> str:
    if missed not in MISSED:
        raise BadSchedule(not_allowed(f"missed of schedule {name!r}", missed, one_of(MISSED).allowed))
    return missed


def _args(name: str, task: Task[..., Any, Any], args: Sequence[Any]) -> tuple[Any, ...]:
    if not isinstance(args, list | tuple):
        raise BadSchedule(not_allowed(f"args of schedule {name!r}", args, "a list of the task's arguments"))
    try:
        task.payload.match(tuple(args), {})
    except Refused as error:
        raise BadSchedule(f"schedule {name!r}: {error}") from None
    return tuple(args)
