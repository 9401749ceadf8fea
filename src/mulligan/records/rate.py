"""Rates as people write them (`"50/s"`, `"600/m"`, `"1000/h"`, or a number per second), and the token bucket that
enforces one."""

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from mulligan.errors import BadRate

_PERIODS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([smhd])")
FASTEST, SLOWEST = 10_000.0, 1 / 86_400

_SECOND = 1_000_000
# Floating-point arithmetic may leave a token this far below a whole one.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Rate:
    """A number per second; `text` is how it was written."""

    per_second: float
    text: str

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> "Rate":
        return parse_rate(text)

    @property
    def interval(self) -> timedelta:
        """The time from one to the next."""
        return timedelta(seconds=1 / self.per_second)

    @property
    def burst(self) -> int:
        """How many are allowed at once after a rest: as many as in the period the rate was written with."""
        return max(1, int(float(self.text.partition("/")[0])))


def parse_rate(value: "Rate | float | str") -> Rate:
    """The rate, at least one per day and at most 10,000 per second. Raises BadRate."""
    found = value if isinstance(value, Rate) else _parse(value)
    if found is None or not SLOWEST <= found.per_second <= FASTEST:
        raise BadRate(value)
    return found


def _parse(value: object) -> Rate | None:
    match value:
        case bool():
            return None
        case int() | float() if math.isfinite(value):
            return Rate(float(value), f"{value:g}/s")
        case str() if len(value) <= 50 and (parts := _WRITTEN.fullmatch(value.strip().lower())):
            number, period = parts.groups()
            return Rate(float(number) / _PERIODS[period], f"{number}/{period}")
        case _:
            return None


class TokenBucket(NamedTuple):
    """Holds up to `burst` tokens and gains `per_second`. Times are microseconds. Fewer than zero tokens are a debt."""

    per_second: float
    burst: float
    tokens: float

    def after(self, elapsed: int) -> "TokenBucket":
        """The bucket this much later. A clock that was set back adds no tokens."""
        return self._replace(tokens=min(self.burst, self.tokens + self.per_second * max(0, elapsed) / _SECOND))

    def has(self, number: int) -> bool:
        return number <= self.tokens + _ROUNDING

    @property
    def whole(self) -> int:
        """How many tokens can be taken now."""
        return max(0, math.floor(self.tokens + _ROUNDING))

    def without(self, number: int) -> "TokenBucket":
        return self._replace(tokens=self.tokens - number)

    def time_until(self, number: float) -> int:
        """How long until it has this many tokens."""
        return max(0, math.ceil((number - self.tokens) / self.per_second * _SECOND - _ROUNDING))
