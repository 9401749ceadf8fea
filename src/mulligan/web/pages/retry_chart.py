"""The charts of retries: success by attempt, and the trend. Geometry only."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from mulligan.records.statistics import LAST_ATTEMPT
from mulligan.web.pages.retry_figures import Attempts, Bucket, CodeFigures
from mulligan.web.pages.service_chart import nice_top
from mulligan.web.pages.words import number

WIDE, NARROW = 1120, 358
# Of the trend.
TOP, BASE, LEFT = 18.0, 118.0, 38.0
# Of the small bars in a row.
SPARK_ATTEMPTS = tuple(range(2, 8))
SPARK_HEIGHT = 24.0


class AttemptBar(NamedTuple):
    """`ended` and `succeeded` are widths."""

    y: float
    label: str
    ended: float
    succeeded: float
    attempts: Attempts


def attempt_bars(later: Sequence[Attempts], width: float, row: float) -> list[AttemptBar]:
    """One bar for each attempt after the first. The longest is as wide as there is room."""
    most = max((each.ended for each in later), default=1)
    return [
        AttemptBar(
            round(index * row, 1),
            f"Attempt {each.attempt}" if each.attempt < LAST_ATTEMPT else f"Attempt {each.attempt} and later",
            round(each.ended / most * width, 1),
            round(each.succeeded / most * width, 1),
            each,
        )
        for index, each in enumerate(later)
    ]


class TrendBar(NamedTuple):
    """A bar from `x`, as wide as `width`: heights of the recovered part and of the rest above it."""

    x: float
    width: float
    low: float
    low_height: float
    high: float
    high_height: float
    title: str


class Trend(NamedTuple):
    width: int
    bars: list[TrendBar]
    grid: list[tuple[float, str]]
    times: list[tuple[float, str]]


def draw_trend(buckets: Sequence[Bucket], width: int, *, is_daily: bool) -> Trend:
    top = nice_top(max((each.recovered + each.gave_up for each in buckets), default=0))
    step = (width - LEFT) / max(1, len(buckets))

    def height(value: float) -> float:
        return round(value / top * (BASE - TOP), 1)

    bars = []
    for index, each in enumerate(buckets):
        low, high = height(each.recovered), height(each.gave_up)
        moment = _name(each.at, is_daily=is_daily)
        title = f"{moment}: {number(each.recovered)} recovered, {number(each.gave_up)} failed for good"
        x, wide = round(LEFT + index * step + step * 0.12, 1), round(step * 0.76, 1)
        bars.append(TrendBar(x, wide, BASE - low, low, round(BASE - low - high, 1), high, title))
    every = max(1, len(buckets) // (4 if width < 600 else 8))
    times = [
        (round(LEFT + (index + 0.5) * step, 1), _name(each.at, is_daily=is_daily))
        for index, each in enumerate(buckets)
        if index % every == every // 2
    ]
    return Trend(width, bars, [(round(BASE - height(value), 1), f"{value:g}") for value in (0, top / 2, top)], times)


def _name(at: datetime, *, is_daily: bool) -> str:
    return f"{at:%-d %b}" if is_daily else f"{at:%H:%M}"


class SparkBar(NamedTuple):
    x: int
    y: float
    height: float
    attempt: int
    part: float


def spark(code: CodeFigures) -> list[SparkBar]:
    """Which part of its jobs each attempt recovered."""
    found = []
    for index, attempt in enumerate(SPARK_ATTEMPTS):
        part = code.wins[attempt] / code.over if code.over else 0.0
        height = round(max(1.0, part * (SPARK_HEIGHT - 1)), 1)
        found.append(SparkBar(index * 15, round(SPARK_HEIGHT - height, 1), height, attempt, part))
    return found
