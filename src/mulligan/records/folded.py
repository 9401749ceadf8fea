"""What a page of the log adds to the tables of the built-in projections."""

from dataclasses import dataclass, field
from typing import NamedTuple

from mulligan.records.failure_group import GroupRow
from mulligan.records.metric import BreakerChange, TotalKey
from mulligan.records.statistics import Key, Tally


class FailedIn(NamedTuple):
    """Failures of one job in one group: the last code, and when the first and the last was."""

    code: str
    since: int
    last_at: int


class JobEnd(NamedTuple):
    """A job succeeded or failed for good. `earlier` are its failures before that in the same page, by group."""

    at: int
    attempt: int
    kind: str
    service: str
    earlier: dict[str, FailedIn]


@dataclass(slots=True)
class JobChange:
    """`ends_with` is the group of the failure that the job has ended with; `is_reset` if a person retried it."""

    owner: str
    groups: dict[str, FailedIn] = field(default_factory=dict)
    ends_with: str | None = None
    is_reset: bool = False
    success: JobEnd | None = None
    failed: list[JobEnd] = field(default_factory=list)

    def add_failure(self, group: str, code: str, at: int) -> None:
        known = self.groups.get(group)
        self.groups[group] = FailedIn(code, min(known.since, at) if known else at, at)


@dataclass(slots=True)
class Folded:
    groups: dict[tuple[str, str], GroupRow]
    jobs: dict[str, JobChange]
    minutes: dict[Key, Tally]
    totals: dict[TotalKey, Tally]
    breakers: list[BreakerChange]
    reached_at: int
    """The time of the last event of the page; 0 if it is empty."""
