"""Durations as people write them: `"90s"`, `"5m"`, `"1h30m"`, a number of seconds, a timedelta."""

import math
import re
from datetime import timedelta

from mulligan.values.error import MulliganError

Duration = timedelta | float | str

# Far below the overflow of datetime.
LONGEST = timedelta(days=36_500)

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")


class BadDuration(MulliganError, ValueError):
    """The value is not a duration."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"{value!r:.80} is not a duration; use a timedelta, a number of seconds, "
            "or a string such as '500ms', '90s', '5m', '1h30m', '7d', not negative and at most 100 years"
        )


def parse(value: Duration) -> timedelta:
    """The duration as a timedelta; never negative."""
    result = _parse(value)
    if result is None or not timedelta(0) <= result <= LONGEST:
        raise BadDuration(value)
    return result


def _parse(value: object) -> timedelta | None:
    match value:
        case timedelta():
            return value
        case bool():
            return None
        case int() | float():
            return _seconds(value)
        case str():
            return _parse_string(value.strip().lower())
        case _:
            return None


def _parse_string(text: str) -> timedelta | None:
    # Bounded before the pattern sees it.
    if len(text) > 100 or not _WHOLE.fullmatch(text):
        return None
    return _seconds(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


def _seconds(number: float) -> timedelta | None:
    if not math.isfinite(number) or abs(number) > LONGEST.total_seconds():
        return None
    return timedelta(seconds=number)


def describe(value: timedelta) -> str:
    """A duration for people: `1h 30m`, `15.3s`, `40ms`."""
    seconds = value.total_seconds()
    if seconds < 0:
        return "-" + describe(-value)
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms" if seconds else "0s"
    if seconds < 60:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + "s"
    return _largest_two(round(seconds))


def _largest_two(seconds: int) -> str:
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
