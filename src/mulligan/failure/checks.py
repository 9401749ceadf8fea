"""Checks for what people configure: a refusal names the field, the value and what is allowed."""

import math
from datetime import timedelta

from mulligan.errors import BadPolicy
from mulligan.values.duration import BadDuration, Duration, describe, parse


def refused(field: str, value: object, allowed: str) -> BadPolicy:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    problem = f"is {shown}, but it must be {allowed}"
    return BadPolicy(f"{field} {problem}", problem)


def duration(field: str, value: Duration, *, most: timedelta) -> timedelta:
    allowed = f"a duration such as '90s' or '5m', not negative and at most {describe(most)}"
    try:
        result = parse(value)
    except BadDuration:
        raise refused(field, value, allowed) from None
    if result > most:
        raise refused(field, value, allowed)
    return result


def number(field: str, value: float, *, least: float, most: float) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or not least <= value <= most:
        raise refused(field, value, f"a number from {least:,.10g} to {most:,.10g}")
    return float(value)


def whole(field: str, value: int, *, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise refused(field, value, f"a whole number from {least:,} to {most:,}")
    return value


def fill(value: object, **fields: object) -> None:
    """Set the fields of a frozen value whose constructor accepts more than it stores."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
