"""Rows and records: integers of microseconds in the database, aware datetimes outside."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache, partial
from operator import itemgetter
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from mulligan.errors import LeaseLost, StoreDamaged
from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import State
from mulligan.records.job import ONCE, Fence, Job, Lease, is_last_failure
from mulligan.values.moment import EPOCH, microseconds

T = TypeVar("T")
Record = dict[str, Any]
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_decode = msgspec.json.decode
# Built once: msgspec would inspect a type argument at every call.
_counts = msgspec.json.Decoder(dict[str, int]).decode
decode_strings = msgspec.json.Decoder(tuple[str, ...]).decode

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
    "own_timeout",
)
# The columns that a claim returns. A full record has fifty, and most attempts need no others.
CLAIM_COLUMNS = (*LEASE_COLUMNS, "priority", "rank", "trigger")
CLAIMED = ", ".join(CLAIM_COLUMNS)


def to_duration(value: timedelta) -> int:
    return value // _MICROSECOND


def from_duration(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(microseconds=value)


def to_time(moment: datetime) -> int:
    return microseconds(moment)


@lru_cache(maxsize=64)
def from_time(value: int) -> datetime:
    # Cached: the rows of one call share most of their times.
    try:
        return EPOCH + timedelta(microseconds=value)
    except OverflowError:
        # Only a manual change stores such a number. It must not stop a reader.
        return _LATEST if value > 0 else _EARLIEST


def earliest(*moments: int | None) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)


def from_time_or_none(value: int | None) -> datetime | None:
    return None if value is None else from_time(value)


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def from_json(text: str) -> Any:
    return _decode(text)


def column_names(cursor: Any) -> list[str]:
    # psycopg's `description` builds an object for each of fifty columns at every call.
    result = getattr(cursor, "pgresult", None)
    if result is None:
        return [column[0] for column in cursor.description]
    return [result.fname(index).decode() for index in range(result.nfields)]


def records(cursor: Any, rows: Iterable[Sequence[Any]]) -> list[Record]:
    """Return the rows as dicts by column name."""
    names = column_names(cursor)
    return [dict(zip(names, row, strict=True)) for row in rows]


def to_record(record: Callable[..., T], row: Record, **given: Any) -> T:
    """Make a record from the columns that are named like its fields. `given` are fields that differ from a column."""
    columns = {name: read(row[name]) for name, read in _readers(record).items() if name in row and name not in given}
    return record(**columns, **given)


@cache
def _readers(record: Callable[..., object]) -> dict[str, Callable[[Any], Any]]:
    """Return by field how its column is read: times and durations are stored as integers."""
    hints = {name: (hint, *get_args(hint)) for name, hint in get_type_hints(record).items()}
    return {
        name: from_time_or_none if datetime in hint else from_duration if timedelta in hint else _as_stored
        for name, hint in hints.items()
    }


def _as_stored(value: Any) -> Any:
    return value


def to_job(row: Record, *, is_duplicate: bool = False) -> Job[Any]:
    """Raises StoreDamaged, with the id, for a row that was changed manually and makes no sense."""
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
        queued_at=from_time_or_none(row["queued_at"]),
        due_at=from_time(row["due_at"]),
        deadline=from_time_or_none(row["deadline"]),
        started_at=from_time_or_none(row["started_at"]),
        last_attempt_at=from_time_or_none(row["last_attempt_at"]),
        finished_at=from_time_or_none(row["finished_at"]),
        updated_at=from_time(row["updated_at"]),
        progress=row["progress"],
        progress_text=row["progress_text"],
        result=None if row["result"] is None else _decode(row["result"]),
        result_expired_at=from_time_or_none(row["result_expired_at"]),
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
        dedupe_until=from_time_or_none(row["dedupe_until"]),
        tags=decode_strings(row["tags"]),
        cost=row["cost"],
        leased_by=row["leased_by"],
        lease_until=from_time_or_none(row["lease_until"]),
        cancel_requested=bool(row["cancel_requested"]),
        waiting_for=row["waiting_for"],
        timeout=from_duration(row["timeout"]),
        own_max_attempts=row["own_max_attempts"],
        own_timeout=from_duration(row["own_timeout"]),
        version=row["version"],
        gate=row["gate"],
        is_duplicate=is_duplicate,
    )


def _error_detail(row: Record) -> str | None:
    """Return the detail of the last failure only if that is the failure the job ended with."""
    ended = is_last_failure(row["error_code"], row["error_message"], row["last_code"], row["last_message"])
    return row["last_detail"] or None if ended else None


def to_arguments(text: str) -> Any:
    """Return damaged arguments as they are: the job is shown, and fails when it runs."""
    try:
        return _decode(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return text


def to_leases(cursor: Any, rows: Sequence[Sequence[Any]], job: Callable[[str], Job[Any]] | None = None) -> list[Lease]:
    """Return leases in claim order. The full job of each is built when it is needed, or loaded with `job` if the rows
    have only the columns of a claim."""
    if not rows:
        return []
    names = tuple(column_names(cursor))
    picked = _getter(names, LEASE_COLUMNS)
    begun = names.index("begun_attempt") if "begun_attempt" in names else None
    leases = []
    for row in sorted(rows, key=_getter(names, ("priority", "rank", "id"))):
        id_, attempt, incarnation, claim, kind, owner, arguments, claimed_at, until, *rest = picked(row)
        losses, crashes, service, service_epoch, failures, batch, max_crashes, own_timeout = rest
        fence, is_only = Fence(id_, attempt, incarnation, claim), max_crashes == ONCE["max_crashes"]
        lease = Lease(
            fence,
            kind,
            owner,
            arguments,
            from_time(claimed_at or 0),
            from_time(until),
            _build_later(names, row) if job is None else partial(_load_own, job, fence),
            is_whole=job is None,
            service=service,
            service_epoch=service_epoch,
            is_retry=failures > 0,
            is_suspect=bool(losses or crashes),
            batch=batch,
            at_most_once=is_only,
            own_timeout=from_duration(own_timeout),
            has_begun=not is_only or begun is None or row[begun] == attempt,
        )
        leases.append(lease)
    return leases


# Cached: a claim has always the same columns, and most claims return few rows.
@lru_cache(maxsize=64)
def _getter(names: tuple[str, ...], wanted: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
    return itemgetter(*[names.index(name) for name in wanted])


def load_records(leases: Iterable[Lease], rows: Iterable[Record]) -> None:
    """Give the leases their full records. One whose row is gone counts as damaged."""
    found = {row["id"]: row for row in rows}
    for lease in leases:
        lease.load = partial(_to_found, lease.fence.id, found.get(lease.fence.id))
        lease.is_whole = True


def _load_own(job: Callable[[str], Job[Any]], fence: Fence) -> Job[Any]:
    """Return the record as this attempt began. Raises LeaseLost if another attempt holds it now."""
    found = job(fence.id)
    if (found.state, found.attempt, found.leased_by) != (State.RUNNING, fence.attempt, fence.incarnation):
        raise LeaseLost(fence.id, fence.attempt)
    return found


def _to_found(id_: str, row: Record | None) -> Job[Any]:
    if row is None:
        raise StoreDamaged(f"the row of job {id_!r} is gone")
    return to_job(row)


def _build_later(names: Sequence[str], row: Sequence[Any]) -> Callable[[], Job[Any]]:
    return lambda: to_job(dict(zip(names, row, strict=True)))


def error_values(verdict: Verdict | None) -> dict[str, Any]:
    return {
        "error_code": verdict and verdict.code,
        "error_class": verdict and str(verdict.error_class),
        "error_message": verdict and verdict.message,
        "error_group": verdict and verdict.group,
    }


def fence_values(fence: Fence) -> dict[str, Any]:
    return {
        "id": fence.id,
        "attempt": fence.attempt,
        "incarnation": fence.incarnation,
        "claim": fence.claim,
    }
