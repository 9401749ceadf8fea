"""Redrives as rows: the same values for every store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mulligan.errors import StoreDamaged
from mulligan.lifecycle import REDRIVE_CANCELLED, REDRIVE_FINISHED, REDRIVE_STARTED, REDRIVE_STOPPED, State
from mulligan.records.job import JobFilter
from mulligan.records.rate import parse_rate
from mulligan.records.redrive import Course, Match, Redrive, RedriveState, Watched
from mulligan.store.rows import Record, from_time, to_duration, to_json, to_time
from mulligan.store.values import event_values

# An operation that is over is kept for so long, and its request id with it.
KEPT = timedelta(days=90)

ENDS = {
    RedriveState.DONE: REDRIVE_FINISHED,
    RedriveState.STOPPED: REDRIVE_STOPPED,
    RedriveState.CANCELLED: REDRIVE_CANCELLED,
}


_names = msgspec.json.Decoder(dict[str, str]).decode
_counts = msgspec.json.Decoder(dict[str, int]).decode
_texts = msgspec.json.Decoder(tuple[str, ...]).decode
_matches = msgspec.json.Decoder(list[tuple[str, str | None, int]]).decode
_watched = msgspec.json.Decoder(list[tuple[str, int]]).decode


def redrive_values(redrive: Redrive) -> dict[str, Any]:
    course = redrive.course
    return {
        "id": redrive.id,
        "request": redrive.request_id,
        "owner": redrive.owner,
        "filter": to_json(_given(redrive.filter)),
        "rate": redrive.rate.text,
        "canary": redrive.canary,
        "abort_above": redrive.abort_above,
        "actor": redrive.actor,
        "reason": redrive.reason,
        "state": redrive.state.value,
        "matched": redrive.matched,
        "matches": to_json([(match.kind, match.code, match.number) for match in redrive.matches]),
        "sample": to_json(redrive.sample),
        "retried": redrive.retried,
        "skipped": to_json(redrive.skipped),
        "succeeded": redrive.succeeded,
        "failed_again": redrive.failed_again,
        "silent": redrive.silent,
        "because": redrive.because,
        "began_at": to_time(redrive.began_at),
        "ended_at": None if redrive.ended_at is None else to_time(redrive.ended_at),
        "cursors": to_json(course.cursors),
        "watched": to_json([(watched.job, to_time(watched.since)) for watched in course.watched]),
        "recent": course.recent,
        "paced_at": to_time(course.paced_at),
        "held_by": course.held_by,
        "held_until": None if course.held_until is None else to_time(course.held_until),
        "version": course.version,
        "kept": to_duration(KEPT),
    }


def to_redrive(row: Record) -> Redrive:
    """The record; a row that somebody damaged by hand is named, not guessed at."""
    try:
        return _redrive(row)
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise StoreDamaged(f"the row of redrive {row['id']!r} is damaged: {error}") from error


def _redrive(row: Record) -> Redrive:
    return Redrive(
        id=row["id"],
        request_id=row["request"],
        owner=row["owner"],
        filter=_filter(_names(row["filter"])),
        rate=parse_rate(row["rate"]),
        canary=row["canary"],
        abort_above=row["abort_above"],
        actor=row["actor"],
        reason=row["reason"],
        state=RedriveState(row["state"]),
        matched=row["matched"],
        matches=tuple(Match(*match) for match in _matches(row["matches"])),
        sample=_texts(row["sample"]),
        retried=row["retried"],
        skipped=_counts(row["skipped"]),
        succeeded=row["succeeded"],
        failed_again=row["failed_again"],
        silent=row["silent"],
        because=row["because"],
        began_at=from_time(row["began_at"]),
        ended_at=None if row["ended_at"] is None else from_time(row["ended_at"]),
        course=Course(
            cursors=_names(row["cursors"]),
            watched=tuple(Watched(job, from_time(since)) for job, since in _watched(row["watched"])),
            recent=row["recent"],
            paced_at=from_time(row["paced_at"]),
            held_by=row["held_by"],
            held_until=None if row["held_until"] is None else from_time(row["held_until"]),
            version=row["version"],
        ),
    )


def _filter(given: Mapping[str, str]) -> JobFilter:
    times = {name: datetime.fromisoformat(given[name]) for name in ("since", "until") if name in given}
    return JobFilter(**{**given, **times, "state": State(given["state"])})  # type: ignore[arg-type]


def _given(wanted: JobFilter) -> dict[str, Any]:
    values = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
    return {name: value for name, value in values.items() if value is not None}


def start_event(redrive: Redrive, *, now: int | None) -> dict[str, Any]:
    data = {
        "filter": _given(redrive.filter),
        "matched": redrive.matched,
        "rate": redrive.rate.text,
        "canary": redrive.canary,
        "abort_above": redrive.abort_above,
    }
    return _event(redrive, REDRIVE_STARTED, data, redrive.actor, redrive.reason, now)


def end_event(
    redrive: Redrive, *, now: int | None, actor: str | None = None, reason: str | None = None
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "matched": redrive.matched,
        "retried": redrive.retried,
        "skipped": dict(redrive.skipped),
        "succeeded": redrive.succeeded,
        "failed_again": redrive.failed_again,
        "silent": redrive.silent,
    }
    # Of one that was cancelled it is who and why, which every event has in places of their own.
    if redrive.because and redrive.state is not RedriveState.CANCELLED:
        data["because"] = redrive.because
    return _event(redrive, ENDS[redrive.state], data, actor, reason, now)


def _event(
    redrive: Redrive, type_: str, data: Mapping[str, Any], actor: str | None, reason: str | None, now: int | None
) -> dict[str, Any]:
    """About no job; written once, for an operation begins once and ends once."""
    named = {"what": "redrive", "name": redrive.id, **data, **({"reason": reason} if reason else {})}
    request = f"{type_}:{redrive.id}"
    return event_values(type_, "", "", redrive.owner or "", 0, now=now, request=request, actor=actor, data=named)


def is_candidate(row: Record | None, redrive: Redrive) -> bool:
    """Whether it was over when the operation began, and is so still."""
    if row is None or row["finished_at"] is None or row["finished_at"] > to_time(redrive.began_at):
        return False
    return bool(row["state"] == (redrive.filter.state or State.FAILED))


def to_answers(rows: Iterable[Sequence[Any]], released: str) -> dict[str, bool]:
    """The first end of an attempt, job by job, in the order of the log. One that was only handed back, when its worker
    was stopped or went away, says nothing: the next one does."""
    answers: dict[str, bool] = {}
    for job, type_, code in rows:
        if type_ != released or code not in (None, "WORKER_LOST"):
            answers.setdefault(job, type_ == "job.succeeded")
    return answers
