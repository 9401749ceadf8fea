"""The filter of the jobs page: in its address, as tokens above the list, and as text that a person types.

/jobs?state=failed&kind=charge&since=2h        kind:charge since:2h
"""

import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from mulligan.errors import BadFilter
from mulligan.lifecycle import State
from mulligan.records.job import STRINGS, TIMES, JobFilter
from mulligan.values.check import LONGEST_STRING
from mulligan.values.duration import BadDuration, parse

# As people read them. The names in an address are those of JobFilter.
LABELS = {
    "kind": "kind",
    "owner": "owner",
    "queue": "queue",
    "service": "service",
    "code": "code",
    "last_code": "last code",
    "error_class": "class",
    "group": "group",
    "batch": "batch",
    "tag": "tag",
    "version": "version",
    "worker": "worker",
    "since": "enqueued since",
    "until": "enqueued before",
    "finished_since": "over since",
}
FIELDS = tuple(LABELS)
assert set(FIELDS) == {*STRINGS, *TIMES}
_ORDER = {name: number for number, name in enumerate(("state", *FIELDS))}

_String = Annotated[str, Meta(max_length=LONGEST_STRING)]
Params = dict[str, list[str]]


def filtered(name: str, **more: tuple[Any, Any]) -> Any:
    """A struct with the fields of a filter as an address has them, and `more`: name, type and default."""
    fields: list[Any] = [(field, _String | None, None) for field in FIELDS]
    fields.append(("state", list[State], msgspec.field(default_factory=list)))
    fields += [(field, kind, default) for field, (kind, default) in more.items()]
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


def params_of(given: Any) -> Params:
    """The fields that are given, in one order: the same filter has one address."""
    found: Params = {"state": [state.value for state in State if state in given.state]}
    found |= {name: [value.strip()] for name in FIELDS if (value := getattr(given, name)) and value.strip()}
    return {name: values for name, values in found.items() if values}


def to_filter(params: Mapping[str, list[str]], now: datetime) -> JobFilter:
    """Raises BadFilter for a value that a filter does not take."""
    values: dict[str, Any] = {name: value for name, (value, *_) in params.items() if name in STRINGS}
    values |= {name: read_moment(name, value, now) for name, (value, *_) in params.items() if name in TIMES}
    return JobFilter(state=params.get("state") or None, **values)


def read_moment(name: str, text: str, now: datetime) -> datetime:
    """A time, or a duration before now."""
    try:
        return now - parse(text)
    except BadDuration:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        allowed = "a duration such as 2h, which is two hours ago, or a time such as 2026-01-31T12:00"
        raise BadFilter(LABELS[name], text, allowed) from None


def address(path: str, params: Mapping[str, Iterable[str]], **more: object) -> str:
    """The path with these parameters in one order; those without a value are left out."""
    ordered = sorted(params.items(), key=lambda each: _ORDER.get(each[0], len(_ORDER)))
    pairs = [(name, value) for name, values in ordered for value in values]
    pairs += [(name, str(value)) for name, value in more.items() if value is not None]
    return f"{path}?{urlencode(pairs)}" if pairs else path


class Token(NamedTuple):
    """One field of the filter. `without` is the address of the page without it."""

    label: str
    value: str
    without: str


def tokens_of(params: Params, view: str | None = None) -> list[Token]:
    fields = [name for name in FIELDS if name in params]
    return [
        Token(
            LABELS[name],
            params[name][0],
            address("/jobs", {other: values for other, values in params.items() if other != name}, view=view),
        )
        for name in fields
    ]


def read_text(text: str) -> Params:
    """`kind:charge tag:"late ones"` as parameters. Raises BadFilter for a word that names no field."""
    return dict(_read_word(word) for word in _split(text))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        # A quote without its twin.
        return text.split()


def _read_word(word: str) -> tuple[str, list[str]]:
    name, found, value = word.partition(":")
    field = name.lower().replace("-", "_")
    if not found or not value:
        raise BadFilter("the filter", word, "fields with values, such as kind:convert since:2h")
    if field == "state":
        return field, [_read_state(value)]
    if field not in FIELDS:
        raise BadFilter("the field", name, f"one of {', '.join(('state', *FIELDS))}")
    return field, [value]


def _read_state(value: str) -> str:
    if value.lower() not in tuple(State):
        raise BadFilter("state", value, f"one of {', '.join(State)}")
    return value.lower()
