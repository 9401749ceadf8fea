"""Events: the values to write, the histories of jobs, the cursors of readers, and requests that were carried out.

Manual requests carry an id of the caller: a request that was carried out is not carried out again. A repeated request
gets its first answer, whatever has changed since. A request that changed nothing leaves no trace; repeating it carries
it out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from mulligan.errors import BadArgument
from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import BATCH_EVENTS, SERVICE_EVENTS, pause_events
from mulligan.records.event import Cursor, Event, EventFilter, EventPage
from mulligan.records.progress import Progress
from mulligan.store.messages import Claim
from mulligan.store.rows import Record, from_time, to_json, to_record, to_time
from mulligan.store.session import Rows, Session

_object = msgspec.json.Decoder(dict[str, Any]).decode


# A page reads at most this many events that a filter may leave out; then it ends, and says how far it came.
SCAN = 10_000
# A transaction that is larger than a page is a page by itself.
WHOLE = 2**31 - 1

# Waits until what was read cannot be undone by a crash of the server.
Confirm = Callable[[Session, Record], None]


class Subject(NamedTuple):
    """A batch or a service: the types of its own events, and how their data names it."""

    types: tuple[str, ...]
    data: str

    @classmethod
    def batch(cls, batch_id: str) -> "Subject":
        return cls(BATCH_EVENTS, to_json([_name_in_data("batch", batch_id)]))

    @classmethod
    def service(cls, name: str) -> "Subject":
        """Pauses name it in another way."""
        named = [_name_in_data(field, name) for field in ("service", "name")]
        return cls((*SERVICE_EVENTS, *pause_events("service")), to_json(named))


def _name_in_data(field: str, name: str) -> str:
    """How it stands in the JSON of an event. Quotes within values are escaped, so it is found nowhere else."""
    return to_json({field: name})[1:-1]


class EventOperations:
    def __init__(self, confirm: Confirm) -> None:
        self._confirm = confirm

    def stream(self, session: Session, wanted: EventFilter, after: int, limit: int) -> EventPage:
        """Read whole transactions, in order, up to the oldest one that is still open."""
        (last,) = session.rows("last_position", {"back": 0})
        rows: Rows = []
        until, end = after, last["position"]
        if end > after:
            rows, until = self._read(session, wanted, after, end, limit)
            self._confirm(session, last)
        # Read last: what was deleted before the events were read is noted by now.
        (log,) = session.rows("log")
        if after > log["reached"]:
            raise BadArgument("after", after, _of_this_log(log["reached"]))
        is_pruned = wanted.job is None and after < log["pruned"]
        return EventPage(tuple(map(to_event, rows)), until, until >= end, is_pruned)

    def entries(self, session: Session, after: int, until: int | None, limit: int) -> tuple[Rows, int, bool]:
        """Return the rows of all events as the built-in projections read them, the position that they reach, and
        whether that is the end. `until` is where to end at the latest.

        A crash may still undo them. Then it also undoes what is derived from them and written later.
        """
        (last,) = session.rows("last_position", {"back": 0})
        end = last["position"] if until is None else min(last["position"], until)
        if end <= after:
            return [], after, True
        rows, reached = self._read(session, EventFilter(), after, end, limit, "entries")
        return rows, reached, reached >= last["position"]

    def _read(
        self, session: Session, wanted: EventFilter, after: int, end: int, limit: int, statement: str = "stream"
    ) -> tuple[Rows, int]:
        """Return the events, and the position up to which there are no others."""
        conditions, values = to_conditions(wanted)
        until = self._find_bound(session, wanted, after, end)
        page = {**values, "after": after, "until": until}
        rows = session.filtered(statement, conditions, {**page, "limit": limit + 1})
        if len(rows) <= limit:
            return rows, until
        # The last transaction may have more events.
        first, last = rows[0]["position"], rows[-1]["position"]
        if first == last:
            alone = {**page, "after": first - 1, "until": first, "limit": WHOLE}
            return session.filtered(statement, conditions, alone), first
        rows = [row for row in rows if row["position"] != last]
        return rows, rows[-1]["position"]

    def _find_bound(self, session: Session, wanted: EventFilter, after: int, end: int) -> int:
        # The events of a job are found by an index. Without a filter all events are wanted.
        if wanted.job is not None or wanted == EventFilter():
            return end
        rows = session.rows("stream_bound", {"after": after, "until": end, "scan": SCAN - 1})
        return int(rows[0]["position"]) if rows else end

    def last_position(self, session: Session, back: int) -> int:
        """Return how far a reader of the whole log gets now. A reader that begins here misses nothing."""
        (last,) = session.rows("last_position", {"back": back})
        if last["position"]:
            self._confirm(session, last)
        return int(last["position"])

    def of_job(self, session: Session, job: str, owner: str | None, after: int, limit: int) -> list[Event]:
        values = {"job": job, "owner": owner, "after": after, "limit": limit}
        return [to_event(row) for row in session.rows("events_of_job", values)]

    def about(self, session: Session, wanted: Subject, owner: str | None, limit: int) -> list[Event]:
        """Return the newest events about a batch or a service itself, the newest first."""
        values = {"types": to_json(wanted.types), "about": wanted.data, "owner": owner, "scan": SCAN, "limit": limit}
        return [to_event(row) for row in session.rows("events_about", values)]

    def of_many(self, session: Session, jobs: Sequence[str]) -> dict[str, list[Event]]:
        return to_histories(jobs, session.rows("histories", {"jobs": to_json(list(jobs))}))

    def last_failures(self, session: Session, jobs: Sequence[str], owner: str | None) -> dict[str, Event]:
        rows = session.rows("last_failures", {"jobs": to_json(list(jobs)), "owner": owner})
        return {row["job"]: to_event(row) for row in rows}

    def progress(
        self,
        session: Session,
        job: str | None,
        batch: str | None,
        owner: str | None,
        since: datetime | None,
        limit: int,
    ) -> list[Progress]:
        after = 0 if since is None else to_time(since)
        values = {"job": job, "batch": batch, "owner": owner, "since": after, "limit": limit}
        return [to_progress(row) for row in session.rows("running_progress", values)]

    def cursors(self, session: Session) -> list[Cursor]:
        return [to_cursor(row) for row in session.rows("cursors")]

    def set_cursor(self, session: Session, name: str, position: int) -> None:
        session.rows("set_cursor_shared")
        session.rows("set_cursor", {"name": name, "position": position})

    def add_cursor(self, session: Session, name: str) -> None:
        """Store a cursor at the beginning of the log, unless there is one of this name."""
        session.rows("set_cursor_shared")
        session.rows("add_cursor", {"name": name})

    def move_cursor(self, session: Session, name: str, before: int, position: int) -> bool:
        """Return whether the cursor was still at `before`. No events are deleted because of it: it only rises."""
        return bool(session.rows("move_cursor", {"name": name, "before": before, "position": position}))

    def drop_cursor(self, session: Session, name: str) -> bool:
        """Return whether there was one."""
        return bool(session.rows("drop_cursor", {"name": name}))


def _of_this_log(reached: int) -> str:
    # A reader that went on from there would miss every event up to it.
    return (
        f"at most {reached:,}, the highest position that this log has reached: "
        "a higher one is of another database, or of this one before a backup was restored"
    )


def to_conditions(wanted: EventFilter) -> tuple[list[str], dict[str, Any]]:
    conditions, values = ["true"], {}
    for name in ("job", "kind", "owner"):
        value = getattr(wanted, name)
        if value is not None:
            conditions.append(f"event.{name} = :{name}")
            values[name] = value
    if wanted.types is not None:
        conditions.append("event.type = ANY (ARRAY(SELECT json_array_elements_text(:types::json)))")
        values["types"] = to_json(list(wanted.types))
    if wanted.batch is not None:
        conditions.append(OF_BATCH)
        values |= {"batch": wanted.batch, "about_batch": to_json({"batch": wanted.batch})[1:-1]}
    return conditions, values


# Events of its members, and those of the batch itself, which have no job.
OF_BATCH = """(
    EXISTS (SELECT 1 FROM mulligan_jobs AS member WHERE member.id = event.job AND member.batch = :batch)
    OR (event.job = '' AND event.type LIKE 'batch.%' AND strpos(event.data, :about_batch) > 0)
)"""


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
    data = to_data(row["data"])
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
        data=data,
        batch=row["batch"] if row["job"] else data.get("batch"),
        queue=row["queue"] or "",
        service=row["service"] if row["job"] else data.get("service", ""),
        cost=row["cost"] or 0,
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


def to_progress(row: Record) -> Progress:
    return Progress(
        row["id"],
        row["progress"],
        row["progress_text"],
        from_time(row["updated_at"]),
        kind=row["kind"],
        owner=row["owner"],
        batch=row["batch"],
    )
