"""The chart of a service: attempts a minute, the failed ones among them, and when it was down. Geometry only: it is
drawn by attributes and coloured by class."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil, log10
from typing import NamedTuple

import msgspec

from mulligan import lifecycle
from mulligan.records.event import Event
from mulligan.records.statistics import FAILED, IN_VAIN, RETRIED, SUCCEEDED, Statistic

# In the units of the drawing.
TOP, BASE, HEIGHT, LEFT = 28.0, 138.0, 172, 38.0
WIDE, NARROW = 1120, 358
# Seconds between two labels of the time axis.
STEPS = (300, 600, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800)
# A bucket that has just begun says little.
LEAST_OF_BUCKET = 0.25
MOST_PROBES = 60

Place = Callable[[datetime], float]


class Point(NamedTuple):
    """A minute, hour or day: attempts that ended, and those of them that did not succeed, per minute."""

    at: datetime
    ended: float
    failed: float


class Band(NamedTuple):
    """`sort` is `open` or `recovering`. `end` is None while it lasts."""

    sort: str
    start: datetime
    end: datetime | None


class Probe(NamedTuple):
    at: datetime
    is_ok: bool


class Course(NamedTuple):
    """What the chart shows, from `since` to `until`. `step` is the length of a bucket."""

    since: datetime
    until: datetime
    step: timedelta
    points: tuple[Point, ...]
    bands: tuple[Band, ...]
    probes: tuple[Probe, ...]

    @property
    def highest(self) -> float:
        return max((point.ended for point in self.points), default=0.0)


def to_course(
    rows: Iterable[Statistic],
    events: Sequence[Event],
    *,
    since: datetime,
    until: datetime,
    step: timedelta,
    counted_until: datetime | None = None,
) -> Course:
    """`events` are those of the service, the newest first, as far as they are known. Statistics that are behind the log
    end at `counted_until`."""
    return Course(
        since=since,
        until=until,
        step=step,
        points=tuple(_points(rows, since, counted_until or until, step)),
        bands=tuple(_bands(list(reversed(events)), since)),
        probes=tuple(probe for event in reversed(events) if (probe := _probe(event)) and probe.at >= since),
    )


def _points(rows: Iterable[Statistic], since: datetime, until: datetime, step: timedelta) -> Iterable[Point]:
    ended: dict[datetime, int] = {}
    failed: dict[datetime, int] = {}
    for row in rows:
        if row.outcome == SUCCEEDED or row.outcome in IN_VAIN:
            ended[row.at] = ended.get(row.at, 0) + row.number
        if row.outcome in (RETRIED, FAILED, "parked"):
            failed[row.at] = failed.get(row.at, 0) + row.number
    at = since - timedelta(seconds=since.timestamp() % step.total_seconds())
    while at < until:
        length = min(step, until - at)
        if length >= step * LEAST_OF_BUCKET:
            minutes = length.total_seconds() / 60
            yield Point(at, ended.get(at, 0) / minutes, failed.get(at, 0) / minutes)
        at += step


def _probe(event: Event) -> Probe | None:
    if event.type == lifecycle.SERVICE_OPENED and event.data.get("because") == "probe":
        return Probe(event.at, is_ok=False)
    return Probe(event.at, is_ok=True) if event.type == lifecycle.SERVICE_CLOSED else None


def _bands(events: Sequence[Event], since: datetime) -> Iterable[Band]:
    """When it was down, and when its pace was limited. Events come in their order."""
    current: tuple[str, datetime] | None = None
    for event in events:
        sort = _sort_after(event, current[0] if current else None)
        if current is not None and sort != current[0]:
            if event.at > since:
                yield Band(current[0], max(current[1], since), event.at)
            current = None
        if sort is not None and current is None:
            current = sort, event.at
    if current is not None:
        yield Band(current[0], max(current[1], since), None)


def _sort_after(event: Event, before: str | None) -> str | None:
    match event.type:
        case lifecycle.SERVICE_OPENED:
            return "open"
        case lifecycle.SERVICE_CLOSED:
            return "recovering"
        case lifecycle.SERVICE_PACED:
            return None if event.data.get("how") == "lifted" else "recovering"
        case lifecycle.SERVICE_FORCED:
            to = event.data.get("to")
            # Back to automatic, an open service is probed first.
            return "open" if to == "open" or (to == "auto" and before == "open") else None
    return before


def to_data(course: Course) -> str:
    """The course as JSON, for a script that draws it again to zoom in. Times are in seconds."""
    end = course.until.timestamp()
    bands = [
        (band.sort, band.start.timestamp(), end if band.end is None else band.end.timestamp()) for band in course.bands
    ]
    middle = course.step.total_seconds() / 2
    data = {
        "times": [round(point.at.timestamp() + middle) for point in course.points],
        "ended": [round(point.ended, 3) for point in course.points],
        "failed": [round(point.failed, 3) for point in course.points],
        "bands": [(sort, round(start), round(finish)) for sort, start, finish in bands],
    }
    return msgspec.json.encode(data).decode()


# Geometry


class Rect(NamedTuple):
    sort: str
    x: float
    width: float


class Mark(NamedTuple):
    x: float
    is_ok: bool


class Label(NamedTuple):
    at: float
    text: str


class Drawing(NamedTuple):
    """`line` and `area` are paths. `grid` has the heights of the lines, `times` the places of the time labels."""

    width: int
    height: int
    line: str
    area: str
    bands: tuple[Rect, ...]
    probes: tuple[Mark, ...]
    grid: tuple[Label, ...]
    times: tuple[Label, ...]


def draw(course: Course, width: int) -> Drawing:
    top = nice_top(course.highest)
    seconds = (course.until - course.since).total_seconds()

    def x(moment: datetime) -> float:
        part = (moment - course.since).total_seconds() / seconds
        return round(LEFT + min(1.0, max(0.0, part)) * (width - LEFT), 1)

    def y(value: float) -> float:
        return round(BASE - value / top * (BASE - TOP), 1)

    middle = course.step / 2
    spots = [(x(point.at + middle), y(point.ended), y(point.failed)) for point in course.points]
    return Drawing(
        width=width,
        height=HEIGHT,
        line=_path((left, high) for left, high, _ in spots),
        area=_area([(left, low) for left, _, low in spots]) if any(point.failed for point in course.points) else "",
        bands=tuple(_rect(band, course, x) for band in course.bands),
        probes=tuple(_thin_out([Mark(x(probe.at), probe.is_ok) for probe in course.probes], width)),
        grid=tuple(Label(y(value), f"{value:g}") for value in (0, top / 2, top)),
        times=tuple(_times(course, x, 4 if width < 600 else 9)),
    )


def nice_top(highest: float) -> float:
    """The end of the axis: a round number above all values."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** (ceil(log10(highest)) - 1)
    return float(next(factor * power for factor in (1, 2, 3, 4, 6, 8, 10) if highest <= factor * power * 1.0001))


def _path(spots: Iterable[tuple[float, float]]) -> str:
    return "".join(f"{'L' if index else 'M'}{x:g} {y:g}" for index, (x, y) in enumerate(spots))


def _area(spots: Sequence[tuple[float, float]]) -> str:
    return f"M{spots[0][0]:g} {BASE:g}{_path(spots).replace('M', 'L', 1)}L{spots[-1][0]:g} {BASE:g}Z"


def _rect(band: Band, course: Course, x: Place) -> Rect:
    left, right = x(band.start), x(band.end or course.until)
    return Rect(band.sort, left, max(round(right - left, 1), 2.0))


def _thin_out(marks: Sequence[Mark], width: int) -> Iterable[Mark]:
    """Signs that would lie on each other are left out; a success is always shown."""
    last = -100.0
    for mark in marks[-MOST_PROBES:]:
        if mark.x - last >= (10 if width > 600 else 9) or mark.is_ok:
            last = mark.x
            yield mark


def _times(course: Course, x: Place, most: int) -> Iterable[Label]:
    seconds = (course.until - course.since).total_seconds()
    step = next((each for each in STEPS if seconds / each <= most), STEPS[-1])
    first = ceil(course.since.timestamp() / step) * step
    for number in range(int(seconds / step) + 1):
        moment = datetime.fromtimestamp(first + number * step, UTC)
        place = x(moment)
        if moment < course.until and place >= LEFT + 10:
            yield Label(place, f"{moment:%-d %b}" if step >= 86_400 else f"{moment:%H:%M}")
