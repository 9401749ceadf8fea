"""Read the fields of a form. What does not fit is a problem that names the field."""

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from mulligan.web.problems import Problem
from mulligan.web.reading import is_list, read_bytes

S = TypeVar("S", bound=msgspec.Struct)

LARGEST_FORM = 256 * 1024
MOST_FIELDS = 5_000
MEDIA_TYPE = "application/x-www-form-urlencoded"


async def read_fields(request: Request, largest: int = LARGEST_FORM) -> dict[str, list[str]]:
    """The fields of the form, each with its values, without empty ones."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != MEDIA_TYPE:
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", f"a form must be {MEDIA_TYPE}")
    body = await read_bytes(request, largest)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Problem(400, "MALFORMED_BODY", "the form cannot be read") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if value.strip():
            fields.setdefault(name, []).append(value.strip())
    return fields


def decode_form(kind: type[S], fields: dict[str, list[str]]) -> S:
    """Raises a Problem for a field that is unknown, missing or of the wrong type."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for name, given in fields.items():
        if name not in known:
            raise Problem(400, "VALIDATION_ERROR", f"the form has no field {name!r:.100}")
        values[name] = given if is_list(known[name].type) else given[-1]
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        message = str(error).replace("Object missing required field", "The form lacks the field")
        raise Problem(400, "VALIDATION_ERROR", message.replace(" - at `$.", " (")) from None
