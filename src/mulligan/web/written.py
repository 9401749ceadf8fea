"""Values of a body that JSON has as strings or numbers, and people write: durations and rates.

Their types name the parser, so that a value that does not fit is refused with its place before the verb is called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import msgspec

from mulligan.errors import BadDuration, BadRate
from mulligan.web.problems import Problem


@dataclass(frozen=True, slots=True)
class ParsedBy:
    """Metadata of one part of a union. `parse` raises BadDuration or BadRate."""

    parse: Callable[[Any], object]


def check_written(body: msgspec.Struct, place: str = "$") -> None:
    """Raises a problem for the first value that its parser does not take."""
    for name, parse in _parsers(type(body)):
        value = getattr(body, name)
        if isinstance(value, str | int | float):
            try:
                parse(value)
            except (BadDuration, BadRate) as error:
                raise Problem(400, "VALIDATION_ERROR", str(error), path=f"{place}.{name}") from None
    for name in _lists(type(body)):
        for number, each in enumerate(getattr(body, name)):
            check_written(each, f"{place}.{name}[{number}]")


@cache
def _parsers(kind: type[msgspec.Struct]) -> Sequence[tuple[str, Callable[[Any], object]]]:
    found = []
    for field in msgspec.structs.fields(kind):
        about = [each for part in get_args(field.type) for each in getattr(part, "__metadata__", ())]
        found += [(field.name, each.parse) for each in about if isinstance(each, ParsedBy)]
    return found


@cache
def _lists(kind: type[msgspec.Struct]) -> Sequence[str]:
    """The fields that are lists of bodies with such values."""
    return [field.name for field in msgspec.structs.fields(kind) if any(map(_parsers, _items(field.type)))]


def _items(hint: Any) -> list[type[msgspec.Struct]]:
    """The types of the items of a list, also with constraints."""
    hint = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    return [each for each in get_args(hint) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
