"""Idempotency-Key: a client's own name of a change, which becomes the request id of the engine."""

from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request

from mulligan.values.ids import id_from
from mulligan.web.access.caller import Caller
from mulligan.web.problems import Problem

HEADER = "Idempotency-Key"
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A change with an Idempotency-Key: its request id, and when the first request with the key came."""

    request_id: str
    first_at: datetime


def read_request_id(request: Request, caller: Caller, name: str | None = None) -> str | None:
    """The same key of the same owner gives the same id in every server; None if the request has no key. A form has its
    key in a field instead: `name`."""
    given = request.headers.getlist(HEADER) if name is None else [name]
    if not given:
        return None
    if len(given) > 1 or not 0 < len(given[0]) <= LONGEST or not _is_printable(given[0]):
        raise Problem(400, "VALIDATION_ERROR", f"{HEADER} must be given once, with 1 to {LONGEST} printable characters")
    scope = "" if caller.owner is None else f"/{caller.owner}"
    return id_from(f"http\0{scope}\0{given[0]}")


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()
