"""Redrives in every store: each step a part of one transaction. As rows they are in `operations.py`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mulligan.errors import MulliganError, RedriveNotFound, StoreDamaged
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import JobFilter, Page
from mulligan.records.redrive import (
    MOVED_ON,
    Match,
    Redrive,
    cancel_reason,
    record_retries,
    retry_request_id,
    skip_reason,
)
from mulligan.store.batch_counts import CountChanges
from mulligan.store.batches import BatchOperations
from mulligan.store.messages import Request
from mulligan.store.moves import MoveOperations, MoveParts
from mulligan.store.redrive_rows import end_event, is_candidate, redrive_values, start_event, to_answers, to_redrive
from mulligan.store.rows import from_time, to_json, to_page, to_time
from mulligan.store.session import Now, Session
from mulligan.store.values import SETTLE_EVENTS, filter_conditions

CANCELLED = TABLE[Move.CANCEL, State.RUNNING].event
RELEASED = TABLE[Move.RELEASE, State.RUNNING].event


class RedriveOperations:
    def __init__(self, moves: MoveOperations, batches: BatchOperations) -> None:
        self._moves = moves
        self._batches = batches

    # Which jobs

    def count_candidates(self, session: Session, wanted: JobFilter, before: datetime, owner: str | None) -> list[Match]:
        conditions, values = filter_conditions(wanted, owner, None)
        statement = session.sql.filtered("count_candidates", conditions)
        rows = session.execute(statement, {**values, "before": to_time(before)})
        return [Match(row["kind"], row["error_code"], row["number"]) for row in rows]

    def candidates(
        self, session: Session, wanted: JobFilter, before: datetime, owner: str | None, after: str, limit: int
    ) -> Page[Any]:
        conditions, values = filter_conditions(wanted, owner, None)
        values |= {"before": to_time(before), "after": after, "limit": limit + 1}
        rows = session.execute(session.sql.filtered("candidates", conditions), values)
        return to_page(rows, limit)

    # From its beginning to its end

    def begin(self, session: Session, redrive: Redrive, now: Now) -> Redrive:
        values = redrive_values(redrive)
        session.rows("operation_forget", {"now": now, "kept": values["kept"]})
        if session.rows("operation_new", values):
            session.rows("event", start_event(redrive, now=now))
        (row,) = session.rows("operation_asked", values)
        return to_redrive(row)

    def advance(
        self, session: Session, redrive: Redrive, requests: Sequence[Request], now: Now, hands: MoveParts
    ) -> Redrive | None:
        if not session.rows("operation_locked", redrive_values(redrive)):
            return None
        done: list[tuple[str, str | None]] = []
        tally = CountChanges()
        for request in requests:
            done += [(request.job, self._move(session, redrive, request, now, tally, hands))]
        after = record_retries(redrive, done, from_time(session.moment(now)))
        session.rows("operation", redrive_values(after))
        if after.state.is_over:
            session.rows("event", end_event(after, now=now))
        if after.retried > redrive.retried:
            hands.promote(tally)
        self._batches.apply_counts(session, tally, now, actor=redrive.actor)
        return replace(after, course=replace(after.course, version=after.course.version + 1))

    def _move(
        self, session: Session, redrive: Redrive, request: Request, now: Now, tally: CountChanges, hands: MoveParts
    ) -> str | None:
        """Why the job was not moved; None, it was. What was begun for one that cannot be is undone."""
        rows = session.rows("job_locked", {"id": request.job, "owner": request.owner})
        if not is_candidate(rows[0] if rows else None, redrive):
            return MOVED_ON
        violation = self._moves.violation
        try:
            with session.undo(MulliganError, violation):
                self._moves.apply(session, request, now, tally, hands)
        except MulliganError as error:
            return skip_reason(error)
        except violation as error:
            return skip_reason(StoreDamaged(str(error)))
        return None

    def cancel(
        self, session: Session, redrive_id: str, owner: str | None, actor: str | None, reason: str | None, now: Now
    ) -> Redrive:
        values = {"id": redrive_id, "owner": owner, "because": cancel_reason(actor, reason), "now": now}
        is_ended = bool(session.rows("operation_cancel", values))
        found = self.list_all(session, redrive_id, owner, 1)
        if not found:
            raise RedriveNotFound(redrive_id)
        if is_ended:
            session.rows("event", end_event(found[0], now=now, actor=actor, reason=reason))
        return replace(found[0], is_repeated=not is_ended)

    # For those who look

    def answers(self, session: Session, redrive: Redrive) -> dict[str, bool]:
        requests = [retry_request_id(redrive.id, watched.job) for watched in redrive.course.watched]
        values = {"requests": to_json(requests), "types": to_json(SETTLE_EVENTS), "cancelled": CANCELLED}
        rows = session.rows("answers", values)
        return to_answers([(row["job"], row["type"], row["code"]) for row in rows], RELEASED)

    def list_all(self, session: Session, redrive_id: str | None, owner: str | None, limit: int) -> list[Redrive]:
        rows = session.rows("operations", {"id": redrive_id, "owner": owner, "limit": limit})
        return [to_redrive(row) for row in rows]

    def find_by_request(self, session: Session, request_id: str, owner: str | None) -> Redrive | None:
        rows = session.rows("operation_asked", {"request": request_id, "owner": owner})
        return to_redrive(rows[0]) if rows else None

    def active(self, session: Session, limit: int) -> list[Redrive]:
        rows = session.rows("operations_active", {"limit": limit})
        return [to_redrive(row) for row in rows]
