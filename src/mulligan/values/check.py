"""Checks of given values: what fits, and the words for it. Callers raise an error of their own."""

import math
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any, NamedTuple

from mulligan.values.duration import describe

LONGEST_NAME = 200
LONGEST_STRING = 1_000


class Requirement(NamedTuple):
    """What a value must be. `allowed` completes the sentence "it must be …"."""

    fits: Callable[[Any], bool]
    allowed: str


def not_allowed(field: str, value: object, allowed: str) -> str:
    """`limit is 0, but it must be an integer from 1 to 1,000`: the one sentence for a value that does not fit."""
    return f"{field} is {shown(value)}, but it must be {allowed}".lstrip()


def shown(value: object) -> str:
    """The value for a message, shortened."""
    written = describe(value) if isinstance(value, timedelta) else repr(value)
    return written if len(written) <= 80 else written[:77] + "..."


def integer(least: int, most: int) -> Requirement:
    return Requirement(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
        f"an integer from {least:,} to {most:,}",
    )


def number(least: float, most: float) -> Requirement:
    return Requirement(
        lambda value: is_number(value) and least <= value <= most, f"a number from {least:,.10g} to {most:,.10g}"
    )


def is_number(value: object) -> bool:
    """Whether it is a finite int or float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def string(longest: int = LONGEST_STRING, *, shortest: int = 0) -> Requirement:
    """A string that every database can store: PostgreSQL refuses NUL, and UTF-8 has no lone surrogates."""
    length = f"{shortest} to" if shortest else "at most"
    return Requirement(
        lambda value: (
            isinstance(value, str) and shortest <= len(value) <= longest and "\0" not in value and encodes(value)
        ),
        f"a string of {length} {longest:,} characters that a database can store (no NUL, no lone surrogate)",
    )


def name(longest: int = LONGEST_NAME) -> Requirement:
    """A name that is shown to people: characters that hide, reverse or end a line could deceive them."""
    return Requirement(
        lambda value: (
            isinstance(value, str) and 0 < len(value) <= longest and value.isprintable() and value == value.strip()
        ),
        f"one line of 1 to {longest} printable characters, without spaces around them",
    )


def one_of(choices: Collection[object]) -> Requirement:
    return Requirement(lambda value: value in choices, f"one of {', '.join(map(repr, choices))}")


def instance(kind: type | tuple[type, ...], allowed: str) -> Requirement:
    return Requirement(lambda value: isinstance(value, kind), allowed)


def encodes(text: str) -> bool:
    """Whether it can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


STRING = string()
NAME = name()
BOOLEAN = instance(bool, "True or False")
