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
from mulligan.store.batches import BatchSteps
from mulligan.store.clock import Now, moment
from mulligan.store.moves import Hands, MoveSteps
from mulligan.store.protocols import Request
from mulligan.store.redrive_rows import end_event, is_candidate, redrive_values, start_event, to_answers, to_redrive
from mulligan.store.rows import from_time, to_json, to_page, to_time
from mulligan.store.session import Statement, Steps, undoing
from mulligan.store.statements import Statements
from mulligan.store.values import SETTLE_EVENTS, filter_conditions

CANCELLED = TABLE[Move.CANCEL, State.RUNNING].event
RELEASED = TABLE[Move.RELEASE, State.RUNNING].event


class RedriveSteps:
    def __init__(self, sql: Statements, moves: MoveSteps, batches: BatchSteps) -> None:
        self._sql = sql
        self._moves = moves
        self._batches = batches

    # Which jobs

    def counting(self, wanted: JobFilter, before: datetime, owner: str | None) -> Steps[list[Match]]:
        conditions, values = filter_conditions(wanted, owner, None)
        statement = self._sql.filtered("count_candidates", conditions)
        rows = yield Statement(statement, {**values, "before": to_time(before)})
        return [Match(row["kind"], row["error_code"], row["number"]) for row in rows]

    def candidates(
        self, wanted: JobFilter, before: datetime, owner: str | None, after: str, limit: int
    ) -> Steps[Page[Any]]:
        conditions, values = filter_conditions(wanted, owner, None)
        values |= {"before": to_time(before), "after": after, "limit": limit + 1}
        rows = yield Statement(self._sql.filtered("candidates", conditions), values)
        return to_page(rows, limit)

    # From its beginning to its end

    def beginning(self, redrive: Redrive, now: Now) -> Steps[Redrive]:
        values = redrive_values(redrive)
        yield Statement(self._sql["operation_forget"], {"now": now, "kept": values["kept"]})
        if (yield Statement(self._sql["operation_new"], values)):
            yield Statement(self._sql["event"], start_event(redrive, now=now))
        (row,) = yield Statement(self._sql["operation_asked"], values)
        return to_redrive(row)

    def advancing(self, redrive: Redrive, requests: Sequence[Request], now: Now, hands: Hands) -> Steps[Redrive | None]:
        if not (yield Statement(self._sql["operation_locked"], redrive_values(redrive))):
            return None
        done: list[tuple[str, str | None]] = []
        tally = CountChanges()
        for request in requests:
            done += [(request.job, (yield from self._move(redrive, request, now, tally, hands)))]
        after = record_retries(redrive, done, from_time((yield from moment(self._sql, now))))
        yield Statement(self._sql["operation"], redrive_values(after))
        if after.state.is_over:
            yield Statement(self._sql["event"], end_event(after, now=now))
        if after.retried > redrive.retried:
            hands.promote(tally)
        yield from self._batches.counted(tally, now, actor=redrive.actor)
        return replace(after, course=replace(after.course, version=after.course.version + 1))

    def _move(
        self, redrive: Redrive, request: Request, now: Now, tally: CountChanges, hands: Hands
    ) -> Steps[str | None]:
        """Why the job was not moved; None, it was. What was begun for one that cannot be is undone."""
        rows = yield Statement(self._sql["job_locked"], {"id": request.job, "owner": request.owner})
        if not is_candidate(rows[0] if rows else None, redrive):
            return MOVED_ON
        violation = self._moves.violation
        try:
            yield from undoing(self._moves.making(request, now, tally, hands), MulliganError, violation)
        except MulliganError as error:
            return skip_reason(error)
        except violation as error:
            return skip_reason(StoreDamaged(str(error)))
        return None

    def cancelling(
        self, redrive_id: str, owner: str | None, actor: str | None, reason: str | None, now: Now
    ) -> Steps[Redrive]:
        values = {"id": redrive_id, "owner": owner, "because": cancel_reason(actor, reason), "now": now}
        is_ended = bool((yield Statement(self._sql["operation_cancel"], values)))
        found = yield from self.listing(redrive_id, owner, 1)
        if not found:
            raise RedriveNotFound(redrive_id)
        if is_ended:
            yield Statement(self._sql["event"], end_event(found[0], now=now, actor=actor, reason=reason))
        return replace(found[0], is_repeated=not is_ended)

    # For those who look

    def answers(self, redrive: Redrive) -> Steps[dict[str, bool]]:
        requests = [retry_request_id(redrive.id, watched.job) for watched in redrive.course.watched]
        values = {"requests": to_json(requests), "types": to_json(SETTLE_EVENTS), "cancelled": CANCELLED}
        rows = yield Statement(self._sql["answers"], values)
        return to_answers([(row["job"], row["type"], row["code"]) for row in rows], RELEASED)

    def listing(self, redrive_id: str | None, owner: str | None, limit: int) -> Steps[list[Redrive]]:
        rows = yield Statement(self._sql["operations"], {"id": redrive_id, "owner": owner, "limit": limit})
        return [to_redrive(row) for row in rows]

    def asked(self, request_id: str, owner: str | None) -> Steps[Redrive | None]:
        rows = yield Statement(self._sql["operation_asked"], {"request": request_id, "owner": owner})
        return to_redrive(rows[0]) if rows else None

    def active(self, limit: int) -> Steps[list[Redrive]]:
        rows = yield Statement(self._sql["operations_active"], {"limit": limit})
        return [to_redrive(row) for row in rows]
