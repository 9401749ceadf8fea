from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.errors import BadPolicy
from mulligan.failure.backoff import LONGEST_DELAY, Added, Decorrelated, Exponential, Fixed, Full, Linear, Steps

ALMOST_ONE = 1 - 2**-53

DELAYS = st.timedeltas(timedelta(0), LONGEST_DELAY)
CAPS = st.none() | DELAYS
JITTERS = st.none() | st.floats(0, 1) | st.just(Full()) | st.just(Decorrelated()) | st.builds(Added, DELAYS)
BACKOFFS = st.one_of(
    st.builds(Fixed, DELAYS, jitter=JITTERS),
    st.builds(Steps, st.lists(DELAYS, min_size=1, max_size=5), jitter=JITTERS),
    st.builds(Linear, DELAYS, cap=CAPS, jitter=JITTERS),
    st.builds(Exponential, DELAYS, factor=st.floats(1, 1e6), cap=CAPS, jitter=JITTERS),
)
DRAWS = st.floats(0, 1, exclude_max=True)


def seconds(backoff: Any, failures: Any, *, previous: Any = None, draw: Any = 0.5) -> Any:
    delay = backoff(failures, None if previous is None else timedelta(seconds=previous), draw)
    return delay.total_seconds()


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Fixed("5s"), [5, 5, 5, 5]),
        (Steps(["1s", "1m", "1h"]), [1, 60, 3600, 3600, 3600]),
        (Linear("5s", jitter=None), [5, 10, 15, 20]),
        (Linear("5s", cap="12s", jitter=None), [5, 10, 12, 12]),
        (Exponential("5s", jitter=None), [5, 10, 20, 40]),
        (Exponential("5s", factor=3, cap="1m", jitter=None), [5, 15, 45, 60, 60]),
        (Exponential("5s", factor=1.5, jitter=None), [5, 7.5, 11.25]),
        (Exponential("5s", factor=1, jitter=None), [5, 5, 5]),
    ],
)
def test_delays_grow_as_said(backoff: Any, delays: Any) -> None:
    assert [seconds(backoff, failures) for failures in range(1, len(delays) + 1)] == delays


@pytest.mark.parametrize(
    ("jitter", "previous", "lowest", "highest"),
    [
        (None, None, 10, 10),
        (0.2, None, 8, 12),
        (0, None, 10, 10),
        (1, None, 0, 20),
        (Full(), None, 0, 10),
        (Added("5s"), None, 10, 15),
        (Decorrelated(), None, 10, 30),
        (Decorrelated(), 40, 10, 120),
        (Decorrelated(), 1, 10, 10),
    ],
)
def test_jitter_spreads_as_said(jitter: Any, previous: Any, lowest: Any, highest: Any) -> None:
    backoff = Fixed("10s", jitter=jitter)
    assert seconds(backoff, 1, previous=previous, draw=0.0) == pytest.approx(lowest)
    assert seconds(backoff, 1, previous=previous, draw=ALMOST_ONE) == pytest.approx(highest)


def test_growing_delays_have_jitter_unless_told_otherwise() -> None:
    assert seconds(Exponential("10s"), 1, draw=0.0) == 8
    assert seconds(Linear("10s"), 1, draw=0.0) == 8
    assert seconds(Fixed("10s"), 1, draw=0.0) == 10
    assert seconds(Steps(["10s"]), 1, draw=0.0) == 10


@pytest.mark.parametrize("jitter", [0.5, Full(), Added("1h"), Decorrelated()])
def test_the_cap_holds_after_jitter(jitter: Any) -> None:
    backoff = Exponential("10s", cap="15s", jitter=jitter)
    assert seconds(backoff, 1, previous=1_000, draw=ALMOST_ONE) <= 15
    assert seconds(backoff, 9, previous=1_000, draw=ALMOST_ONE) == pytest.approx(15)


def test_far_beyond_the_cap_there_is_still_jitter() -> None:
    assert seconds(Exponential("10s", cap="100s", jitter=0.2), 50, draw=0.0) == 80
    assert seconds(Exponential("10s", cap="100s", jitter=Full()), 50, draw=0.5) == 50


@settings(max_examples=500)
@given(BACKOFFS, st.integers(1, 10**9) | st.just(10**400), st.none() | st.timedeltas(timedelta(0)), DRAWS)
def test_every_delay_is_between_nothing_and_the_cap(backoff: Any, failures: int, previous: Any, draw: float) -> None:
    cap = getattr(backoff, "cap", None)
    assert timedelta(0) <= backoff(failures, previous, draw) <= (LONGEST_DELAY if cap is None else cap)


@pytest.mark.parametrize("failures", [10**6, 10**9])
def test_the_millionth_failure_does_not_overflow(failures: int) -> None:
    assert Exponential("1s", jitter=None)(failures, None, 0.5) == LONGEST_DELAY
    assert Exponential("1s", cap="1h", jitter=None)(failures, None, 0.5) == timedelta(hours=1)
    assert Exponential(0, jitter=None)(failures, None, 0.5) == timedelta(0)
    assert Linear("1s", jitter=None)(failures, None, 0.5) == min(timedelta(seconds=failures), LONGEST_DELAY)
    assert Steps(["1s", "2s"])(failures, None, 0.5) == timedelta(seconds=2)


@given(BACKOFFS, st.integers(1, 60), DRAWS)
def test_without_decorrelation_a_later_failure_never_waits_less_unless_listed_so(
    backoff: Any, failures: int, draw: float
) -> None:
    if not isinstance(backoff, Steps):
        assert backoff(failures, None, draw) <= backoff(failures + 1, None, draw)


@pytest.mark.parametrize(
    ("jitter", "mean"), [(0.2, 60), (1, 60), (Full(), 30), (Added("20s"), 70), (Decorrelated(), 120)]
)
def test_the_mean_of_jitter_is_within_a_percent(jitter: Any, mean: Any) -> None:
    random, backoff = Random(7), Fixed("1m", jitter=jitter)
    drawn = [seconds(backoff, 1, draw=random.random()) for _ in range(100_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize("jitter", [0.2, Full(), Added("30s"), Decorrelated()])
def test_ten_thousand_that_failed_at_once_do_not_return_at_once(jitter: Any) -> None:
    random, backoff = Random(7), Exponential("1m", jitter=jitter)
    per_second = Counter(int(seconds(backoff, 1, draw=random.random())) for _ in range(10_000))
    mean = 10_000 / (max(per_second) - min(per_second) + 1)
    assert max(per_second.values()) < 3 * mean


def test_without_jitter_all_return_in_the_same_second() -> None:
    per_second = Counter(int(seconds(Exponential("1m", jitter=None), 1, draw=draw / 100)) for draw in range(100))
    assert max(per_second.values()) == 100


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Fixed("-5s"), "the delay of Fixed is '-5s'"),
        (lambda: Fixed(-1), "not negative"),
        (lambda: Fixed(float("nan")), "a duration such as"),
        (lambda: Fixed("31d"), "at most 30d"),
        (lambda: Fixed("soon"), "'soon'"),
        (lambda: Fixed(True), "True"),
        (lambda: Fixed("5s", jitter=1.1), "a ratio from 0 to 1"),
        (lambda: Fixed("5s", jitter=-0.1), "a ratio from 0 to 1"),
        (lambda: Fixed("5s", jitter=float("nan")), "a ratio from 0 to 1"),
        (lambda: Fixed("5s", jitter="20%"), "Full(), Decorrelated() or Added(duration)"),  # type: ignore[arg-type]
        (lambda: Fixed("5s", jitter=True), "the jitter of Fixed is True"),
        (lambda: Fixed("5s", jitter=Full), "Full(), Decorrelated()"),  # type: ignore[arg-type]
        (lambda: Added("-1s"), "the duration of Added"),
        (lambda: Steps([]), "a list of one delay or more"),
        (lambda: Steps("1m"), "a list of one delay or more"),
        (lambda: Steps(60), "a list of one delay or more"),  # type: ignore[arg-type]
        (lambda: Steps(["1m", "x"]), "a delay of Steps is 'x'"),
        (lambda: Linear("5s", cap="-1s"), "the cap of Linear"),
        (lambda: Exponential("5s", factor=0.5), "the factor of Exponential is 0.5"),
        (lambda: Exponential("5s", factor=float("inf")), "the factor of Exponential is inf"),
        (lambda: Exponential("5s", factor=float("nan")), "the factor of Exponential is nan"),
        (lambda: Exponential("5s", factor="2"), "a number from 1"),  # type: ignore[arg-type]
        (lambda: Exponential("5s", cap="60d"), "the cap of Exponential is '60d'"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(make: Any, says: str) -> None:
    with pytest.raises(BadPolicy, match="must be") as caught:
        make()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("backoff", "words"),
    [
        (Exponential("5s", factor=3, cap="1h"), "5s ×3, at most 1h, ±20 %"),  # noqa: RUF001
        (Exponential("1m", jitter=None), "1m ×2"),  # noqa: RUF001
        (Fixed("90s"), "1m 30s each time"),
        (Steps(["1m", "5m", "15m"]), "1m, 5m, 15m"),
        (Linear("10s", jitter=Full()), "10s more each time, any time up to that"),
        (Exponential("5s", jitter=Added("5s")), "5s ×2, plus up to 5s"),  # noqa: RUF001
        (Fixed("5s", jitter=Decorrelated()), "5s each time, any time up to 3× the previous delay"),  # noqa: RUF001
    ],
)
def test_people_can_read_a_backoff(backoff: Any, words: str) -> None:
    assert backoff.describe() == words


def test_equal_backoffs_are_equal() -> None:
    assert Exponential("60s", cap="1h") == Exponential(60, 2.0, cap=timedelta(hours=1))
    assert hash(Exponential("60s")) == hash(Exponential("1m"))
    assert Exponential("60s") != Exponential("60s", jitter=None)
