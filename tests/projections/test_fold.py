"""Folding is pure: any cut of the log into pages gives the same, and the documented constants are those of the code."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.projections.fold import fold
from mulligan.projections.groups import fold_groups
from mulligan.records import failure_group, statistics
from mulligan.records.failure_group import HALF_LIFE, GroupRow, decayed, impact_of, merge, rank_of
from mulligan.records.log_entry import Entry, Facts
from mulligan.records.statistics import BOUNDS, Key, Tally, add_tally, add_to, median, new_tally

MINUTE = 60_000_000
DOCS = Path(__file__).parents[2] / "docs"


def entry(
    number: int,
    type_: str = "job.retried",
    *,
    job: str = "job",
    owner: str = "",
    at: int = 0,
    group: str | None = "g",
    version: str | None = None,
    attempt: int = 1,
) -> Entry:
    code = "OFF" if group else None
    facts = Facts(0.5, "retryable", "It failed.", group, f"OSError: disk {number} is full")
    return Entry(number, type_, job, "convert", owner, attempt, at, code, "disk", 2, at, version, facts)


FAILING = ("job.retried", "job.failed", "job.released")
entries = st.lists(
    st.builds(
        lambda type_, job, owner, at, group, version, attempt: (type_, job, owner, at, group, version, attempt),
        st.sampled_from((*FAILING, "job.started", "job.enqueued", "job.succeeded")),
        st.sampled_from("abc"),
        st.sampled_from(("", "acme", "other")),
        st.integers(0, 300 * MINUTE),
        st.sampled_from(("g", "h")),
        st.sampled_from((None, *map(str, range(30)))),
        st.integers(0, 12),
    ),
    max_size=60,
).map(lambda found: [_made(number, *each) for number, each in enumerate(found)])


def _made(
    number: int, type_: str, job: str, owner: str, at: int, group: str, version: str | None, attempt: int
) -> Entry:
    of = group if type_ in FAILING else None
    return entry(number, type_, job=job, owner=owner, at=at, group=of, version=version, attempt=attempt)


@settings(max_examples=100, deadline=None)
@given(entries, st.integers(0, 60))
def test_two_pages_add_up_to_the_whole(log: list[Entry], cut: int) -> None:
    first, second, whole = fold(log[:cut]), fold(log[cut:]), fold(log)
    assert _numbers(_merged(first.groups, second.groups)) == _numbers(whole.groups)
    assert _added(first.minutes, second.minutes) == whole.minutes


def _merged(first: dict[Any, GroupRow], second: dict[Any, GroupRow]) -> dict[Any, GroupRow]:
    found = dict(first)
    for key, row in second.items():
        found[key] = merge(found[key], row) if key in found else row
    return found


def _numbers(rows: dict[Any, GroupRow]) -> dict[Any, Any]:
    return {
        key: (row.failures, row.cost, row.first_seen_at, row.last_seen_at, row.document.hours, pytest.approx(row.heat))
        for key, row in rows.items()
    }


def _added(first: dict[Key, Tally], second: dict[Key, Tally]) -> dict[Key, Tally]:
    found = dict(first)
    for key, tally in second.items():
        add_tally(found.setdefault(key, new_tally()), tally)
    return found


def test_names_are_bounded_and_the_rest_is_counted() -> None:
    (row,) = fold_groups(entry(number, version=str(number), at=number) for number in range(25)).values()
    assert list(row.document.versions) == [str(number) for number in range(5, 25)]
    assert row.document.more == {"versions": 5}


def test_a_title_has_no_variable_parts() -> None:
    (row,) = fold_groups([entry(17)]).values()
    assert row.title == "OSError: disk # is full"


def test_the_impact_is_what_the_guide_says() -> None:
    """Each failed attempt weighs 1, one that ended its job 10; halved with each day; once more with each doubling."""
    rows = fold_groups([entry(1), entry(2), entry(3, "job.failed")])
    assert rows["g", ""].heat == 12
    assert timedelta(days=1) == HALF_LIFE
    assert decayed(12, 24 * 60 * MINUTE) == 6
    assert [impact_of(12, owners) for owners in (0, 1, 2, 4)] == [12, 12, 24, 36]
    guide = (DOCS / "guides" / "failures.md").read_text("utf-8")
    assert "weighs 1; one that ended its job weighs 10. The weight halves with each day" in " ".join(guide.split())
    assert f"at most {10_000:,} owners" in " ".join(guide.split())
    assert failure_group.MOST_NAMES == 20


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.integers(0, 30 * 24 * 60 * MINUTE), st.integers(0, 500)), min_size=2),
)
def test_ranks_order_groups_as_their_impact_does(groups: list[tuple[float, int, int]]) -> None:
    now = 40 * 24 * 60 * MINUTE
    ranked = sorted(groups, key=lambda group: rank_of(group[0], group[2], group[1]))
    impacts = [decayed(heat, now - last) * (1 + log2(max(owners, 1))) for heat, last, owners in ranked]
    assert all(low <= high * (1 + 1e-9) for low, high in pairwise(impacts))


def test_the_bounds_of_the_histograms_are_documented() -> None:
    page = " ".join((DOCS / "reference" / "statistics.md").read_text("utf-8").split())
    assert "0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60 s, 5 and 15 min, 1, 6 and 24 h" in page
    assert BOUNDS == (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400)
    assert f"at most {statistics.MOST_ROWS:,} rows" in page


def test_a_time_is_counted_below_the_first_bound_that_it_does_not_exceed() -> None:
    tally = new_tally()
    for seconds in (0.0, 0.01, 0.011, 86_400.0, 86_401.0):
        add_to(tally, seconds, 1)
    assert (tally.histogram[0], tally.histogram[1], tally.histogram[-2:]) == (2, 1, [1, 1])
    assert (tally.number, tally.cost) == (5, 5)
    assert median(tally.histogram) == timedelta(seconds=0.05)
    assert median(new_tally().histogram) is None


def test_retries_that_never_helped_are_named() -> None:
    def row(outcome: str, attempt: int, code: str = "", *, number: int = 1, seconds: float = 0.0) -> Any:
        histogram = [0] * statistics.BUCKETS
        histogram[3] = number
        return statistics.Statistic(
            at=datetime(2026, 1, 1, tzinfo=UTC),
            kind="convert",
            owner="",
            service="",
            outcome=outcome,
            code=code,
            attempt=attempt,
            is_other=False,
            number=number,
            seconds=seconds,
            cost=number,
            histogram=tuple(histogram),
        )

    found = statistics.judge_retries(
        [
            row("retried", 1, "BAD", number=4),
            row("failed", 2, "BAD", number=4, seconds=8.0),
            row("unrecovered", 2, "BAD", number=4),
            row("retried", 1, "PENDING", number=3),
            row("retried", 1, "OFF", number=2),
            row("recovered", 2, "OFF", number=2),
            row("succeeded", 2, number=2),
            row("succeeded", 1, number=10),
        ]
    )
    assert [(one.code, one.retried, one.unrecovered, one.in_vain) for one in found.never_helped] == [("BAD", 4, 4, 4)]
    assert (found.attempts_in_vain, found.seconds_in_vain, found.recovered) == (4, 8.0, 2)
    assert found.median_recovery == timedelta(seconds=0.25)
    assert [(one.attempt, one.ended, one.succeeded) for one in found.by_attempt] == [(1, 19, 10), (2, 6, 2)]
    assert found.cost == 6
