"""Requests made by hand, each with an id of the caller's: one that was carried out is not carried out again.

Repeated, it is answered as it was, whatever became of the matter since. One that changed nothing left no trace: when it
is repeated it is made then, as if it had been asked for only once.
"""

from datetime import datetime
from typing import Any, NamedTuple

from mulligan.store.rows import from_time, to_data
from mulligan.store.session import Session


class PastRequest(NamedTuple):
    """What the log says of a request."""

    at: datetime
    actor: str | None
    data: dict[str, Any]


def find_request(session: Session, request: str) -> PastRequest | None:
    """None: it was not carried out yet."""
    rows = session.rows("done", {"request": request})
    return PastRequest(from_time(rows[0]["at"]), rows[0]["actor"], to_data(rows[0]["data"])) if rows else None


def is_done(session: Session, request: str) -> bool:
    return find_request(session, request) is not None
