"""The chart of the life of a job: numbers for SVG attributes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from mulligan.web.pages.life import Span

SECOND = timedelta(seconds=1)
# Distances between ticks, in seconds.
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
         604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000)  # fmt: skip
DAY = 86_400


class LifeTick(NamedTuple):
    x: float
    label: str


class LifeBar(NamedTuple):
    x: float
    width: float
    sort: str
    tone: str
    attempt: int


@dataclass(frozen=True, slots=True)
class LifeChart:
    """`now` is where the present is, None for a job that is over; `next` is when it goes on. `labels` number the runs,
    as far as there is room."""

    width: int
    bars: list[LifeBar]
    labels: list[LifeTick]
    ticks: list[LifeTick]
    now: float | None
    next: LifeTick | None
    held: LifeTick | None


def draw_life(
    spans: Sequence[Span], *, width: int, now: datetime | None, until: datetime | None, held: str = ""
) -> LifeChart | None:
    """None without anything to draw. `now` is None if the job is over; `until` is when it goes on; `held` is the text
    above the time in which it is held."""
    if not spans:
        return None
    start, end = spans[0].start, spans[-1].end
    if until is not None and until - end > 2 * max(end - start, SECOND):
        # So far ahead that nothing would be left of the life itself.
        until = None
    end = max(end, until or end)
    # Some room at both ends, for numbers and for the present.
    room = max((end - start) * 0.03, SECOND)
    scale = _Scale(start - room, end + room * (1.6 if until else 1), width)
    bars = [_bar(span, scale) for span in spans]
    return LifeChart(
        width,
        bars,
        _labels(bars),
        scale.ticks(8 if width > 600 else 3),
        None if now is None else scale.x(now),
        None if until is None else LifeTick(scale.x(until), f"{until.astimezone(UTC):%H:%M}"),
        _held(bars, held),
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    start: datetime
    end: datetime
    width: int

    def x(self, moment: datetime) -> float:
        return round((moment - self.start) / (self.end - self.start) * self.width, 1)

    def ticks(self, most: int) -> list[LifeTick]:
        seconds = (self.end - self.start).total_seconds()
        step = next((each for each in STEPS if seconds / each <= most), STEPS[-1])
        first = -(-self.start.timestamp() // step) * step
        moments = [datetime.fromtimestamp(first + number * step, UTC) for number in range(int(seconds / step) + 1)]
        ticks = [LifeTick(self.x(moment), _time_label(moment, step)) for moment in moments if moment < self.end]
        # A label is centred below its tick, and must not be cut off.
        return [tick for tick in ticks if 18 <= tick.x <= self.width - 18]


def _time_label(moment: datetime, step: int) -> str:
    if step >= DAY:
        return f"{moment:%-d %b}"
    return f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}"


def _bar(span: Span, scale: _Scale) -> LifeBar:
    x = scale.x(span.start)
    # A run that takes no time is seen too.
    least = 3.0 if span.sort == "run" else 0.0
    return LifeBar(x, max(round(scale.x(span.end) - x, 1), least), span.sort, span.tone, span.attempt)


def _labels(bars: Sequence[LifeBar]) -> list[LifeTick]:
    labels: list[LifeTick] = []
    for bar in bars:
        middle = round(bar.x + bar.width / 2, 1)
        if bar.sort == "run" and (not labels or middle - labels[-1].x >= 14):
            labels.append(LifeTick(middle, str(bar.attempt)))
    return labels


def _held(bars: Sequence[LifeBar], text: str) -> LifeTick | None:
    """The text stands above the held time if it fits there."""
    last = bars[-1]
    if last.sort != "held" or not text or last.width < 6.5 * len(text):
        return None
    return LifeTick(round(last.x + last.width / 2, 1), text)
