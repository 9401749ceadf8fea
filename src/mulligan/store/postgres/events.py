"""The log of PostgreSQL, read in order while others write it: no further than every reader will see the same."""

import threading

from mulligan.records.event import Event
from mulligan.store.rows import to_event
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements

FLUSH_LOOKS = 5
FLUSH_PAUSE = 0.002


class LogSteps:
    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._pause = threading.Event()

    def events(self, owner: str | None, after: int, limit: int) -> Steps[list[Event]]:
        """Whole transactions below the oldest one under way, and only once a crash could not undo them."""
        (seen,) = yield Statement(self._sql["events_horizon"], {})
        base, horizon = seen["base"], str(seen["horizon"])
        page = {"owner": owner, "base": base, "after": str(max(0, after - base)), "horizon": horizon}
        rows = yield Statement(self._sql["events"], {**page, "limit": limit + 1})
        if len(rows) > limit:
            first = {**page, "xid": str(rows[0]["position"] - base)}
            # Of the last transaction there may be more; one that is larger than a page is a page of its own.
            whole = [row for row in rows if row["position"] != rows[-1]["position"]]
            rows = whole or (yield Statement(self._sql["events_of_transaction"], first))
        if rows:
            yield from self._flushed(seen["insert_lsn"])
        return [to_event(row) for row in rows]

    def last_position(self, back: int) -> Steps[int]:
        """As far as a reader gets who reads it all now: whoever begins here misses nothing."""
        (row,) = yield Statement(self._sql["last_position"], {"back": back})
        if row["position"]:
            yield from self._flushed(row["insert_lsn"])
        return int(row["position"])

    def _flushed(self, lsn: str) -> Steps[None]:
        """Under load the log is flushed all the time; in a lull we have to ask for it."""
        for _ in range(FLUSH_LOOKS):
            (row,) = yield Statement(self._sql["events_flushed"], {"lsn": lsn})
            if row["is_flushed"]:
                return
            self._pause.wait(FLUSH_PAUSE)
        # A synchronous commit flushes all that stands before it.
        yield Statement(self._sql["events_flush"], {})
