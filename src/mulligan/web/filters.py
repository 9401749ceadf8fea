"""Filters of jobs in query parameters and bodies: the fields of JobFilter, under their own names."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mulligan.lifecycle import State
from mulligan.records.document import document_type
from mulligan.records.job import ERROR_CLASSES, MOST_IDS, JobFilter
from mulligan.values.check import LONGEST_STRING
from mulligan.web.field_docs import field_docs

_FIELDS = msgspec.structs.fields(document_type(JobFilter))
_String = Annotated[str, Meta(max_length=LONGEST_STRING)]
# Those that a filter checks itself, as types.
_TYPES: dict[str, Any] = {
    "ids": Annotated[list[_String], Meta(max_length=MOST_IDS)],
    "state": list[State] | State,
    "error_class": Literal[ERROR_CLASSES],
}


def _type_of(field: msgspec.structs.FieldInfo) -> Any:
    known: Any = _TYPES.get(field.name, _String if field.type == str | UnsetType else field.type)
    return Annotated[known | UnsetType, Meta(description=field_docs(JobFilter).get(field.name))]


def filter_type(name: str, **more: tuple[Any, Any]) -> Any:
    """A struct with every field of a filter, all optional, and `more` fields: name, type and default."""
    fields: list[Any] = [(field.name, _type_of(field), UNSET) for field in _FIELDS]
    fields += [(field, kind, default) for field, (kind, default) in more.items()]
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


# A filter in a body.
Filter = filter_type("Filter")


def to_filter(given: Any) -> JobFilter:
    """Raises BadFilter for a value that a filter does not take."""
    values = {field.name: getattr(given, field.name) for field in _FIELDS}
    return JobFilter(**{name: value for name, value in values.items() if value is not UNSET})
