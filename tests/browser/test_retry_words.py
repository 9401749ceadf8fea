"""Retries in figures and words: whether they help, what they cost, and what to change."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan.records.statistics import (
    BOUNDS,
    BUCKETS,
    ProjectionStatus,
    Statistic,
    Statistics,
    judge_retries,
    quantile,
)
from mulligan.web.pages import retry_chart
from mulligan.web.pages.retry_figures import CodeFigures, Figures, to_figures
from mulligan.web.pages.retry_words import advise, caveats, is_late, open_retries, ratio_words
from mulligan.web.pages.sentence import plain
from mulligan.web.pages.words import NOTHING

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def row(outcome: str, number: int, *, attempt: int = 1, code: str = "", **more: Any) -> Statistic:
    # Recovered jobs took up to 30 seconds.
    histogram = [0] * BUCKETS
    histogram[BOUNDS.index(30)] = number
    values = {"kind": "convert", "seconds": 10.0 * number, "cost": 0, "is_other": False, "at": NOW} | more
    return Statistic(
        owner="",
        service="",
        outcome=outcome,
        code=code,
        attempt=attempt,
        number=number,
        histogram=tuple(histogram),
        **values,
    )


def figures(*rows: Statistic) -> Figures:
    return to_figures(rows, [NOW - HOUR, NOW])


HELPED = (
    row("succeeded", 900),
    row("retried", 90, code="GW_5XX"),
    row("failed", 10, code="NOT_PDF"),
    row("succeeded", 70, attempt=2),
    row("recovered", 70, attempt=2, code="GW_5XX"),
    row("retried", 20, attempt=2, code="GW_5XX", cost=40),
    row("succeeded", 15, attempt=3),
    row("recovered", 15, attempt=3, code="GW_5XX"),
    row("failed", 5, attempt=3, code="GW_5XX", cost=10),
)
NEVER = (
    row("retried", 40, code="NO_FUNDS", kind="charge"),
    row("failed", 40, attempt=2, code="NO_FUNDS", kind="charge"),
)


def test_the_figures_are_those_of_the_statistics() -> None:
    found, judged = figures(*HELPED), judge_retries(HELPED)
    assert (found.recovered, found.gave_up, found.ratio, found.not_retried) == (85, 5, 85 / 90, 10)
    assert (found.recovered, found.in_vain, found.seconds) == (
        judged.recovered,
        judged.attempts_in_vain,
        judged.seconds_in_vain,
    )
    assert (found.median, found.cost) == (judged.median_recovery, judged.cost) == (timedelta(seconds=30), 50)
    assert [(each.attempt, each.ended, each.succeeded) for each in found.attempts] == [
        (one.attempt, one.ended, one.succeeded) for one in judged.by_attempt
    ]
    assert [(each.recovered, each.gave_up) for each in found.trend] == [(0, 0), (85, 5)]
    assert (found.retries, found.first.ended) == (110, 1_000)


def test_the_rest_without_a_row_is_left_out() -> None:
    other = row("retried", 1_000, code="", is_other=True)
    assert figures(*HELPED, other) == figures(*HELPED)


@pytest.mark.parametrize(
    ("rows", "title", "lead"),
    [
        ((), "No attempt ended in the last 24 hours.", ""),
        ((row("started", 5),), "No attempt ended in the last 24 hours.", ""),
        (
            (row("succeeded", 1),),
            "No job had to be retried in the last 24 hours.",
            "1 attempt ended.",
        ),
        (
            (row("succeeded", 9), row("failed", 2, code="NOT_PDF")),
            "No job had to be retried in the last 24 hours.",
            "11 attempts ended. 2 jobs failed at the first attempt and were not tried again.",
        ),
        (
            (row("retried", 1, code="GW_5XX"),),
            "1 retry in the last 24 hours, and none of the jobs is over yet.",
            "No retry was in vain.",
        ),
        (
            (row("retried", 3, code="GW_5XX"), row("recovered", 3, attempt=2, code="GW_5XX")),
            "Retries recovered all 3 retried jobs.",
            "No retry was in vain.",
        ),
        (
            HELPED,
            "Retries recovered 94 % of 90 retried jobs.",
            "25 retries were in vain and took 4 min 10 s.",
        ),
        (
            NEVER,
            "Retries recovered none of 40 retried jobs.",
            "40 retries were in vain and took 6 min 40 s. 1 sort of failure is retried though it never helped.",
        ),
    ],
)
def test_the_page_opens_with_whether_retries_help(rows: tuple[Statistic, ...], title: str, lead: str) -> None:
    found = open_retries(figures(*rows), "24 hours")
    assert plain(found.title, NOW).replace("\N{NO-BREAK SPACE}", " ") == title
    assert plain(found.lead, NOW) == lead


def test_statistics_that_are_behind_are_not_taken_for_rest() -> None:
    found = open_retries(figures(), "24 hours", is_late=True)
    assert plain(found.title, NOW) == "The statistics have not come so far yet."


def code(retried: int, *, code: str = "GW_5XX", gave_up: int = 0, **counts: dict[int, int]) -> CodeFigures:
    found = CodeFigures("convert", code, retried=retried, gave_up=gave_up)
    found.wins.update(counts.get("wins", {}))
    found.vain.update(counts.get("vain", {}))
    found.vain_seconds.update({attempt: 60.0 * number for attempt, number in counts.get("vain", {}).items()})
    return found


@pytest.mark.parametrize(
    ("given", "name", "text"),
    [
        (code(0, gave_up=12, vain={2: 12}), "manual", "It is not retried by itself: its retries were manual."),
        (code(4, wins={2: 4}), "few", "Fewer than 10 retries."),
        (
            code(40, code="NO_FUNDS", gave_up=20, vain={2: 40}),
            "final",
            "Retries of NO_FUNDS never helped: 40 attempts, 40 min. Make it final.",
        ),
        (
            code(40, code="UNKNOWN", gave_up=20, vain={2: 40}),
            "classify",
            "Retries of UNKNOWN never helped: 40 attempts, 40 min. Write a rule that says what it is.",
        ),
        (code(30, vain={2: 5}), "open", "Its jobs are still being retried."),
        (
            code(200, wins={2: 100, 3: 20, 4: 1}, gave_up=30, vain={2: 50, 3: 40, 4: 30, 5: 30}),
            "fewer",
            "Later attempts recovered 1 of 121 jobs and 60 attempts, 1 h were in vain. Allow 3 attempts.",
        ),
        (
            code(200, wins={2: 2, 3: 3, 4: 9}, gave_up=30, vain={2: 20, 3: 20, 4: 3}),
            "longer",
            "The second attempt recovered 2 of 14 jobs, later ones more. Wait longer before it.",
        ),
        (code(200, wins={2: 99}, gave_up=1, vain={2: 1}), "keep", "Retries recover 99 %."),
        (code(200, wins={2: 50}, gave_up=50, vain={2: 50}), "keep", "Retries recover 50 %."),
    ],
)
def test_what_to_change_follows_from_the_figures(given: CodeFigures, name: str, text: str) -> None:
    advice = advise(given)
    assert (advice.name, advice.text.replace("\N{NO-BREAK SPACE}", " ")) == (name, text)
    assert advice.is_change == (name in ("final", "classify", "fewer", "longer"))


def test_what_the_figures_leave_out_is_said() -> None:
    status = ProjectionStatus(position=1, reached_at=NOW, lag=timedelta(minutes=5), missed_at=NOW, is_rebuilding=True)
    found = Statistics(
        span="hour",
        since=NOW,
        until=NOW,
        bounds=BOUNDS,
        rows=(),
        is_cut=True,
        other=1_204,
        retries=judge_retries(()),
        status=status,
    )
    assert is_late(found) and len(caveats(found)) == 5
    text = " ".join(caveats(found))
    assert "5 min behind the log" in text and "1,204 events found no room in rows of their own" in text
    calm = ProjectionStatus(position=1, reached_at=NOW, lag=timedelta(), missed_at=None, is_rebuilding=False)
    whole = Statistics(
        span="hour",
        since=NOW,
        until=NOW,
        bounds=BOUNDS,
        rows=(),
        is_cut=False,
        other=0,
        retries=judge_retries(()),
        status=calm,
    )
    assert caveats(whole) == [] and not is_late(whole)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, NOTHING), (0.0, "0 %"), (0.001, "less than 1 %"), (0.5, "50 %"), (0.999, "more than 99 %"), (1, "100 %")],
)
def test_a_ratio_is_not_rounded_to_all_or_nothing(ratio: float | None, text: str) -> None:
    assert ratio_words(ratio).replace("\N{NO-BREAK SPACE}", " ") == text


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    histogram = [0] * BUCKETS
    histogram[BOUNDS.index(1)], histogram[BOUNDS.index(60)] = 90, 10
    assert (quantile(histogram, 0.5), quantile(histogram, 0.95)) == (timedelta(seconds=1), timedelta(minutes=1))
    assert quantile([0] * BUCKETS, 0.5) is None


def test_the_drawings_stay_within_their_frames() -> None:
    found = figures(*HELPED)
    bars = retry_chart.attempt_bars(found.later, 740.0, 34.0)
    assert [(bar.label, bar.ended, bar.succeeded) for bar in bars] == [
        ("Attempt 2", 740.0, 575.6),
        ("Attempt 3", 164.4, 123.3),
    ]
    last = retry_chart.attempt_bars(figures(row("succeeded", 1, attempt=10)).later, 740.0, 34.0)
    assert last[0].label == "Attempt 10 and later"
    trend = retry_chart.draw_trend(found.trend, 358, is_daily=False)
    assert [bar.title for bar in trend.bars] == [
        "11:00: 0 recovered, 0 failed for good",
        "12:00: 85 recovered, 5 failed for good",
    ]
    assert all(bar.x >= 38 and bar.x + bar.width <= 358 and bar.high >= 18 for bar in trend.bars)
    assert [bar.part for bar in retry_chart.spark(found.codes[0])][:3] == [70 / 90, 15 / 90, 0.0]
