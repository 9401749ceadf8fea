"""A projection: code of the user that derives its own tables from the log, with its cursor, in one transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from mulligan.errors import TransactionEnded
from mulligan.records.event import Event, EventPage
from mulligan.store.events import EventOperations
from mulligan.store.session import Session

Apply = Callable[[Sequence[Event], Any], object]


class ApplyFailed(Exception):
    """Carries an error of the user's code past the store, which would take a driver's error for its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def project(session: Session, events: EventOperations, name: str, before: int, page: EventPage, apply: Apply) -> int:
    """Move the cursor, then apply the events. Return 0 without applying them if the cursor has moved meanwhile."""
    if not events.move_cursor(session, name, before, page.position):
        return 0
    if page.events:
        _apply(session, name, page.events, apply)
    return len(page.events)


def _apply(session: Session, name: str, events: Sequence[Event], apply: Apply) -> None:
    try:
        apply(events, session.connection)
    except Exception as error:
        raise ApplyFailed(error) from error
    if not session.can_commit:
        raise TransactionEnded(name)
