"""Pauses in every store: what somebody holds back, since when, and until when."""

from mulligan.lifecycle import pause_events
from mulligan.pause import Pause, PauseRequest
from mulligan.store.clock import Now, moment
from mulligan.store.requests import is_done
from mulligan.store.rows import to_pause
from mulligan.store.script import Statement, Steps
from mulligan.store.statements import Statements
from mulligan.store.values import pause_event, pause_values


class PauseSteps:
    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    def pausing(self, request: PauseRequest, now: Now) -> Steps[Pause]:
        began, _ = pause_events(request.what)
        if not (yield from is_done(self._sql, request.id)):
            yield Statement(self._sql["pause"], {**pause_values(request), "now": now})
            yield Statement(self._sql["event"], pause_event(began, request, now=now))
        (row,) = yield Statement(self._sql["pause_of"], {"what": request.what, "name": request.name})
        return to_pause(row)

    def resuming(self, request: PauseRequest, now: Now) -> Steps[Pause | None]:
        """None when there was none, or it was over by itself."""
        _, ended = pause_events(request.what)
        rows = yield Statement(self._sql["resume"], {"what": request.what, "name": request.name})
        time = yield from moment(self._sql, now)
        if not rows or (rows[0]["until"] is not None and rows[0]["until"] <= time):
            return None
        yield Statement(self._sql["event"], pause_event(ended, request, now=now))
        return to_pause(rows[0])

    def listing(self, now: Now) -> Steps[list[Pause]]:
        rows = yield Statement(self._sql["pauses"], {"now": now})
        return [to_pause(row) for row in rows]
