"""What the statistics say about retries: whether they help, when, and what they cost. Pure: rows in, figures out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mulligan.records.statistics import BUCKETS, FAILED, IN_VAIN, RECOVERED, RETRIED, SUCCEEDED, Statistic, quantile

MOST = 0.95


@dataclass(slots=True)
class CodeFigures:
    """The retries of one kind after one code.

    `recovered` jobs succeeded after it, `gave_up` failed with it after at least one retry. `wins` counts recovered jobs
    and `vain` failed retries, by attempt; `vain_seconds` is the time of these.
    """

    kind: str
    code: str
    retried: int = 0
    gave_up: int = 0
    cost: int = 0
    wins: Counter[int] = field(default_factory=Counter)
    vain: Counter[int] = field(default_factory=Counter)
    vain_seconds: dict[int, float] = field(default_factory=dict)
    recovery: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    @property
    def recovered(self) -> int:
        return self.wins.total()

    @property
    def over(self) -> int:
        return self.recovered + self.gave_up

    @property
    def ratio(self) -> float | None:
        """The fraction of its jobs that recovered; None before one is over."""
        return self.recovered / self.over if self.over else None

    @property
    def in_vain(self) -> int:
        return self.vain.total()

    @property
    def seconds(self) -> float:
        return sum(self.vain_seconds.values())

    @property
    def median(self) -> timedelta | None:
        return quantile(self.recovery, 0.5)


@dataclass(slots=True)
class Bucket:
    """Jobs that were over in one hour or day after at least one retry."""

    at: datetime
    recovered: int = 0
    gave_up: int = 0


@dataclass(slots=True)
class Attempts:
    """How many attempts of one number ended, and how many of them succeeded."""

    attempt: int
    ended: int = 0
    succeeded: int = 0

    @property
    def ratio(self) -> float:
        return self.succeeded / self.ended if self.ended else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """`not_retried` jobs failed at their first attempt and were not tried again. `cost` is that of all retries."""

    attempts: tuple[Attempts, ...]
    codes: tuple[CodeFigures, ...]
    trend: tuple[Bucket, ...]
    not_retried: int
    recovery: tuple[int, ...]
    cost: int

    @property
    def first(self) -> Attempts:
        return next((each for each in self.attempts if each.attempt == 1), Attempts(1))

    @property
    def later(self) -> tuple[Attempts, ...]:
        return tuple(each for each in self.attempts if each.attempt > 1)

    @property
    def retries(self) -> int:
        return sum(each.ended for each in self.later)

    @property
    def recovered(self) -> int:
        return sum(code.recovered for code in self.codes)

    @property
    def gave_up(self) -> int:
        return sum(code.gave_up for code in self.codes)

    @property
    def over(self) -> int:
        return self.recovered + self.gave_up

    @property
    def ratio(self) -> float | None:
        return self.recovered / self.over if self.over else None

    @property
    def in_vain(self) -> int:
        return sum(code.in_vain for code in self.codes)

    @property
    def seconds(self) -> float:
        return sum(code.seconds for code in self.codes)

    @property
    def median(self) -> timedelta | None:
        return quantile(self.recovery, 0.5)

    @property
    def most_within(self) -> timedelta | None:
        """The time within which 95 % recovered."""
        return quantile(self.recovery, MOST)


def to_figures(rows: Iterable[Statistic], moments: Sequence[datetime]) -> Figures:
    """`moments` are the hours or days of the trend. Rows of the rest have neither kind nor code, and are left out."""
    codes: dict[tuple[str, str], CodeFigures] = {}
    attempts: dict[int, Attempts] = {}
    trend = {at: Bucket(at) for at in moments}
    not_retried = cost = 0
    for row in rows:
        if row.is_other:
            continue
        if row.outcome == SUCCEEDED or row.outcome in IN_VAIN:
            _add_attempt(attempts.setdefault(row.attempt, Attempts(row.attempt)), row)
            cost += row.cost if row.attempt > 1 else 0
        if row.outcome == FAILED and row.attempt <= 1:
            not_retried += row.number
        if row.code:
            key = row.kind, row.code
            _add_code(codes[key] if key in codes else codes.setdefault(key, CodeFigures(*key)), row)
        _add_trend(trend.get(row.at), row)
    return Figures(
        attempts=tuple(attempts[number] for number in sorted(attempts) if number),
        codes=tuple(sorted((each for each in codes.values() if _was_retried(each)), key=_order)),
        trend=tuple(trend.values()),
        not_retried=not_retried,
        recovery=tuple(map(sum, zip(*(each.recovery for each in codes.values()), strict=True))) or (0,) * BUCKETS,
        cost=cost,
    )


def _was_retried(code: CodeFigures) -> bool:
    return bool(code.retried or code.over)


def _order(code: CodeFigures) -> tuple[float, int, str, str]:
    """Those with most time in vain come first."""
    return -code.seconds, -code.in_vain, code.kind, code.code


def _add_attempt(known: Attempts, row: Statistic) -> None:
    known.ended += row.number
    known.succeeded += row.number if row.outcome == SUCCEEDED else 0


def _add_code(known: CodeFigures, row: Statistic) -> None:
    if row.outcome == RECOVERED:
        known.wins[row.attempt] += row.number
        known.recovery = [one + other for one, other in zip(known.recovery, row.histogram, strict=True)]
        return
    known.retried += row.number if row.outcome == RETRIED else 0
    known.gave_up += row.number if row.outcome == FAILED and row.attempt > 1 else 0
    if row.outcome in IN_VAIN and row.attempt > 1:
        known.vain[row.attempt] += row.number
        known.vain_seconds[row.attempt] = known.vain_seconds.get(row.attempt, 0.0) + row.seconds
        known.cost += row.cost


def _add_trend(bucket: Bucket | None, row: Statistic) -> None:
    if bucket is None:
        return
    if row.outcome == RECOVERED:
        bucket.recovered += row.number
    elif row.outcome == FAILED and row.attempt > 1:
        bucket.gave_up += row.number
