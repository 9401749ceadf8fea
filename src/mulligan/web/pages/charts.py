"""The geometry of charts: paths and positions of SVG. Templates draw them; colours come from the stylesheet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import sqrt
from typing import NamedTuple

from mulligan.records.failure_group import FailureCount
from mulligan.records.statistics import FailurePoint
from mulligan.web.pages.words import plural

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
# The widths of charts on a desk and on a phone.
WIDE, NARROW = 1120.0, 358.0
# The least height of what is not zero.
VISIBLE = 2.0


class Tick(NamedTuple):
    """A label on the axis of time. `anchor` is the class of its alignment."""

    x: float
    label: str
    anchor: str = "mid"


class Flag(NamedTuple):
    """A name at a moment, such as a version. Its label is left of the line where there is no room on the right."""

    x: float
    name: str
    row: int = 0
    is_left: bool = False


class Stretch(NamedTuple):
    """A time with a beginning and a width, such as that of an open service."""

    x: float
    width: float
    name: str


class Spot(NamedTuple):
    """The place of a bar, and what it says on hover."""

    x: float
    width: float
    label: str


def floor_time(moment: datetime, step: timedelta) -> datetime:
    """The beginning of the step that a moment belongs to. Steps begin at midnight, UTC."""
    return moment - timedelta(seconds=moment.timestamp() % step.total_seconds())


@dataclass(frozen=True, slots=True)
class Axis:
    """A time of so many steps, drawn in a width."""

    since: datetime
    step: timedelta
    steps: int
    width: float

    @property
    def bar(self) -> float:
        return self.width / self.steps

    @property
    def until(self) -> datetime:
        return self.since + self.steps * self.step

    def x(self, moment: datetime) -> float:
        return round((moment - self.since) / self.step * self.bar, 1)

    def within(self, moment: datetime) -> bool:
        return self.since <= moment <= self.until

    def ticks(self, every: timedelta, room: float = 30.0) -> list[Tick]:
        """Labels that are not cut off at the edges. Days have dates, shorter times a time of day."""
        form = "%-d %b" if every >= DAY else "%H:%M"
        first = floor_time(self.since, every) + every
        moments = (first + number * every for number in range(int((self.until - first) / every) + 1))
        return [
            Tick(x, f"{moment.astimezone(UTC):{form}}")
            for moment in moments
            if room / 2 <= (x := self.x(moment)) <= self.width - room / 2
        ]


# The ribbon: what failed for good stands above the line, what recovered hangs below it.

ABOVE, BELOW = 60.0, 48.0
LINE_ABOVE, LINE_BELOW = 90.0, 95.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ribbon:
    axis: Axis
    failed: str
    recovered: str
    ticks: Sequence[Tick]
    flags: Sequence[Flag] = ()
    stretches: Sequence[Stretch] = ()
    spots: Sequence[Spot] = ()


def ribbon(
    axis: Axis,
    points: Iterable[FailurePoint],
    *,
    every: timedelta,
    versions: Mapping[str, datetime] | None = None,
    outages: Sequence[tuple[str, datetime]] = (),
) -> Ribbon:
    """Both halves have one scale of square roots: a single failure stays visible beside a thousand."""
    merged = _merge(axis, points)
    highest = max((point.failed for point in merged.values()), default=0)
    deepest = max((point.recovered for point in merged.values()), default=0)
    scale = min(ABOVE / sqrt(highest or 1), BELOW / sqrt(deepest or 1))
    bar = max(axis.bar - 1.2, 0.8)
    above = [_bar(axis.x(at) + 0.5, LINE_ABOVE, bar, -_height(point.failed, scale)) for at, point in merged.items()]
    below = [
        _bar(axis.x(at) + 1.0, LINE_BELOW, bar - 1, _height(point.recovered, scale)) + "z"
        for at, point in merged.items()
        if point.recovered
    ]
    return Ribbon(
        axis=axis,
        failed="".join(filter(None, above)),
        recovered="".join(below),
        ticks=axis.ticks(every),
        flags=flags(axis, versions or {}),
        stretches=[_stretch(axis, name, since) for name, since in outages],
        spots=[_spot(axis, at, point) for at, point in merged.items()],
    )


def _merge(axis: Axis, points: Iterable[FailurePoint]) -> dict[datetime, FailurePoint]:
    """The points by the steps of the axis, which may be longer than theirs."""
    merged: dict[datetime, FailurePoint] = {}
    for point in points:
        at = max(floor_time(point.at, axis.step), axis.since)
        if (point.failed or point.recovered) and axis.within(at):
            known = merged.get(at, FailurePoint(at))
            failed, recovered = known.failed + point.failed, known.recovered + point.recovered
            merged[at] = FailurePoint(at, known.retried + point.retried, failed, recovered)
    return merged


def _height(number: int, scale: float) -> float:
    return max(VISIBLE, sqrt(number) * scale) if number else 0.0


def _bar(x: float, y: float, width: float, height: float) -> str:
    """A path of a bar that stands on, or hangs from, `y`."""
    return f"M{x:.1f} {y:g}v{height:.1f}h{width:.1f}v{-height:.1f}" if height else ""


def _stretch(axis: Axis, name: str, since: datetime) -> Stretch:
    x = axis.x(max(since, axis.since))
    return Stretch(min(x, axis.width - 3), max(axis.width - x, 3.0), name)


def _spot(axis: Axis, at: datetime, point: FailurePoint) -> Spot:
    end = at + axis.step
    form = "%-d %b, %H:%M" if axis.step >= HOUR else "%H:%M"
    numbers = f"{plural(point.failed, 'job')} failed for good, {point.recovered:,} recovered"
    return Spot(axis.x(at), round(axis.bar, 1), f"{at:{form}} to {end:%H:%M} UTC: {numbers}")


FLAG_ROWS, LETTER = 2, 7.0


def flags(axis: Axis, versions: Mapping[str, datetime]) -> list[Flag]:
    """The versions that began within the axis, the newest first. Those whose labels find no room are left out."""
    found: list[Flag] = []
    for moment, name in sorted(((moment, name) for name, moment in versions.items()), reverse=True):
        if axis.within(moment):
            x = axis.x(moment)
            flag = Flag(x, name, is_left=x > axis.width - _room(name))
            row = next((row for row in range(FLAG_ROWS) if not _is_crossed(flag._replace(row=row), found)), None)
            if row is not None:
                found.append(flag._replace(row=row))
    return found


def _room(name: str) -> float:
    return LETTER * (len(name) + 2)


def _is_crossed(flag: Flag, others: Iterable[Flag]) -> bool:
    """Whether its label would lie over another one of its row."""
    begin, end = _span(flag)
    return any(each.row == flag.row and begin < _span(each)[1] and _span(each)[0] < end for each in others)


def _span(flag: Flag) -> tuple[float, float]:
    room = _room(flag.name)
    return (flag.x - room, flag.x) if flag.is_left else (flag.x, flag.x + room)


# The small chart of a row

SPARK_HOURS, SPARK_WIDTH, SPARK_HEIGHT = 24, 120.0, 28.0


def spark_scale(groups: Iterable[Sequence[FailureCount]], now: datetime) -> float:
    """One scale for all rows of a list, so that heights compare across rows."""
    since = floor_time(now, HOUR) - (SPARK_HOURS - 1) * HOUR
    highest = max((count.failures for hours in groups for count in hours if count.at >= since), default=0)
    return (SPARK_HEIGHT - 3) / sqrt(highest or 1)


def spark(hours: Sequence[FailureCount], now: datetime, scale: float) -> str:
    """The path of the failed attempts in each of the last 24 hours."""
    axis = Axis(floor_time(now, HOUR) - (SPARK_HOURS - 1) * HOUR, HOUR, SPARK_HOURS, SPARK_WIDTH)
    return "".join(
        _bar(axis.x(count.at), SPARK_HEIGHT - 1, axis.bar - 1.2, -_height(count.failures, scale))
        for count in hours
        if axis.since <= count.at < axis.until
    )


# The chart of one group

BASE, TALL = 74.0, 46.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Failed attempts: `retried` ones above those that `failed` for good."""

    axis: Axis
    failed: str
    retried: str
    ticks: Sequence[Tick]
    flags: Sequence[Flag]
    spots: Sequence[Spot]
    highest: int


def columns(
    axis: Axis, counts: Iterable[FailureCount], *, every: timedelta, versions: Mapping[str, datetime]
) -> Columns:
    found = [count for count in counts if axis.since <= count.at < axis.until and count.failures]
    highest = max((count.failures for count in found), default=0)
    scale, width = TALL / (highest or 1), axis.bar * 0.72
    failed, retried, spots = [], [], []
    for count in found:
        x, solid = axis.x(count.at), count.failed * scale
        failed.append(_bar(x, BASE, width, -solid))
        retried.append(_bar(x, round(BASE - solid, 1), width, -(count.failures - count.failed) * scale))
        label = f"{count.at:%-d %b, %H:%M} UTC: {plural(count.failures, 'failed attempt')}, {count.failed:,} for good"
        spots.append(Spot(x, round(axis.bar, 1), label))
    return Columns(
        axis=axis,
        failed="".join(failed),
        retried="".join(retried),
        ticks=axis.ticks(every),
        flags=flags(axis, versions),
        spots=spots,
        highest=highest,
    )
