"""Schedules as they are stored: what is to run when, the tick that comes next, the job the last one made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mulligan.records.job import NewJob
from mulligan.values.clock import id_from, microseconds

TAG = "schedule:"
# No worker has said for so long that a schedule is in its code: none has it any more.
UNSEEN_AFTER = timedelta(minutes=2)
# How often workers say so.
SEEN_EVERY = UNSEEN_AFTER / 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What the code says. Two with the same words are the same, whatever app they come from."""

    kind: str
    expression: str
    timezone: str
    missed: str
    arguments: str

    @property
    def clock(self) -> tuple[str, str]:
        """What the ticks depend on."""
        return self.expression, self.timezone


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """One durable record. `next_tick` was not run yet; `last_job` is what `last_tick` made, or somebody by hand.

    `since` is when the worker `planned_by` began that brought this definition: of two, the one that began later wins.
    `seen_at` is when a worker that has it last said so. `version` grows with each change.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleNote:
    """What the log says of a change. `request` is set when it was made by hand: repeating it changes nothing."""

    type: str
    data: Mapping[str, object] = field(default_factory=dict)
    request: str | None = None
    actor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """A record as it shall be, made from the `version` it carries (0: there is none yet), and the jobs of its ticks."""

    record: ScheduleRecord
    jobs: Sequence[NewJob] = ()
    notes: Sequence[ScheduleNote] = ()


def tag_of(name: str) -> str:
    """What the jobs of a schedule carry, so that they can be found."""
    return f"{TAG}{name}"


def job_id_of(name: str, tick: datetime) -> str:
    """The id of the job of a tick: every worker makes the same one, with the tick's own time."""
    moment = microseconds(tick)
    return id_from(f"{name}\n{moment}", moment // 1000)
