"""Statistics: what happened in each minute, hour and day, by kind, owner, service, outcome, code and attempt.

Each count has a histogram: of the time from ready to started for `started`, of the time from the first failure to the
success for `recovered`, from the first failure to the last for `unrecovered`, and of the duration of the attempt for
the others.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

# The upper bounds of the histograms in seconds. A last bucket holds what is longer.
BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400)
BUCKETS = len(BOUNDS) + 1

MINUTE, HOUR, DAY = 60, 3_600, 86_400
SPANS = {"minute": MINUTE, "hour": HOUR, "day": DAY}
# A minute, hour or day has at most this many rows. What finds no room is counted by outcome alone.
MOST_ROWS = 1_000
# Later attempts are counted as this one.
LAST_ATTEMPT = 10

ENQUEUED, STARTED, SUCCEEDED, RETRIED, FAILED = "enqueued", "started", "succeeded", "retried", "failed"
# Of jobs that failed before: they succeeded, or failed for good.
FOLLOWED = RECOVERED, UNRECOVERED = "recovered", "unrecovered"
OUTCOMES = (
    *(ENQUEUED, STARTED, SUCCEEDED, RECOVERED, RETRIED, FAILED, UNRECOVERED),
    *("snoozed", "parked", "released", "cancelled"),
)
# An attempt that ended so was in vain.
IN_VAIN = (RETRIED, FAILED, "parked", "released")
# Room for the rows of the rest: one for each outcome.
MOST_OWN_ROWS = MOST_ROWS - len(OUTCOMES)


class Key(NamedTuple):
    """What a row counts. With `is_other`, everything of this outcome that found no room."""

    span: int
    at: int
    kind: str
    owner: str
    service: str
    outcome: str
    code: str
    attempt: int
    is_other: bool = False


@dataclass(slots=True)
class Tally:
    number: int
    seconds: float
    cost: int
    histogram: list[int]


def new_tally() -> Tally:
    return Tally(0, 0.0, 0, [0] * BUCKETS)


def add_to(tally: Tally, seconds: float | None, cost: int) -> None:
    """Count one event, in place."""
    tally.number += 1
    tally.cost += cost
    if seconds is not None:
        tally.seconds += seconds
        tally.histogram[bisect_left(BOUNDS, seconds)] += 1


def add_tally(tally: Tally, other: Tally) -> None:
    tally.number += other.number
    tally.seconds += other.seconds
    tally.cost += other.cost
    for index, number in enumerate(other.histogram):
        tally.histogram[index] += number


def in_span(key: Key, span: int) -> Key:
    """The key of the hour or day that the key of a minute belongs to."""
    return key if key.span == span else key._replace(span=span, at=key.at - key.at % (span * 1_000_000))


def admit(keys: Iterable[Key], known: Mapping[Key, object]) -> dict[Key, Key]:
    """Where each key is counted: in its own row, or in that of the rest if its span is full. Keys come in log order."""
    rows: dict[tuple[int, int], set[Key]] = {}
    for key in known:
        if not key.is_other:
            rows.setdefault((key.span, key.at), set()).add(key)
    found = {}
    for key in keys:
        own = rows.setdefault((key.span, key.at), set())
        if key in own or len(own) < MOST_OWN_ROWS:
            own.add(key)
            found[key] = key
        else:
            found[key] = Key(key.span, key.at, "", "", "", key.outcome, "", 0, is_other=True)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """How often something happened in one minute, hour or day. `attempt` 10 stands for 10 and more.

    `histogram` counts by the upper bounds in `Statistics.bounds`; its last number counts what is longer. `is_other`:
    all that found no room among the rows of its span, by outcome only.
    """

    at: datetime
    kind: str
    owner: str
    service: str
    outcome: str
    code: str
    attempt: int
    is_other: bool
    number: int
    seconds: float
    cost: int
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecentCount:
    """How often an outcome came just now, or some time before. `is_retry`: at the second attempt or a later one."""

    kind: str
    outcome: str
    code: str
    is_retry: bool
    is_recent: bool
    number: int


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How many attempts with this number ended, and how many of them succeeded."""

    attempt: int
    ended: int
    succeeded: int


@dataclass(frozen=True, slots=True)
class RetryResult:
    """What the retries of one kind after one code brought: jobs that `recovered`, and jobs that failed for good."""

    kind: str
    code: str
    retried: int
    recovered: int
    unrecovered: int
    in_vain: int
    seconds_in_vain: float
    cost: int

    @property
    def is_vain(self) -> bool:
        """Whether all jobs whose retries are over have failed."""
        return bool(self.retried and self.unrecovered and not self.recovered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Whether retries help, and what they cost.

    `recovered` jobs succeeded after a failure; `median_recovery` is the upper bound of the bucket in which half of them
    had recovered, None without any. `attempts_in_vain` are second and later attempts that did not succeed. `cost` is
    that of all second and later attempts. `never_helped`: kinds and codes with jobs that failed in spite of retries,
    and none that recovered. Jobs whose retries are pending do not count.
    """

    by_attempt: tuple[AttemptResult, ...]
    recovered: int
    median_recovery: timedelta | None
    attempts_in_vain: int
    seconds_in_vain: float
    cost: int
    by_code: tuple[RetryResult, ...]
    never_helped: tuple[RetryResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionStatus:
    """How far the event log was folded into groups and statistics.

    `lag` is the age of the oldest event that was not folded; 0 if all were. `missed_at`: events were deleted before
    they were folded, which was noticed then. While `is_rebuilding`, numbers are too low.
    """

    position: int
    reached_at: datetime | None
    lag: timedelta
    missed_at: datetime | None
    is_rebuilding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of a time, and what they say about retries. `other` counts events that found no row of their own.

    `is_cut`: there are more rows than one answer has, and the oldest are missing.
    """

    span: str
    since: datetime
    until: datetime
    bounds: tuple[float, ...]
    rows: tuple[Statistic, ...]
    is_cut: bool
    other: int
    retries: Retries
    status: ProjectionStatus


@dataclass(frozen=True, slots=True)
class FailurePoint:
    """From `at` on, for one step: attempts that failed and were retried, jobs that failed permanently, and jobs that
    succeeded after a failure."""

    at: datetime
    retried: int = 0
    failed: int = 0
    recovered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureTrend:
    """Failures over time. Steps without any are left out."""

    since: datetime
    until: datetime
    step: timedelta
    points: tuple[FailurePoint, ...]
    status: ProjectionStatus


def judge_retries(rows: Sequence[Statistic]) -> Retries:
    """What the rows say about retries."""
    codes: dict[tuple[str, str], RetryResult] = {}
    attempts: dict[int, AttemptResult] = {}
    recovery = [0] * BUCKETS
    cost = 0
    for row in rows:
        if row.is_other:
            continue
        if row.outcome == RECOVERED:
            recovery = [one + other for one, other in zip(recovery, row.histogram, strict=True)]
        elif row.outcome == SUCCEEDED or row.outcome in IN_VAIN:
            attempts[row.attempt] = _add_attempt(attempts.get(row.attempt), row)
            cost += row.cost if row.attempt > 1 else 0
        if row.code:
            codes[row.kind, row.code] = _add_code(codes.get((row.kind, row.code)), row)
    by_code = sorted(codes.values(), key=lambda result: (-result.retried, result.kind, result.code))
    retried = tuple(result for result in by_code if result.retried or result.recovered)
    return Retries(
        by_attempt=tuple(attempts[number] for number in sorted(attempts)),
        recovered=sum(recovery),
        median_recovery=median(recovery),
        attempts_in_vain=sum(result.in_vain for result in by_code),
        seconds_in_vain=round(sum(result.seconds_in_vain for result in by_code), 6),
        cost=cost,
        by_code=retried,
        never_helped=tuple(result for result in retried if result.is_vain),
    )


def _add_attempt(known: AttemptResult | None, row: Statistic) -> AttemptResult:
    known = known or AttemptResult(row.attempt, 0, 0)
    succeeded = row.number if row.outcome == SUCCEEDED else 0
    return AttemptResult(row.attempt, known.ended + row.number, known.succeeded + succeeded)


def _add_code(known: RetryResult | None, row: Statistic) -> RetryResult:
    known = known or RetryResult(row.kind, row.code, 0, 0, 0, 0, 0.0, 0)
    is_vain = row.outcome in IN_VAIN and row.attempt > 1
    return RetryResult(
        row.kind,
        row.code,
        known.retried + (row.number if row.outcome == RETRIED else 0),
        known.recovered + (row.number if row.outcome == RECOVERED else 0),
        known.unrecovered + (row.number if row.outcome == UNRECOVERED else 0),
        known.in_vain + (row.number if is_vain else 0),
        round(known.seconds_in_vain + (row.seconds if is_vain else 0.0), 6),
        known.cost + (row.cost if is_vain else 0),
    )


def median(histogram: Sequence[int]) -> timedelta | None:
    """The upper bound of the bucket that has the middle; the last bound for what is longer."""
    return quantile(histogram, 0.5)


def quantile(histogram: Sequence[int], part: float) -> timedelta | None:
    """The upper bound of the bucket in which this part of all is reached; the last bound for what is longer."""
    wanted, seen = sum(histogram) * part, 0
    for bound, number in zip((*BOUNDS, BOUNDS[-1]), histogram, strict=True):
        seen += number
        if number and seen >= wanted:
            return timedelta(seconds=bound)
    return None
