"""Pauses: what is blocked, since when, and until when."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from mulligan.lifecycle import pause_events
from mulligan.records.pause import Pause, PauseRequest
from mulligan.store.events import PastRequest, event_values, find_request
from mulligan.store.rows import Record, to_duration, to_record
from mulligan.store.session import Session


class PauseOperations:
    def pause(self, session: Session, requests: Sequence[PauseRequest]) -> Pause:
        """Return the first pause."""
        first, *_ = [self._pause(session, request) for request in requests]
        return first

    def _pause(self, session: Session, request: PauseRequest) -> Pause:
        if before := find_request(session, request.id):
            return _restore_begun(request, before)
        began, _ = pause_events(request.what)
        (row,) = session.rows("pause", pause_values(request))
        session.rows("event", pause_event(began, request), now=row["since"])
        return to_pause(row)

    def resume(self, session: Session, requests: Sequence[PauseRequest]) -> Pause | None:
        """Return the first pause that was ended."""
        ended = [self._resume(session, request) for request in requests]
        return next(filter(None, ended), None)

    def _resume(self, session: Session, request: PauseRequest) -> Pause | None:
        """Return None if there was no pause, or it had ended by itself."""
        if before := find_request(session, request.id):
            return _restore_ended(request, before)
        _, ended = pause_events(request.what)
        rows = session.rows("resume", {"what": request.what, "name": request.name})
        time = session.moment()
        if not rows or (rows[0]["until"] is not None and rows[0]["until"] <= time):
            return None
        pause = to_pause(rows[0])
        session.rows("event", pause_event(ended, request, paused=_pause_data(pause)))
        return pause

    def list_all(self, session: Session) -> list[Pause]:
        rows = session.rows("pauses")
        return [to_pause(row) for row in rows]


def _restore_begun(request: PauseRequest, before: PastRequest) -> Pause:
    seconds = before.data.get("for")
    return Pause(
        what=request.what,
        name=request.name,
        since=before.at,
        until=None if seconds is None else before.at + timedelta(seconds=seconds),
        actor=before.actor,
        reason=before.data.get("reason"),
    )


def _pause_data(pause: Pause) -> dict[str, Any]:
    """The event data of a pause that was ended."""
    data = {"since": pause.since, "until": pause.until, "actor": pause.actor, "reason": pause.reason}
    return {name: value for name, value in data.items() if value is not None}


def _restore_ended(request: PauseRequest, before: PastRequest) -> Pause | None:
    if not (data := before.data.get("paused")):
        return None
    return Pause(
        what=request.what,
        name=request.name,
        since=datetime.fromisoformat(data["since"]),
        until=datetime.fromisoformat(data["until"]) if "until" in data else None,
        actor=data.get("actor"),
        reason=data.get("reason"),
    )


def pause_values(request: PauseRequest) -> dict[str, Any]:
    return {
        "what": request.what,
        "name": request.name,
        "duration": None if request.duration is None else to_duration(request.duration),
        "actor": request.actor,
        "reason": request.reason,
    }


def pause_event(type_: str, request: PauseRequest, *, paused: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an event without a job. `for` is missing if the pause has no end. `paused` is the pause that was ended."""
    data: dict[str, Any] = {"what": request.what, "name": request.name}
    if paused is not None:
        data["paused"] = paused
    if request.duration is not None:
        data["for"] = request.duration.total_seconds()
    if request.reason:
        data["reason"] = request.reason
    return event_values(type_, request=request.id, actor=request.actor, data=data)


def to_pause(row: Record) -> Pause:
    return to_record(Pause, row)
