"""Rows and records: integers of microseconds in every store, aware datetimes outside."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any

import msgspec

from mulligan.errors import LeaseLost, StoreDamaged
from mulligan.lifecycle import State
from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.duty import DutyRun
from mulligan.records.event import Cursor, Event
from mulligan.records.job import ONCE, Fence, Job, Lease, Page
from mulligan.records.pause import Pause
from mulligan.records.retention import EndedCount
from mulligan.records.schedule import Definition, ScheduleRecord
from mulligan.store.messages import Lane, WorkerRecord
from mulligan.values.moment import EPOCH, microseconds

Record = dict[str, Any]
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_decode = msgspec.json.decode
# Made once: a type that is given with each call is made sense of each time.
_counts = msgspec.json.Decoder(dict[str, int]).decode
_texts = msgspec.json.Decoder(tuple[str, ...]).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode

LEASE_COLUMNS = (
    "id",
    "attempt",
    "leased_by",
    "claim",
    "kind",
    "owner",
    "arguments",
    "last_attempt_at",
    "lease_until",
    "losses",
    "crashes",
    "service",
    "service_epoch",
    "failures",
    "batch",
    "max_crashes",
)
# What a claim brings: a whole record has fifty columns, and most attempts need none of the others.
CLAIM_COLUMNS = (*LEASE_COLUMNS, "priority", "rank", "trigger")
CLAIMED = ", ".join(CLAIM_COLUMNS)


def to_duration(value: timedelta) -> int:
    return value // _MICROSECOND


def from_duration(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(microseconds=value)


def to_time(moment: datetime) -> int:
    return microseconds(moment)


def from_time(value: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=value)
    except OverflowError:
        # Only a row changed by hand holds such a number; it must not stop whoever reads past it.
        return _LATEST if value > 0 else _EARLIEST


def earliest(*moments: int | None) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_time(value)


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def from_json(text: str) -> Any:
    return _decode(text)


def _column_names(cursor: Any) -> list[str]:
    # psycopg's `description` builds an object for each of fifty columns, each time.
    result = getattr(cursor, "pgresult", None)
    if result is None:
        return [column[0] for column in cursor.description]
    return [result.fname(index).decode() for index in range(result.nfields)]


def records(cursor: Any, rows: Iterable[Sequence[Any]]) -> list[Record]:
    """Rows by column name."""
    names = _column_names(cursor)
    return [dict(zip(names, row, strict=True)) for row in rows]


def to_job(row: Record, *, is_duplicate: bool = False) -> Job[Any]:
    """The record; a row that somebody damaged by hand is named, not guessed at."""
    try:
        return _job(row, is_duplicate)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.DecodeError) as error:
        raise StoreDamaged(f"the row of job {row['id']!r} is damaged: {error}") from error


def _job(row: Record, is_duplicate: bool) -> Job[Any]:  # noqa: FBT001
    return Job(
        id=row["id"],
        kind=row["kind"],
        owner=row["owner"],
        queue=row["queue"],
        service=row["service"],
        priority=row["priority"],
        state=State(row["state"]),
        arguments=to_arguments(row["arguments"]),
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        losses=row["losses"],
        snoozes=row["snoozes"],
        manual_retries=row["manual_retries"],
        max_attempts=row["max_attempts"],
        max_crashes=row["max_crashes"],
        max_snoozes=row["max_snoozes"],
        code_failures=_counts(row["code_failures"]),
        previous_delay=from_duration(row["previous_delay"]),
        trigger=row["trigger"],
        submitted_at=from_time(row["submitted_at"]),
        enqueued_at=from_time(row["enqueued_at"]),
        queued_at=_moment(row["queued_at"]),
        due_at=from_time(row["due_at"]),
        deadline=_moment(row["deadline"]),
        started_at=_moment(row["started_at"]),
        last_attempt_at=_moment(row["last_attempt_at"]),
        finished_at=_moment(row["finished_at"]),
        updated_at=from_time(row["updated_at"]),
        progress=row["progress"],
        progress_text=row["progress_text"],
        result=None if row["result"] is None else _decode(row["result"]),
        error_code=row["error_code"],
        error_class=row["error_class"],
        error_message=row["error_message"],
        error_detail=_error_detail(row),
        last_code=row["last_code"],
        last_class=row["last_class"],
        last_message=row["last_message"],
        last_detail=row["last_detail"] or None,
        group=row["error_group"],
        batch=row["batch"],
        dedupe_key=row["dedupe_key"],
        dedupe_scope=row["dedupe_scope"],
        dedupe_until=_moment(row["dedupe_until"]),
        tags=_texts(row["tags"]),
        cost=row["cost"],
        leased_by=row["leased_by"],
        lease_until=_moment(row["lease_until"]),
        cancel_requested=bool(row["cancel_requested"]),
        waiting_for=row["waiting_for"],
        timeout=from_duration(row["timeout"]),
        version=row["version"],
        gate=row["gate"],
        is_duplicate=is_duplicate,
    )


def _error_detail(row: Record) -> str | None:
    """A job may fail without an attempt, as by its deadline, or by a worker of an older version, which does not write
    the last failure: then that is another one. A planned retry has another line for people than the end."""
    error, last = (row["error_code"], row["error_message"]), (row["last_code"], row["last_message"])
    return row["last_detail"] or None if error[0] is not None and error == last else None


def to_arguments(text: str) -> Any:
    """Damaged ones as they are: the job is shown, and fails when it is run."""
    try:
        return _decode(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return text


def to_leases(cursor: Any, rows: Sequence[Sequence[Any]], job: Callable[[str], Job[Any]] | None = None) -> list[Lease]:
    """Leases in claim order; the whole job of each is built only when somebody asks for it, or found with `job` if
    the rows are not whole."""
    if not rows:
        return []
    names = _column_names(cursor)
    picked, time = _getter(names, LEASE_COLUMNS), _remembered(from_time)
    begun = names.index("begun_attempt") if "begun_attempt" in names else None
    leases = []
    for row in sorted(rows, key=_getter(names, ("priority", "rank", "id"))):
        id_, attempt, incarnation, claim, kind, owner, arguments, claimed_at, until, *rest = picked(row)
        losses, crashes, service, service_epoch, failures, batch, max_crashes = rest
        fence, is_only = Fence(id_, attempt, incarnation, claim), max_crashes == ONCE["max_crashes"]
        lease = Lease(
            fence,
            kind,
            owner,
            arguments,
            time(claimed_at or 0),
            time(until),
            _builder(names, row) if job is None else partial(_own, job, fence),
            is_whole=job is None,
            service=service,
            service_epoch=service_epoch,
            is_retry=failures > 0,
            is_suspect=bool(losses or crashes),
            batch=batch,
            at_most_once=is_only,
            has_begun=not is_only or begun is None or row[begun] == attempt,
        )
        leases.append(lease)
    return leases


def _getter(names: Sequence[str], wanted: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    return itemgetter(*[names.index(name) for name in wanted])


def _remembered(function: Callable[[int], datetime]) -> Callable[[int], datetime]:
    """The leases of one claim share their times."""
    known: dict[int, datetime] = {}

    def recall(value: int) -> datetime:
        if value not in known:
            known[value] = function(value)
        return known[value]

    return recall


def complete(leases: Iterable[Lease], rows: Iterable[Record]) -> None:
    """Give the leases the whole records; one whose row is gone is as good as damaged."""
    found = {row["id"]: row for row in rows}
    for lease in leases:
        lease.load = partial(_found, lease.fence.id, found.get(lease.fence.id))
        lease.is_whole = True


def _own(job: Callable[[str], Job[Any]], fence: Fence) -> Job[Any]:
    """The record as this attempt began with it, or LeaseLost: by now it may be another's."""
    found = job(fence.id)
    if (found.state, found.attempt, found.leased_by) != (State.RUNNING, fence.attempt, fence.incarnation):
        raise LeaseLost(fence.id, fence.attempt)
    return found


def _found(id_: str, row: Record | None) -> Job[Any]:
    if row is None:
        raise StoreDamaged(f"the row of job {id_!r} is gone")
    return to_job(row)


def _builder(names: Sequence[str], row: Sequence[Any]) -> Callable[[], Job[Any]]:
    return lambda: to_job(dict(zip(names, row, strict=True)))


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
    """A damaged event is shown as far as it can be: it must not stop whoever reads the log past it."""
    try:
        return _object(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return {"damaged": text}


def to_batch(row: Record) -> BatchRecord:
    """The record; a row that somebody damaged by hand is named, not guessed at."""
    try:
        state = BatchState(row["state"])
    except ValueError as error:
        raise StoreDamaged(f"the row of batch {row['id']!r} is damaged: {error}") from error
    return BatchRecord(
        id=row["id"],
        name=row["name"],
        owner=row["owner"],
        state=state,
        generation=row["generation"],
        total=row["total"],
        succeeded=row["succeeded"],
        failed=row["failed"],
        cancelled=row["cancelled"],
        success_at=row["success_at"],
        abort_above=row["abort_above"],
        created_at=from_time(row["created_at"]),
        published_at=_moment(row["published_at"]),
        settled_at=_moment(row["settled_at"]),
        aborted_at=_moment(row["aborted_at"]),
        expires_at=_moment(row["expires_at"]),
    )


def to_worker(row: Record) -> WorkerRecord:
    return WorkerRecord(
        incarnation=row["incarnation"],
        host=row["host"],
        pid=row["pid"],
        queues=None if row["queues"] is None else _texts(row["queues"]),
        kinds=_texts(row["kinds"]),
        concurrency=row["concurrency"],
        started_at=from_time(row["started_at"]),
        seen_at=from_time(row["seen_at"]),
        holds=row["holds"],
    )


def to_pause(row: Record) -> Pause:
    return Pause(
        what=row["what"],
        name=row["name"],
        since=from_time(row["since"]),
        until=_moment(row["until"]),
        actor=row["actor"],
        reason=row["reason"],
    )


def to_round(row: Record) -> DutyRun:
    return DutyRun(
        duty=row["duty"],
        worker=row["worker"],
        seconds=row["took"] / 1e6,
        did=row["did"],
        interval=from_duration(row["interval"]),
        limit=row["batch"],
        at=from_time(row["at"]),
        actor=row["actor"],
        reason=row["reason"],
    )


def to_schedule(row: Record) -> ScheduleRecord:
    return ScheduleRecord(
        name=row["name"],
        definition=Definition(
            kind=row["kind"],
            expression=row["expression"],
            timezone=row["timezone"],
            missed=row["missed"],
            arguments=row["arguments"],
        ),
        next_tick=from_time(row["next_tick"]),
        last_tick=_moment(row["last_tick"]),
        last_job=row["last_job"],
        planned_by=row["planned_by"],
        since=from_time(row["since"]),
        seen_at=from_time(row["seen_at"]),
        version=row["version"],
    )


def to_lane(row: Record) -> Lane:
    return Lane(row["queue"], row["kind"], row["number"], from_time(row["since"]), bool(row["is_misfit"]))


def to_cursor(row: Record) -> Cursor:
    return Cursor(row["name"], row["position"], from_time(row["updated_at"]))


def to_piles(rows: Iterable[Record]) -> list[EndedCount]:
    return [
        EndedCount(row["kind"], State(row["state"]), row["error_code"], bool(row["is_held"]), row["number"])
        for row in rows
    ]


def to_page(rows: Sequence[Record], limit: int) -> Page[Any]:
    """A page out of `limit` rows and one more; a damaged row is named, and hides no other."""
    jobs, damaged = [], []
    for row in rows[:limit]:
        try:
            jobs.append(to_job(row))
        except StoreDamaged as error:
            damaged.append(str(error))
    cursor = rows[limit - 1]["id"] if len(rows) > limit else None
    return Page(tuple(jobs), cursor, tuple(damaged))


def to_counts(rows: Iterable[Record]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["kind"], {})[row["state"]] = row["number"]
    return counts
