"""Records as JSON documents, and the types of these documents.

A document has the fields of its record, under the same names. Times are ISO 8601 in UTC, durations are seconds.
`document_type` is the type of a record's documents: JSON schemas and OpenAPI are made from it.
"""

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from functools import cache, reduce
from inspect import signature
from operator import or_
from typing import Annotated, Any, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

VERSION = 1
"""Grows when a field is renamed, removed or gets another type. A new field does not change it."""

R = TypeVar("R")
Document = dict[str, Any]
Seconds = Annotated[float, msgspec.Meta(description="seconds")]
Time = Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(frozen=True, slots=True)
class Shape:
    """How the document of a record differs from its fields. A record declares it as `_shape`."""

    adds: tuple[str, ...] = ()
    """Properties."""
    omits: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    """Fields that only some callers of `document_of` pass, with their types."""
    is_sparse: bool = False
    """Fields without a value are left out."""
    restore: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """The values of omitted fields, from a document with converted values."""


_FIELDS_ONLY = Shape()
_PLAIN = frozenset({str, int, float, bool, types.NoneType})


def document_of(record: Any, **given: Any) -> Document:
    """The document of a record, with the records in it. Private fields are left out."""
    kind: Any = type(record)
    shape = _shape_of(kind)
    if unknown := given.keys() - shape.given.keys():
        raise TypeError(f"{kind.__name__} has no documented field {min(unknown)!r}")
    found = {name: to_json(getattr(record, name)) for name in _names(kind)}
    if shape.is_sparse:
        found = {name: value for name, value in found.items() if value is not None}
    return found | {name: to_json(value) for name, value in given.items()}


def to_json(value: Any) -> Any:
    """The value as JSON has it."""
    # Most values; the cases below take some time.
    if type(value) in _PLAIN:
        return value
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case timedelta():
            return value.total_seconds()
        case StrEnum():
            return str(value)
        case Mapping():
            return {str(name): to_json(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
        case _ if is_record(type(value)) and not _has_notation(type(value)):
            return document_of(value)
        case _:
            return str(value)


def record_of(kind: type[R], document: Mapping[str, Any], **private: Any) -> R:
    """The record of a document: the inverse of `document_of`. Fields that the record does not have are ignored.

    `private` are the private fields of the record, and of the records in it that have such fields. Raises ValueError
    for a value that does not fit, and KeyError if a field is missing that has no default.
    """
    hints = get_type_hints(kind)
    known: dict[str, Any] = {
        name: _from_json(hints[name], document[name], private)
        for name in field_names(kind)
        if name[0] != "_" and name in document
    }
    if (restore := _shape_of(kind).restore) is not None:
        known |= restore({**document, **known})
    known |= {name: value for name, value in private.items() if name in hints}
    if missing := [name for name in _required(kind) if name not in known]:
        raise KeyError(f"a document of {kind.__name__} has {missing[0]!r}")
    return kind(**known)


def _required(kind: type[Any]) -> list[str]:
    parameters = signature(kind).parameters.values()
    return [each.name for each in parameters if each.default is each.empty]


def _from_json(hint: Any, value: Any, private: Mapping[str, Any]) -> Any:
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, types.UnionType):
        return _first_that_fits([part for part in parts if part is not types.NoneType], value, private)
    if hint is Any or isinstance(hint, TypeVar) or not isinstance(origin, type):
        return value
    if origin in _READ_AS:
        return _READ_AS[origin](value)
    if issubclass(origin, Enum):
        return origin(value)
    if issubclass(origin, Mapping):
        return {name: _from_json(parts[1], item, private) for name, item in value.items()} if parts else dict(value)
    if issubclass(origin, Collection) and not issubclass(origin, str):
        items = [_from_json(parts[0] if parts else Any, item, private) for item in _list(value)]
        return _COLLECTED.get(origin, list)(items)
    if is_record(origin):
        return origin.parse(value) if _has_notation(origin) else record_of(origin, value, **private)
    if not isinstance(value, origin) and not (origin is float and isinstance(value, int)):
        raise ValueError(f"{value!r:.80} is not a {origin.__name__}")
    return value


def _first_that_fits(parts: Sequence[Any], value: Any, private: Mapping[str, Any]) -> Any:
    if value is None:
        return None
    for part in parts:
        with suppress(ValueError, TypeError, AttributeError):
            return _from_json(part, value, private)
    raise ValueError(f"{value!r:.80} is none of {', '.join(map(str, parts))}")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.80} is not a list")
    return value


_COLLECTED: dict[Any, Callable[[list[Any]], Any]] = {tuple: tuple, set: set, frozenset: frozenset}


def _seconds(value: Any) -> timedelta:
    return timedelta(seconds=value)


_READ_AS: dict[Any, Callable[[Any], Any]] = {datetime: datetime.fromisoformat, timedelta: _seconds}


def is_record(kind: type[Any]) -> TypeGuard[Any]:
    return is_dataclass(kind) or issubclass(kind, msgspec.Struct)


def field_names(kind: type[Any]) -> tuple[str, ...]:
    return kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else tuple(each.name for each in fields(kind))


def _has_notation(kind: type) -> bool:
    """A value with its own notation, such as a rate, is written in it, and read by the `parse` of its class."""
    return "__str__" in vars(kind)


def _shape_of(kind: type) -> Shape:
    return getattr(kind, "_shape", None) or _FIELDS_ONLY


@cache
def _names(kind: type) -> list[str]:
    shape = _shape_of(kind)
    return [*(name for name in field_names(kind) if name[0] != "_" and name not in shape.omits), *shape.adds]


# The types


@cache
def document_type(kind: type) -> type[msgspec.Struct]:
    """The type of a record's documents, named as the record. `msgspec.json.schema` makes a JSON schema of it."""
    shape, hints = _shape_of(kind), get_type_hints(kind)
    own = {name: _json_type(hints[name] if name in hints else _returned(kind, name)) for name in _names(kind)}
    optional = {name: _json_type(hint) for name, hint in shape.given.items()}
    if shape.is_sparse:
        own, optional = {}, {name: _without_none(hint) for name, hint in own.items()} | optional
    return msgspec.defstruct(
        kind.__name__,
        [*own.items(), *((name, hint | msgspec.UnsetType, msgspec.UNSET) for name, hint in optional.items())],
        namespace={"__doc__": kind.__doc__},
        module=__name__,
        kw_only=True,
    )


def _returned(kind: type, name: str) -> Any:
    """The type of a property."""
    return get_type_hints(getattr(kind, name).fget)["return"]


_WRITTEN_AS: dict[Any, Any] = {timedelta: Seconds, datetime: Time}


def _json_type(hint: Any) -> Any:
    """The type that `to_json` gives to values of this type."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, types.UnionType):
        return _union([_json_type(part) for part in parts])
    if hint in _WRITTEN_AS:
        return _WRITTEN_AS[hint]
    if hint is Any or isinstance(hint, TypeVar) or not isinstance(origin, type):
        return Any
    if issubclass(origin, Mapping):
        value: Any = _json_type(parts[1]) if parts else Any
        return dict[str, value]
    if issubclass(origin, Collection) and not issubclass(origin, str):
        item: Any = _json_type(parts[0]) if parts else Any
        return list[item]
    if is_record(origin):
        return str if _has_notation(origin) else document_type(origin)
    return hint


def _without_none(hint: Any) -> Any:
    return _union([part for part in get_args(hint) or [hint] if part is not types.NoneType])


def _union(parts: list[Any]) -> Any:
    # A string may also be one of the names of an enumeration.
    if str in parts:
        parts = [part for part in parts if not (isinstance(part, type) and issubclass(part, Enum))]
    return reduce(or_, parts)


def schemas(kinds: Sequence[type]) -> tuple[tuple[Document, ...], Document]:
    """A JSON schema for the document of each record, and the components that they refer to. OpenAPI uses both."""
    return msgspec.json.schema_components(
        [document_type(kind) for kind in kinds], ref_template="#/components/schemas/{name}"
    )
