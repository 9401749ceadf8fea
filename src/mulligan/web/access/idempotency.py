"""Idempotency-Key: a client's own name of a change, which becomes the request id of the engine."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec
from starlette.requests import Request

from mulligan.values.ids import id_from
from mulligan.web.access.caller import Caller
from mulligan.web.problems import Problem

HEADER = "Idempotency-Key"
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A change with an Idempotency-Key: its request id, when the first request with the key came, and the digest of the
    one that succeeded, if one did."""

    request_id: str
    first_at: datetime
    request: str | None = None

    def check(self, digest: str) -> None:
        """Raises a Problem, 422, if another request than this one succeeded under the key."""
        if self.request not in (None, digest):
            message = f"this {HEADER} belongs to another request; give each request a key of its own"
            raise Problem(422, "IDEMPOTENCY_KEY_REUSED", message)


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


def digest_request(request: Request, body: Any) -> str:
    """Requests that ask for the same have the same digest, in whatever order their fields are."""
    address = f"{request.method} {request.scope['path']}?{request.url.query}\0"
    return sha256(address.encode() + msgspec.json.encode(body, order="sorted")).hexdigest()


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()
