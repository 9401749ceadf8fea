"""The log of PostgreSQL, read in order while others write it: no further than every reader will see the same."""

import threading

from mulligan.records.event import Event
from mulligan.store.rows import to_event
from mulligan.store.session import Session

FLUSH_LOOKS = 5
FLUSH_PAUSE = 0.002


class PostgresLog:
    def __init__(self) -> None:
        self._pause = threading.Event()

    def events(self, session: Session, owner: str | None, after: int, limit: int) -> list[Event]:
        """Whole transactions below the oldest one under way, and only once a crash could not undo them."""
        (seen,) = session.rows("events_horizon")
        base, horizon = seen["base"], str(seen["horizon"])
        page = {"owner": owner, "base": base, "after": str(max(0, after - base)), "horizon": horizon}
        rows = session.rows("events", {**page, "limit": limit + 1})
        if len(rows) > limit:
            first = {**page, "xid": str(rows[0]["position"] - base)}
            # Of the last transaction there may be more; one that is larger than a page is a page of its own.
            whole = [row for row in rows if row["position"] != rows[-1]["position"]]
            rows = whole or session.rows("events_of_transaction", first)
        if rows:
            self._flushed(session, seen["insert_lsn"])
        return [to_event(row) for row in rows]

    def last_position(self, session: Session, back: int) -> int:
        """As far as a reader gets who reads it all now: whoever begins here misses nothing."""
        (row,) = session.rows("last_position", {"back": back})
        if row["position"]:
            self._flushed(session, row["insert_lsn"])
        return int(row["position"])

    def _flushed(self, session: Session, lsn: str) -> None:
        """Under load the log is flushed all the time; in a lull we have to ask for it."""
        for _ in range(FLUSH_LOOKS):
            (row,) = session.rows("events_flushed", {"lsn": lsn})
            if row["is_flushed"]:
                return
            self._pause.wait(FLUSH_PAUSE)
        # A synchronous commit flushes all that stands before it.
        session.rows("events_flush")
