"""Checks of configured values. Each raises BadPolicy with the field, the value and what is allowed."""

from datetime import timedelta
from typing import Any

from mulligan.errors import BadPolicy
from mulligan.values.check import Requirement, integer, not_allowed, number
from mulligan.values.duration import BadDuration, Duration, describe, parse


def bad_value(field: str, value: object, allowed: str) -> BadPolicy:
    return BadPolicy(not_allowed(field, value, allowed), not_allowed("", value, allowed))


def require(field: str, value: Any, requirement: Requirement) -> Any:
    """The value, if it fits."""
    if not requirement.fits(value):
        raise bad_value(field, value, requirement.allowed)
    return value


def check_integer(field: str, value: int, *, least: int, most: int) -> int:
    return int(require(field, value, integer(least, most)))


def check_number(field: str, value: float, *, least: float, most: float) -> float:
    return float(require(field, value, number(least, most)))


def check_duration(field: str, value: Duration, *, most: timedelta, above_zero: bool = False) -> timedelta:
    allowed = f"a duration such as '90s' or '5m', {'greater than zero' if above_zero else 'not negative'}"
    allowed += f" and at most {describe(most)}"
    try:
        result = parse(value)
    except BadDuration:
        raise bad_value(field, value, allowed) from None
    if result > most or (above_zero and not result):
        raise bad_value(field, value, allowed)
    return result


def set_fields(value: object, **fields: object) -> None:
    """Set the fields of a frozen value whose constructor accepts more than it stores."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
