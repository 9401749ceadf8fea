"""Read the event log of PostgreSQL in order while others write it: only as far as every reader will see the same."""

import threading

from mulligan.records.event import Event
from mulligan.store.events import to_event
from mulligan.store.session import Session

FLUSH_LOOKS = 5
FLUSH_PAUSE = 0.002


class PostgresLog:
    def __init__(self) -> None:
        self._pause = threading.Event()

    def events(self, session: Session, owner: str | None, after: int, limit: int) -> list[Event]:
        """Return whole transactions below the oldest open one, and only once a crash cannot undo them."""
        (seen,) = session.rows("events_horizon")
        base, horizon = seen["base"], str(seen["horizon"])
        page = {"owner": owner, "base": base, "after": str(max(0, after - base)), "horizon": horizon}
        rows = session.rows("events", {**page, "limit": limit + 1})
        if len(rows) > limit:
            first = {**page, "xid": str(rows[0]["position"] - base)}
            # The last transaction may have more events. One that is larger than a page is a page by itself.
            whole = [row for row in rows if row["position"] != rows[-1]["position"]]
            rows = whole or session.rows("events_of_transaction", first)
        if rows:
            self._wait_for_flush(session, seen["insert_lsn"])
        return [to_event(row) for row in rows]

    def last_position(self, session: Session, back: int) -> int:
        """Return how far a reader of the whole log gets now. A reader that begins here misses nothing."""
        (row,) = session.rows("last_position", {"back": back})
        if row["position"]:
            self._wait_for_flush(session, row["insert_lsn"])
        return int(row["position"])

    def _wait_for_flush(self, session: Session, lsn: str) -> None:
        """Wait until the log is flushed to disk. Under load this happens all the time; otherwise request it."""
        for _ in range(FLUSH_LOOKS):
            (row,) = session.rows("events_flushed", {"lsn": lsn})
            if row["is_flushed"]:
                return
            self._pause.wait(FLUSH_PAUSE)
        # A synchronous commit flushes everything before it.
        session.rows("events_flush")
