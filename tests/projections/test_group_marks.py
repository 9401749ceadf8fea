"""The marks and the order of failure groups. Pure."""

from itertools import pairwise
from random import Random

import pytest

from mulligan.records.failure_group import (
    DAY,
    HALF_LIFE,
    HOUR,
    NEW_FOR,
    RISING_BEFORE,
    RISING_FACTOR,
    RISING_LEAST,
    decayed,
    impact_of,
    is_new,
    is_rising,
    rank_of,
)

NOON = 12 * HOUR + 100 * DAY
HALF_PAST = NOON + HOUR // 2


def test_the_constants_are_those_of_the_guide() -> None:
    assert NEW_FOR.total_seconds() == 24 * 3_600
    assert (RISING_LEAST, RISING_FACTOR, RISING_BEFORE.total_seconds()) == (10, 2.0, 24 * 3_600)


def test_a_group_is_new_for_a_day() -> None:
    assert is_new(NOON, NOON)
    assert is_new(NOON, NOON + DAY - 1)
    assert not is_new(NOON, NOON + DAY)


@pytest.mark.parametrize(
    ("before", "recent", "expected"),
    [
        # Failures of each of the 24 hours before, and in the 90 minutes since 11:00.
        (0, 9, False),
        (0, 10, True),
        (10, 29, False),
        (10, 30, True),
        (1_000, 2_999, False),
        (1_000, 3_000, True),
    ],
)
def test_a_group_rises_if_it_fails_twice_as_often_as_in_the_day_before(
    before: int, recent: int, expected: bool
) -> None:
    hours = {NOON - HOUR - number * HOUR: (before, 0) for number in range(1, 25)}
    hours |= {NOON - HOUR: (recent - 1, 0), NOON: (1, 0)}
    assert is_rising(hours, NOON - 90 * DAY, HALF_PAST) is expected


def test_older_hours_do_not_count() -> None:
    hours = {NOON - 26 * HOUR: (1_000, 0), NOON: (10, 0)}
    assert is_rising(hours, NOON - 90 * DAY, HALF_PAST)


def test_a_young_group_is_compared_with_the_hours_that_it_has() -> None:
    hours = {NOON - 2 * HOUR: (30, 0), NOON - HOUR: (30, 0), NOON: (15, 0)}
    assert not is_rising(hours, NOON - 2 * HOUR, HALF_PAST), "as often as before"
    assert is_rising({**hours, NOON: (60, 0)}, NOON - 2 * HOUR, HALF_PAST)


def test_a_group_without_a_time_before_is_new_and_does_not_rise() -> None:
    assert not is_rising({NOON - HOUR: (1_000, 0), NOON: (1_000, 0)}, NOON - HOUR // 2, HALF_PAST)


def test_the_order_by_rank_is_the_order_by_impact_at_any_time() -> None:
    draw = Random(7)
    groups = [(draw.uniform(0.001, 10_000), draw.randint(0, 500), NOON - draw.randrange(30 * DAY)) for _ in range(200)]
    by_rank = sorted(groups, key=lambda group: rank_of(*group))
    for later in (0, DAY, 400 * DAY):
        impacts = [decayed(heat, NOON + later - seen) * impact_of(1.0, owners) for heat, owners, seen in by_rank]
        assert all(one <= other * (1 + 1e-9) for one, other in pairwise(impacts))
    assert rank_of(2.0, 1, NOON) - rank_of(1.0, 1, NOON) == pytest.approx(HALF_LIFE.total_seconds() * 1e6 / DAY)
    assert rank_of(0.0, 0, NOON) < rank_of(1e-6, 1, NOON)
