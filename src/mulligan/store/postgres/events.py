"""The event log of PostgreSQL is read only as far as a crash cannot undo it."""

import threading

from mulligan.store.rows import Record
from mulligan.store.session import Session

FLUSH_LOOKS = 5
FLUSH_PAUSE = 0.002


class PostgresLog:
    def __init__(self) -> None:
        self._pause = threading.Event()

    def confirm(self, session: Session, last: Record) -> None:
        """Wait until the log is flushed to disk. Under load this happens all the time; otherwise request it."""
        for _ in range(FLUSH_LOOKS):
            (row,) = session.rows("events_flushed", {"lsn": last["insert_lsn"]})
            if row["is_flushed"]:
                return
            self._pause.wait(FLUSH_PAUSE)
        # A synchronous commit flushes everything before it.
        session.rows("events_flush")
