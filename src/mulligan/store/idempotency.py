"""Manual requests carry an id of the caller: a request that was carried out is not carried out again.

A repeated request gets its first answer, whatever has changed since. A request that changed nothing leaves no trace;
repeating it carries it out.
"""

from datetime import datetime
from typing import Any, NamedTuple

from mulligan.store.events import to_data
from mulligan.store.rows import from_time
from mulligan.store.session import Session


class PastRequest(NamedTuple):
    """A request as recorded in the log."""

    at: datetime
    actor: str | None
    data: dict[str, Any]


def find_request(session: Session, request: str) -> PastRequest | None:
    """Return None if it was not carried out yet."""
    rows = session.rows("find_request", {"request": request})
    return PastRequest(from_time(rows[0]["at"]), rows[0]["actor"], to_data(rows[0]["data"])) if rows else None


def is_done(session: Session, request: str) -> bool:
    return find_request(session, request) is not None
