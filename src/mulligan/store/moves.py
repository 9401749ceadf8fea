"""Moves by hand, in every store: judged by the table of moves, made once, and counted last."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mulligan.errors import Conflict, JobNotFound, MulliganError, StoreDamaged, illegal_move
from mulligan.lifecycle import TABLE, State
from mulligan.records.job import Job
from mulligan.store.batch_counts import CountChanges
from mulligan.store.batches import BatchOperations
from mulligan.store.idempotency import is_done
from mulligan.store.messages import Outcome, Request
from mulligan.store.rows import Record, to_duration, to_job
from mulligan.store.session import Now, Session
from mulligan.store.values import MOVES, move_values


@dataclass(frozen=True, slots=True)
class MoveParts:
    """What each store does in its own way amid a move, on the connection that the move is played on."""

    settle: Callable[[Outcome], object]
    promote: Callable[[CountChanges], object]
    """What it does to members it adds to the tally: between the two a batch could look as if it were over."""


class MoveOperations:
    """`violation` is what the driver raises for a row that the schema does not allow."""

    def __init__(self, batches: BatchOperations, violation: type[Exception]) -> None:
        self._batches = batches
        self.violation = violation

    def move(self, session: Session, request: Request, now: Now, hands: MoveParts) -> Job[Any]:
        tally = CountChanges()
        if self.apply(session, request, now, tally, hands):
            hands.promote(tally)
        self._batches.apply_counts(session, tally, now, actor=request.actor)
        return to_job(self._row(session, "job", request.job))

    def apply(self, session: Session, request: Request, now: Now, tally: CountChanges, hands: MoveParts) -> bool:
        """Whether it was not made before. The caller counts the tally last."""
        row = self._row(session, "job_locked", request.job, request.owner)
        if is_done(session, request.id):
            return False
        before = _state(row)
        if request.first is not None:
            hands.settle(request.first)
            row = self._row(session, "job", request.job)
        source = _state(row)
        step = TABLE.get((request.move, source))
        if step is None:
            raise illegal_move(request.job, source, request.move)
        self._write(session, request, row, step.target, now)
        session.rows("event", move_values(request, row, step.event, now=now))
        if row["batch"] is not None and step.target is State.WAITING:
            self._batches.park(session, row, now)
        tally.add(row["batch"], before, step.target)
        return True

    def _row(self, session: Session, statement: str, job_id: str, owner: str | None = None) -> Record:
        rows = session.rows(statement, {"id": job_id, "owner": owner})
        if not rows:
            raise JobNotFound(job_id)
        return rows[0]

    def _write(self, session: Session, request: Request, row: Record, target: State, now: Now) -> None:
        values = {"id": row["id"], "source": row["state"], "target": target.value, "now": now}
        try:
            with session.undo(self.violation):
                session.rows(MOVES[request.move], values, delay=to_duration(request.delay))
        except self.violation as error:
            raise self._refusal(session, row, error) from error

    def _refusal(self, session: Session, row: Record, error: Exception) -> MulliganError:
        key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
        twins = session.rows("enqueue_twin", key)
        if twins and twins[0]["id"] != row["id"]:
            return Conflict(row["id"], twins[0]["id"])
        return StoreDamaged(f"the row of job {row['id']!r} is damaged: {error}")


def _state(row: Record) -> State:
    try:
        return State(row["state"])
    except ValueError as error:
        raise StoreDamaged(f"the row of job {row['id']!r} is damaged: {error}") from error
