"""Redrives: each step is part of one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mulligan.errors import MulliganError, RedriveNotFound, StoreDamaged, StoreUnavailable
from mulligan.lifecycle import REDRIVE_CANCELLED, REDRIVE_FINISHED, REDRIVE_STARTED, REDRIVE_STOPPED, TABLE, Move, State
from mulligan.records.job import TIMES, JobFilter, Page
from mulligan.records.rate import parse_rate
from mulligan.records.redrive import (
    FORGET,
    MOVED_ON,
    RETRY,
    Course,
    Match,
    Redrive,
    RedriveState,
    Watched,
    cancel_reason,
    record_retries,
    retry_request_id,
    skip_reason,
)
from mulligan.store.batches import BatchOperations, CountChanges
from mulligan.store.events import event_values
from mulligan.store.messages import Request
from mulligan.store.moves import MoveOperations, MoveParts
from mulligan.store.reading import quick_conditions, to_page
from mulligan.store.requests import AnswerFormat
from mulligan.store.rows import Record, from_json, from_time, to_duration, to_json, to_record, to_time
from mulligan.store.session import Session
from mulligan.store.settle import SETTLE_EVENTS

# How long an ended redrive and its request id are kept.
REDRIVES_KEPT = timedelta(days=90)

ENDS = {
    RedriveState.DONE: REDRIVE_FINISHED,
    RedriveState.STOPPED: REDRIVE_STOPPED,
    RedriveState.CANCELLED: REDRIVE_CANCELLED,
}


_fields = msgspec.json.Decoder(dict[str, str | list[str]]).decode
_names = msgspec.json.Decoder(dict[str, str]).decode
_counts = msgspec.json.Decoder(dict[str, int]).decode
_strings = msgspec.json.Decoder(tuple[str, ...]).decode
_matches = msgspec.json.Decoder(list[tuple[str, str | None, int]]).decode
_watched = msgspec.json.Decoder(list[tuple[str, int]]).decode

CANCELLED = TABLE[Move.CANCEL, State.RUNNING].event
RELEASED = TABLE[Move.RELEASE, State.RUNNING].event


REDRIVE: AnswerFormat[Redrive] = AnswerFormat(
    encode=lambda redrive: to_json({"row": redrive_values(redrive), "is_repeated": redrive.is_repeated}),
    decode=lambda text: _from_answer(from_json(text)),
)

# Before the names in `cursors` of an operation that is no redrive. No task has such a name: workers of a version that
# knows only redrives would retry the jobs, and so leave the operation alone.
HIDDEN = " "


class RedriveOperations:
    def __init__(self, moves: MoveOperations, batches: BatchOperations) -> None:
        self._moves = moves
        self._batches = batches

    # Candidates

    def count_candidates(self, session: Session, wanted: JobFilter, before: datetime, owner: str | None) -> list[Match]:
        conditions, values = quick_conditions(session, wanted, owner, None)
        rows = session.filtered("count_candidates", conditions, {**values, "before": to_time(before)})
        return [Match(row["kind"], row["error_code"], row["number"]) for row in rows]

    def candidates(
        self, session: Session, wanted: JobFilter, before: datetime, owner: str | None, after: str, limit: int
    ) -> Page[Any]:
        conditions, values = quick_conditions(session, wanted, owner, None)
        values |= {"before": to_time(before), "after": after, "limit": limit + 1}
        rows = session.filtered("candidates", conditions, values)
        return to_page(rows, limit)

    # Life cycle

    def begin(self, session: Session, redrive: Redrive) -> Redrive:
        values = redrive_values(redrive)
        session.rows("redrive_forget", {"kept": values["kept"]})
        if session.rows("redrive_new", values):
            session.rows("event", start_event(redrive))
        (row,) = session.rows("redrive_by_request", values)
        return to_redrive(row)

    def advance(
        self, session: Session, redrive: Redrive, requests: Sequence[Request], parts: MoveParts
    ) -> Redrive | None:
        if not session.rows("redrive_locked", redrive_values(redrive)):
            return None
        done: list[tuple[str, str | None]] = []
        changes = CountChanges()
        for request in requests:
            done += [(request.job, self._move(session, redrive, request, changes, parts))]
        after = record_retries(redrive, done, from_time(session.moment()))
        written = write_progress(session, after)
        if after.retried > redrive.retried:
            parts.promote(changes)
        self._batches.apply_counts(session, changes, actor=redrive.actor)
        return written

    def _move(
        self, session: Session, redrive: Redrive, request: Request, changes: CountChanges, parts: MoveParts
    ) -> str | None:
        """Return why the job was not moved, or None if it was. A move that fails halfway is undone."""
        rows = session.rows("job_locked", {"id": request.job, "owner": request.owner})
        if not is_candidate(rows[0] if rows else None, redrive):
            return MOVED_ON
        try:
            with session.undo(MulliganError, session.violation):
                self._moves.apply(session, request, changes, parts)
        except StoreUnavailable:
            # Of a precondition that needs the store itself: the whole chunk is repeated.
            raise
        except MulliganError as error:
            return skip_reason(error)
        except session.violation as error:
            return skip_reason(StoreDamaged(str(error)))
        return None

    def cancel(
        self, session: Session, redrive_id: str, owner: str | None, actor: str | None, reason: str | None
    ) -> Redrive:
        values = {"id": redrive_id, "owner": owner, "because": cancel_reason(actor, reason)}
        is_ended = bool(session.rows("redrive_cancel", values))
        found = self.list_all(session, redrive_id, owner, 1)
        if not found:
            raise RedriveNotFound(redrive_id)
        if is_ended:
            session.rows("event", end_event(found[0], actor=actor, reason=reason))
        return replace(found[0], is_repeated=not is_ended)

    # Reading

    def answers(self, session: Session, redrive: Redrive) -> dict[str, bool]:
        requests = [retry_request_id(redrive.id, watched.job) for watched in redrive.course.watched]
        values = {"requests": to_json(requests), "types": to_json(SETTLE_EVENTS), "cancelled": CANCELLED}
        rows = session.rows("redrive_results", values)
        return first_results([(row["job"], row["type"], row["code"]) for row in rows], RELEASED)

    def list_all(self, session: Session, redrive_id: str | None, owner: str | None, limit: int) -> list[Redrive]:
        rows = session.rows("redrives", {"id": redrive_id, "owner": owner, "limit": limit})
        return [to_redrive(row) for row in rows]

    def find_by_request(self, session: Session, request_id: str, owner: str | None) -> Redrive | None:
        rows = session.rows("redrive_by_request", {"request": request_id, "owner": owner})
        return to_redrive(rows[0]) if rows else None

    def active(self, session: Session, limit: int) -> list[Redrive]:
        rows = session.rows("redrives_active", {"limit": limit})
        return [to_redrive(row) for row in rows]


def write_progress(session: Session, redrive: Redrive) -> Redrive:
    """Write the operation, and its event if it has ended. Return it as it is stored."""
    session.rows("redrive_write", redrive_values(redrive))
    if redrive.state.is_over:
        session.rows("event", end_event(redrive))
    return replace(redrive, course=replace(redrive.course, version=redrive.course.version + 1))


def _hidden(verb: str) -> str:
    return "" if verb == RETRY else HIDDEN


def redrive_values(redrive: Redrive) -> dict[str, Any]:
    course = redrive.course
    return {
        "id": redrive.id,
        "request": redrive.request_id,
        "owner": redrive.owner,
        "verb": redrive.verb,
        "delay": to_duration(redrive.delay),
        "filter": to_json(_filter_values(redrive.filter)),
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
        "purged": redrive.purged,
        "because": redrive.because,
        "began_at": to_time(redrive.began_at),
        "ended_at": None if redrive.ended_at is None else to_time(redrive.ended_at),
        "cursors": to_json({_hidden(redrive.verb) + name: after for name, after in course.cursors.items()}),
        "watched": to_json([(watched.job, to_time(watched.since)) for watched in course.watched]),
        "recent": course.recent,
        "paced_at": to_time(course.paced_at),
        "held_by": course.held_by,
        "held_until": None if course.held_until is None else to_time(course.held_until),
        "version": course.version,
        "kept": to_duration(REDRIVES_KEPT),
    }


def _from_answer(answer: dict[str, Any]) -> Redrive:
    return replace(to_redrive(answer["row"]), is_repeated=answer["is_repeated"])


def to_redrive(row: Record) -> Redrive:
    """Raises StoreDamaged, with the id, for a row that was changed manually and makes no sense."""
    try:
        return _redrive(row)
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise StoreDamaged(f"the row of redrive {row['id']!r} is damaged: {error}") from error


def _redrive(row: Record) -> Redrive:
    course = to_record(
        Course,
        row,
        cursors={name.removeprefix(_hidden(row["verb"])): after for name, after in _names(row["cursors"]).items()},
        watched=tuple(Watched(job, from_time(since)) for job, since in _watched(row["watched"])),
    )
    return to_record(
        Redrive,
        row,
        request_id=row["request"],
        filter=_filter(_fields(row["filter"])),
        rate=parse_rate(row["rate"]),
        state=RedriveState(row["state"]),
        matches=tuple(Match(*match) for match in _matches(row["matches"])),
        sample=_strings(row["sample"]),
        skipped=_counts(row["skipped"]),
        course=course,
    )


def _filter(given: Mapping[str, Any]) -> JobFilter:
    times = {name: datetime.fromisoformat(given[name]) for name in TIMES if name in given}
    return JobFilter(**{**given, **times})


def _filter_values(wanted: JobFilter) -> dict[str, Any]:
    values = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
    return {name: value for name, value in values.items() if value is not None}


def start_event(redrive: Redrive) -> dict[str, Any]:
    data = {
        "verb": redrive.verb,
        "filter": _filter_values(redrive.filter),
        "matched": redrive.matched,
        "rate": redrive.rate.text,
        "canary": redrive.canary,
        "abort_above": redrive.abort_above,
    }
    return _event(redrive, REDRIVE_STARTED, data, redrive.actor, redrive.reason)


def end_event(redrive: Redrive, *, actor: str | None = None, reason: str | None = None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "matched": redrive.matched,
        "retried": redrive.retried,
        "skipped": dict(redrive.skipped),
        "succeeded": redrive.succeeded,
        "failed_again": redrive.failed_again,
        "silent": redrive.silent,
    }
    if redrive.verb == FORGET:
        data["purged"] = redrive.purged
    # For a cancelled one it would repeat actor and reason, which the event has as fields.
    if redrive.because and redrive.state is not RedriveState.CANCELLED:
        data["because"] = redrive.because
    return _event(redrive, ENDS[redrive.state], data, actor, reason)


def _event(
    redrive: Redrive, type_: str, data: Mapping[str, Any], actor: str | None, reason: str | None
) -> dict[str, Any]:
    """Return an event without a job. It is written once: a redrive begins once and ends once."""
    named = {"what": "redrive", "name": redrive.id, **data, **({"reason": reason} if reason else {})}
    request = f"{type_}:{redrive.id}"
    return event_values(type_, owner=redrive.owner or "", request=request, actor=actor, data=named)


def is_candidate(row: Record | None, redrive: Redrive) -> bool:
    """Whether the job was there when the operation began, in a state that was selected, and has not ended since."""
    if redrive.verb == FORGET:
        return row is not None and row["owner"] == redrive.filter.owner
    if row is None or (row["finished_at"] or row["enqueued_at"]) > to_time(redrive.began_at):
        return False
    return row["state"] in redrive.filter.states


def first_results(rows: Iterable[Sequence[Any]], released: str) -> dict[str, bool]:
    """Return how the first attempt of each job ended, in the order of the log. An attempt that was only released,
    because its worker stopped or was lost, does not count."""
    answers: dict[str, bool] = {}
    for job, type_, code in rows:
        if type_ != released or code not in (None, "WORKER_LOST"):
            answers.setdefault(job, type_ == "job.succeeded")
    return answers
