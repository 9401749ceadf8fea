"""Retry effectiveness: do retries help, what do they cost, and what should change?"""

from datetime import datetime, timedelta
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from mulligan.records.key import Scope
from mulligan.records.statistics import SPANS, Statistics
from mulligan.values.check import LONGEST_STRING
from mulligan.web.pages import retry_chart, retry_words
from mulligan.web.pages.page import PageCall, Pages, View
from mulligan.web.pages.retry_chart import SparkBar
from mulligan.web.pages.retry_figures import CodeFigures, Figures, to_figures
from mulligan.web.pages.retry_words import Advice

pages = Pages("Retries")

MOST_ROWS = 50
MOST_ADVICE = 5
ATTEMPT_ROW, NARROW_ROW = 34.0, 50.0
ATTEMPT_WIDTH = 740.0


class Range(NamedTuple):
    name: str
    length: timedelta
    span: str
    words: str


RANGES = {
    each.name: each
    for each in (
        Range("24h", timedelta(days=1), "hour", "24 hours"),
        Range("7d", timedelta(days=7), "day", "7 days"),
        Range("30d", timedelta(days=30), "day", "30 days"),
    )
}


class RetriesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    range: Literal["24h", "7d", "30d"] = "24h"
    kind: Annotated[str, Meta(max_length=LONGEST_STRING)] | None = None


class Row(NamedTuple):
    code: CodeFigures
    advice: Advice
    spark: list[SparkBar]


@pages.page("/retries", scope=Scope.JOBS_READ)
def retries(call: PageCall, query: RetriesQuery) -> View:
    shown, kind = RANGES[query.range], query.kind or None
    since = call.now - shown.length
    found: Statistics = call.console.statistics(span=shown.span, since=since, until=call.now, kind=kind)
    figures = to_figures(found.rows, _moments(since, call.now, SPANS[shown.span]))
    rows = [Row(code, retry_words.advise(code), retry_chart.spark(code)) for code in figures.codes]
    is_daily = shown.span == "day"
    return View(
        "retries.html",
        says=retry_words.open_retries(figures, shown.words, is_late=retry_words.is_late(found)),
        figures=figures,
        rows=rows[:MOST_ROWS],
        rows_left=len(rows[MOST_ROWS:]),
        advice=[row for row in rows if row.advice.is_change][:MOST_ADVICE],
        bars=retry_chart.attempt_bars(figures.later, ATTEMPT_WIDTH, ATTEMPT_ROW),
        narrow_bars=retry_chart.attempt_bars(figures.later, retry_chart.NARROW, NARROW_ROW),
        trends={
            "wide": retry_chart.draw_trend(figures.trend, retry_chart.WIDE, is_daily=is_daily),
            "narrow": retry_chart.draw_trend(figures.trend, retry_chart.NARROW, is_daily=is_daily),
        },
        has_trend=_has_trend(figures),
        caveats=retry_words.caveats(found),
        ratio_words=retry_words.ratio_words,
        shown=shown,
        ranges=list(RANGES),
        kind=kind,
        link=lambda **changes: _address(query, **changes),
    )


def _moments(since: datetime, until: datetime, span: int) -> list[datetime]:
    """The hours or days from `since` to `until`."""
    first = since - timedelta(seconds=since.timestamp() % span)
    number = int((until - first).total_seconds() // span) + 1
    return [first + timedelta(seconds=span * index) for index in range(number)]


def _has_trend(figures: Figures) -> bool:
    return any(bucket.recovered or bucket.gave_up for bucket in figures.trend)


def _address(query: RetriesQuery, **changes: str | None) -> str:
    values = {"range": query.range, "kind": query.kind} | changes
    given = {name: value for name, value in values.items() if value}
    return f"/retries?{urlencode(given)}"
