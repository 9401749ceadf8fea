"""Rates as people write them: `"50/s"`, `"600/m"`, `"1000/h"`, or a number a second."""

import math
import re
from dataclasses import dataclass
from datetime import timedelta

from mulligan.errors import BadRate

_PERIODS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([smhd])")
FASTEST, SLOWEST = 10_000.0, 1 / 86_400


@dataclass(frozen=True, slots=True)
class Rate:
    """So many in a second; written as it was given."""

    per_second: float
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def interval(self) -> timedelta:
        """From one to the next."""
        return timedelta(seconds=1 / self.per_second)

    @property
    def burst(self) -> int:
        """How many at once, after a rest: as many as in the period it was written with."""
        return max(1, int(float(self.text.partition("/")[0])))


def parse_rate(value: "Rate | float | str") -> Rate:
    """At least one a day, at most 10,000 a second."""
    found = value if isinstance(value, Rate) else _parsed(value)
    if found is None or not SLOWEST <= found.per_second <= FASTEST:
        raise BadRate(value)
    return found


def _parsed(value: object) -> Rate | None:
    match value:
        case bool():
            return None
        case int() | float() if math.isfinite(value):
            return Rate(float(value), f"{value:g}/s")
        case str() if len(value) <= 50 and (parts := _TEXT.fullmatch(value.strip().lower())):
            number, period = parts.groups()
            return Rate(float(number) / _PERIODS[period], f"{number}/{period}")
        case _:
            return None
