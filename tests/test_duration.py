import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan import MulliganError
from mulligan.values.duration import BadDuration, describe, parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h30m", 5400), ("500ms", 0.5), ("7d", 604_800), ("1w", 604_800), (" 1.5H ", 5400)],
)
def test_durations_are_written_as_people_write_them(text: str, seconds: float) -> None:
    assert parse(text) == timedelta(seconds=seconds)


def test_numbers_are_seconds_and_timedeltas_are_themselves() -> None:
    assert parse(1.5) == timedelta(seconds=1.5)
    assert parse(timedelta(hours=2)) == timedelta(hours=2)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "5",
        "5 m",
        "-5m",
        "m5",
        "5x",
        "1h-3m",
        "∞",
        "9" * 5000 + "s",
        -1,
        float("nan"),
        float("inf"),
        True,
        None,
        [],
        timedelta(-1),
    ],
)
def test_what_is_no_duration_is_refused_with_what_is(value: object) -> None:
    with pytest.raises(BadDuration, match="'1h30m'"):
        parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.04, "40ms"), (15.31, "15.3s"), (60, "1m"), (5400, "1h 30m"), (90_061, "1d 1h"), (-5, "-5s")],
)
def test_durations_are_shown_in_at_most_two_units(seconds: float, text: str) -> None:
    assert describe(timedelta(seconds=seconds)) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36_000)))
def test_every_duration_can_be_shown(value: timedelta) -> None:
    assert describe(value)


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(BadDuration):
        parse(text)


def test_a_bad_duration_is_caught_with_all_that_is_ours() -> None:
    with pytest.raises(MulliganError):
        parse("soon")
    assert issubclass(BadDuration, ValueError)
