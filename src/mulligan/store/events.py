"""Events: the values to write, the histories of jobs, the cursors of readers, and requests that were carried out.

Manual requests carry an id of the caller: a request that was carried out is not carried out again. A repeated request
gets its first answer, whatever has changed since. A request that changed nothing leaves no trace; repeating it carries
it out.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from mulligan.failure.verdict import Verdict
from mulligan.records.event import Cursor, Event
from mulligan.store.messages import Claim
from mulligan.store.rows import Record, from_time, to_json, to_record
from mulligan.store.session import Session

_object = msgspec.json.Decoder(dict[str, Any]).decode


class EventOperations:
    def of_job(self, session: Session, job: str, owner: str | None, after: int, limit: int) -> list[Event]:
        values = {"job": job, "owner": owner, "after": after, "limit": limit}
        return [to_event(row) for row in session.rows("events_of_job", values)]

    def of_many(self, session: Session, jobs: Sequence[str]) -> dict[str, list[Event]]:
        return to_histories(jobs, session.rows("histories", {"jobs": to_json(list(jobs))}))

    def last_failures(self, session: Session, jobs: Sequence[str], owner: str | None) -> dict[str, Event]:
        rows = session.rows("last_failures", {"jobs": to_json(list(jobs)), "owner": owner})
        return {row["job"]: to_event(row) for row in rows}

    def cursors(self, session: Session) -> list[Cursor]:
        return [to_cursor(row) for row in session.rows("cursors")]

    def set_cursor(self, session: Session, name: str, position: int) -> None:
        session.rows("set_cursor_shared")
        session.rows("set_cursor", {"name": name, "position": position})

    def drop_cursor(self, session: Session, name: str) -> None:
        session.rows("drop_cursor", {"name": name})


def event_values(
    type_: str,
    job: str = "",
    kind: str = "",
    owner: str = "",
    attempt: int = 0,
    *,
    request: str | None = None,
    actor: str | None = None,
    code: str | None = None,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "request": request,
        "type": type_,
        "job": job,
        "kind": kind,
        "owner": owner,
        "attempt": attempt,
        "actor": actor,
        "code": code,
        "data": to_json(data) if data else "{}",
    }


def start_data(claim: Claim, trigger: str) -> str:
    data = {"worker": claim.incarnation, "trigger": trigger}
    return to_json(data if claim.version is None else data | {"version": claim.version})


def failure_data(verdict: Verdict, reasons: Mapping[str, Any]) -> dict[str, Any]:
    """The event data of a failure outside any attempt."""
    return {
        "class": verdict.error_class,
        "message": verdict.message,
        "group": verdict.group,
        "reasons": {"rule": verdict.rule, "code": verdict.code, **reasons},
    }


def to_histories(jobs: Iterable[str], rows: Iterable[Record]) -> dict[str, list[Event]]:
    histories: dict[str, list[Event]] = {job: [] for job in jobs}
    for row in rows:
        histories[row["job"]].append(to_event(row))
    return histories


def to_event(row: Record) -> Event:
    return Event(
        position=row["position"],
        type=row["type"],
        job=row["job"],
        kind=row["kind"],
        owner=row["owner"],
        attempt=row["attempt"],
        at=from_time(row["at"]),
        actor=row["actor"],
        code=row["code"],
        data=to_data(row["data"]),
    )


def to_data(text: str) -> dict[str, Any]:
    """Return a damaged event's data as it is: it must not stop a reader of the log."""
    try:
        return _object(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return {"damaged": text}


def to_cursor(row: Record) -> Cursor:
    return to_record(Cursor, row)


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
