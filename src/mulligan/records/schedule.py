"""Schedules as they are stored: the definition, the next tick, and the job of the last tick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from mulligan.records.job import NewJob
from mulligan.values.ids import id_from
from mulligan.values.moment import microseconds

TAG = "schedule:"
# If no worker has reported a schedule for this long, no code has it any more.
UNSEEN_AFTER = timedelta(minutes=2)
# How often workers report their schedules.
SEEN_EVERY = UNSEEN_AFTER / 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The schedule as the code defines it. Equal definitions are the same schedule, whatever app they come from."""

    kind: str
    expression: str
    timezone: str
    missed: str
    arguments: str

    @property
    def clock(self) -> tuple[str, str]:
        """The parts that determine the ticks."""
        return self.expression, self.timezone


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """One durable record. `next_tick` has not run yet; `last_job` is the job of `last_tick`, or of a manual run.

    `planned_by` is the worker that brought this definition, and `since` is when that worker started: of two workers,
    the one that started later wins. `seen_at` is when a worker last reported the schedule. `version` grows with each
    change.
    """

    name: str
    definition: Definition
    next_tick: datetime
    last_tick: datetime | None = None
    last_job: str | None = None
    planned_by: str = ""
    since: datetime
    seen_at: datetime | None = None
    version: int = 0


class ScheduleOverview(NamedTuple):
    """All schedules at one time by the store's clock, and the names of those that are paused."""

    now: datetime
    records: list[ScheduleRecord]
    paused: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleNote:
    """An event about a change. `request` is set for a manual change: repeating it has no further effect."""

    type: str
    data: Mapping[str, object] = field(default_factory=dict)
    request: str | None = None
    actor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """The new record, based on the stored `version` that it carries (0: none is stored), and the jobs of its ticks."""

    record: ScheduleRecord
    jobs: Sequence[NewJob] = ()
    notes: Sequence[ScheduleNote] = ()


def tag_of(name: str) -> str:
    """The tag of a schedule's jobs."""
    return f"{TAG}{name}"


def job_id_of(name: str, tick: datetime) -> str:
    """The id of a tick's job, which carries the time of the tick. Every worker computes the same id."""
    moment = microseconds(tick)
    return id_from(f"{name}\n{moment}", moment // 1000)
