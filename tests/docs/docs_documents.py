"""The JSON documents of all public records, with their fields, types and one example each: `make docs` writes
tests/golden/documents.json and the tables of docs/reference/documents.md anew."""

import inspect
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import docs_api

import mulligan
from mulligan.records.document import VERSION, document_of, field_names, is_record, schemas
from mulligan.records.rate import Rate

PAGE = docs_api.REFERENCE / "documents.md"
GOLDEN = Path(__file__).parents[1] / "golden" / "documents.json"
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
# Not documents of their own: thresholds that a caller gives, a value with its own notation, and a job with its events.
# Where the name of a field is no example of its values.
EXAMPLES = {"error_class": "final"}
LEFT_OUT = ("Limits", "Rate", "ExportedJob")

Golden = dict[str, Any]


@cache
def records() -> dict[str, type]:
    """Every record that a verb returns, and those in their fields, by name."""
    found = {*docs_api.reachable(), mulligan.Job, mulligan.JobFilter, mulligan.Batch, mulligan.Event}
    return {
        kind.__name__: kind
        for kind in sorted(found, key=lambda kind: kind.__name__)
        if is_record(kind) and kind.__name__ not in LEFT_OUT
    }


def golden() -> Golden:
    _, components = schemas(list(records().values()))
    return {
        "version": VERSION,
        "values": {name: schema["enum"] for name, schema in components.items() if "enum" in schema},
        "documents": {
            name: {"fields": fields_of(components[name]), "example": example_document(kind)}
            for name, kind in records().items()
        },
    }


# Types, as JSON Schema has them


def fields_of(schema: Mapping[str, Any]) -> dict[str, str]:
    required = schema.get("required", ())
    return {
        name: written_type(part) + ("" if name in required else ", optional")
        for name, part in schema["properties"].items()
    }


def written_type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"$ref": str(target)}:
            return target.rpartition("/")[2]
        case {"anyOf": [*parts]}:
            return " | ".join(map(written_type, parts))
        case {"type": "array"}:
            return f"[{written_type(schema.get('items', {}))}]"
        case {"type": "object"}:
            return f"{{{written_type(schema.get('additionalProperties', {}))}}}"
        case {"format": str(form)}:
            return form
        case {"description": "seconds"}:
            return "seconds"
        case {"type": str(name)}:
            return name
    return "any"


# Examples: every field has a value


def example_document(kind: type) -> dict[str, Any]:
    given = getattr(kind, "_shape", None)
    more = {name: example_of(name, hint) for name, hint in given.given.items()} if given else {}
    return document_of(example_record(kind), **more)


def example_record(kind: type) -> Any:
    hints = get_type_hints(kind)
    values = {name: example_of(name, hints[name]) for name in field_names(kind) if name[0] != "_"}
    private = {name: None for name, each in inspect.signature(kind).parameters.items() if is_private(each)}
    return kind(**values, **private)


def is_private(parameter: inspect.Parameter) -> bool:
    return parameter.name[0] == "_" and parameter.default is parameter.empty


def example_of(name: str, hint: Any) -> Any:
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return example_of(name, next(part for part in parts if part is not NoneType))
    if hint is Any or isinstance(hint, TypeVar):
        return {"name": "value"}
    if issubclass(origin, Enum):
        return next(iter(origin))
    if issubclass(origin, Mapping):
        return {"name": example_of(name, parts[1])}
    if issubclass(origin, Collection) and origin is not str:
        item = example_of(name, parts[0])
        return [item] if origin in (list, Sequence, Collection) else (item,)
    if origin is Rate:
        return Rate(50.0, "50/s")
    if is_record(origin):
        return example_record(origin)
    return {
        str: EXAMPLES.get(name, name),
        bool: True,
        int: 3,
        float: 0.5,
        datetime: NOON,
        timedelta: timedelta(seconds=90),
    }[origin]


# Changes


def breaking_changes(old: Golden, new: Golden) -> Iterator[str]:
    """What a program that reads the old documents cannot cope with."""
    for name, document in old["documents"].items():
        now = new["documents"].get(name, {}).get("fields", {})
        for field, kind in document["fields"].items():
            if field not in now:
                yield f"{name}.{field} is gone"
            elif now[field] != kind:
                yield f"{name}.{field} was {kind} and is {now[field]}"
    for name, values in old["values"].items():
        for value in values:
            if value not in new["values"].get(name, ()):
                yield f"the value {value!r} of {name} is gone"


# The page

INTRODUCTION = f"""# JSON documents

<!-- Written by tests/docs/docs_documents.py from the code: run `make docs`. -->

`--json` of every command prints these documents. Each has the fields of [its record](api-records.md), under the same
names. `mulligan.records.document` makes them: `document_of(job)` is a dictionary, `document_type(Job)` a type for
`msgspec.json.schema`.

- A `date-time` is ISO 8601 in UTC. `seconds` are a number. `[T]` is a list, `{{T}}` an object whose values are `T`.
- An optional field is missing where it was not asked for, or has no value. Other fields are always there; without a
  value they are `null`.
- Ignore fields that you do not know. This is version {VERSION} of the documents. New fields, and new values of an
  enumeration, do not change the version. A field that is renamed, removed or gets another type does, and the changelog
  names it.
"""


def page() -> str:
    found = golden()
    parts = [INTRODUCTION]
    for name, document in found["documents"].items():
        lines = "\n".join(f"{field}: {kind}" for field, kind in document["fields"].items())
        parts.append(f"## {name}\n\n```\n{lines}\n```\n")
    rows = [(f"`{name}`", ", ".join(f"`{one}`" for one in values)) for name, values in found["values"].items()]
    parts.append(f"## Enumerations\n\n{docs_api.table(('type', 'values'), rows)}\n")
    return "\n".join(parts)


def stored() -> Golden:
    found: Golden = json.loads(GOLDEN.read_text("utf-8"))
    return found


def written() -> str:
    return json.dumps(golden(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    before = stored() if GOLDEN.exists() else None
    if before and before["version"] == VERSION and (broken := list(breaking_changes(before, golden()))):
        sys.exit(
            "These changes break programs that read our JSON documents:\n  "
            + "\n  ".join(broken)
            + "\nRestore the fields, or raise VERSION in src/mulligan/records/document.py and say so in CHANGELOG.md."
            + "\nIf this version of the documents was never released, delete tests/golden/documents.json first."
        )
    GOLDEN.write_text(written(), "utf-8")
    PAGE.write_text(page(), "utf-8")
