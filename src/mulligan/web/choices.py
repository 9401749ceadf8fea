"""What is possible at the place of a mistake: the fields of an object, or the values of an enumeration."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import msgspec

# How msgspec says that a value or a field is unknown, and where.
_MISTAKE = re.compile(r"(Object contains unknown field|Invalid enum value) .*?(?: - at `\$([^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[[^]]*\]")


def add_choices(message: str, kind: type[msgspec.Struct]) -> str:
    """The message of msgspec about a value that should be of this kind, with what is possible instead."""
    mistake = _MISTAKE.fullmatch(message)
    if mistake is None:
        return message
    found = _find(kind, mistake[2] or "")
    listed = _fields(found) if mistake[1].startswith("Object") else map(repr, _values(found))
    possible = ", ".join(dict.fromkeys(listed))
    before, at, place = message.rpartition(" - at ")
    return f"{before or place}; possible: {possible}{at}{place if at else ''}" if possible else message


def _find(kind: Any, path: str) -> list[Any]:
    """The types of what is at this path."""
    kinds = list(_alternatives(kind))
    for step in _STEP.finditer(path):
        kinds = [each for kind in kinds for below in _below(kind, step[1]) for each in _alternatives(below)]
    return kinds


def _below(kind: Any, name: str | None) -> list[Any]:
    """The type of a field, or without a name that of the items."""
    if name is None:
        return list(get_args(kind))[-1:]
    if not _is_struct(kind):
        return []
    return [field.type for field in msgspec.structs.fields(kind) if field.encode_name == name]


def _alternatives(kind: Any) -> Iterator[Any]:
    """The types of a union, without constraints."""
    if hasattr(kind, "__metadata__"):
        yield from _alternatives(kind.__origin__)
    elif get_origin(kind) in (list, dict, Literal) or not get_args(kind):
        yield kind
    else:
        for part in get_args(kind):
            yield from _alternatives(part)


def _fields(kinds: list[Any]) -> list[str]:
    return [field.encode_name for kind in kinds if _is_struct(kind) for field in msgspec.structs.fields(kind)]


def _values(kinds: list[Any]) -> list[Any]:
    enumerations = [each.value for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum) for each in kind]
    return [*enumerations, *(value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind))]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
