"""Read the parameters and the JSON body of a request. What does not fit is a problem that names its place."""

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar, get_args, get_origin

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from mulligan.web.choices import add_choices
from mulligan.web.problems import Problem, misfit
from mulligan.web.written import check_written

S = TypeVar("S", bound=msgspec.Struct)

LARGEST_BODY = 2**20
# Of a larger body so much is read and dropped: closing a connection while its client sends may lose the answer.
LARGEST_READ = 4 * LARGEST_BODY
# A larger body is decoded, and its values are checked, in a thread: a whole one takes up to a third of a second.
LARGE_BODY = 16 * 1024
MOST_LEVELS = 50
LARGEST_INTEGER = 2**63 - 1
# Seconds within which a body must have come.
PATIENCE = 30.0

# Also a string without an end: looking for one from each of its quotes would take quadratic time.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_query(kind: type[S], given: QueryParams) -> S:
    """Convert the query parameters. A parameter whose type is a list may be given several times."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    if unknown := given.keys() - known.keys():
        name = min(unknown)
        raise _bad_query(name, f"there is no parameter {name!r:.100}; there are: {', '.join(known)}")
    values: dict[str, Any] = {}
    for name in given:
        several = given.getlist(name)
        if is_list(known[name].type):
            values[name] = several
        elif len(several) > 1:
            raise _bad_query(name, f"parameter {name!r} is given {len(several)} times")
        else:
            values[name] = several[0]
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise misfit(add_choices(str(error), kind), below="?") from None


def _bad_query(name: str, message: str) -> Problem:
    return Problem(400, "VALIDATION_ERROR", message, path=f"?.{name:.100}")


def is_list(hint: Any) -> bool:
    """A list, also with constraints or as one of several types."""
    return (get_origin(hint) or hint) is list or any(map(is_list, get_args(hint)))


async def read_body(request: Request) -> bytes:
    """The JSON body, not decoded yet. An empty body is an empty object."""
    body = await read_bytes(request)
    if body:
        _require_json(request)
    return body or b"{}"


def decode(body: bytes, kind: type[S]) -> S:
    """Raises a problem for what is not JSON, or not JSON as it should be: deep, with twin keys, with huge integers."""
    _check_depth(body)
    try:
        # The decoder below takes the last of two keys with the same name, and integers of any size.
        _STRICT.decode(body.decode())
        found = msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise misfit(add_choices(str(error), kind)) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        lone = "a string in it has half of a surrogate pair" if _SURROGATE.search(body) else str(error)
        raise Problem(400, "MALFORMED_BODY", f"the body is not JSON: {lone:.300}", path="$") from None
    check_written(found)
    return found


def _check_depth(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") <= MOST_LEVELS:
        return
    depth = 0
    for bracket in _STRING.sub(b"", body).translate(None, _OTHERS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MOST_LEVELS:
            raise Problem(400, "VALIDATION_ERROR", f"the body has more than {MOST_LEVELS} levels", path="$")


def _without_twins(pairs: Iterable[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Problem(400, "VALIDATION_ERROR", f"an object in the body has two fields {name!r:.100}", path="$")
        seen.add(name)


def _bounded_integer(digits: str) -> None:
    if len(digits) > 20 or abs(int(digits)) > LARGEST_INTEGER:
        raise Problem(
            400, "VALIDATION_ERROR", f"{digits:.30} is too large: an integer has at most 64 bits, signed", path="$"
        )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_without_twins, parse_int=_bounded_integer, parse_constant=_no_constant)


def _require_json(request: Request) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != "application/json" and not (given.startswith("application/") and given.endswith("+json")):
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", f"a body is application/json, not {given or 'nothing'!r:.100}")


async def read_bytes(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """Raises a problem for a body that is too large, or does not come in time."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > LARGEST_READ:
        raise _too_large(largest)
    try:
        async with asyncio.timeout(PATIENCE):
            return await _read_bounded(request, largest)
    except TimeoutError:
        raise Problem(408, "TOO_SLOW", f"the body did not come within {PATIENCE:.0f} seconds") from None


async def _read_bounded(request: Request, largest: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST_READ:
            break
        if size <= largest:
            parts.append(part)
    if size > largest:
        raise _too_large(largest)
    return b"".join(parts)


def _too_large(largest: int) -> Problem:
    return Problem(413, "TOO_LARGE", f"the body is larger than {largest:,} bytes")
