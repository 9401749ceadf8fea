"""Pauses in every store: what somebody holds back, since when, and until when."""

from datetime import datetime, timedelta
from typing import Any

from mulligan.lifecycle import pause_events
from mulligan.records.pause import Pause, PauseRequest
from mulligan.store.idempotency import PastRequest, find_request
from mulligan.store.rows import to_pause
from mulligan.store.session import Now, Session
from mulligan.store.values import pause_event, pause_values


class PauseOperations:
    def pause(self, session: Session, request: PauseRequest, now: Now) -> Pause:
        if before := find_request(session, request.id):
            return _begun(request, before)
        began, _ = pause_events(request.what)
        (row,) = session.rows("pause", {**pause_values(request), "now": now})
        session.rows("event", pause_event(began, request, now=row["since"]))
        return to_pause(row)

    def resume(self, session: Session, request: PauseRequest, now: Now) -> Pause | None:
        """None when there was none, or it was over by itself."""
        if before := find_request(session, request.id):
            return _ended(request, before)
        _, ended = pause_events(request.what)
        rows = session.rows("resume", {"what": request.what, "name": request.name})
        time = session.moment(now)
        if not rows or (rows[0]["until"] is not None and rows[0]["until"] <= time):
            return None
        pause = to_pause(rows[0])
        session.rows("event", pause_event(ended, request, now=now, paused=_told(pause)))
        return pause

    def list_all(self, session: Session, now: Now) -> list[Pause]:
        rows = session.rows("pauses", {"now": now})
        return [to_pause(row) for row in rows]


def _begun(request: PauseRequest, before: PastRequest) -> Pause:
    seconds = before.data.get("for")
    return Pause(
        what=request.what,
        name=request.name,
        since=before.at,
        until=None if seconds is None else before.at + timedelta(seconds=seconds),
        actor=before.actor,
        reason=before.data.get("reason"),
    )


def _told(pause: Pause) -> dict[str, Any]:
    """What the log keeps of a pause that was ended."""
    said = {"since": pause.since, "until": pause.until, "actor": pause.actor, "reason": pause.reason}
    return {name: value for name, value in said.items() if value is not None}


def _ended(request: PauseRequest, before: PastRequest) -> Pause | None:
    if not (said := before.data.get("paused")):
        return None
    return Pause(
        what=request.what,
        name=request.name,
        since=datetime.fromisoformat(said["since"]),
        until=datetime.fromisoformat(said["until"]) if "until" in said else None,
        actor=said.get("actor"),
        reason=said.get("reason"),
    )
