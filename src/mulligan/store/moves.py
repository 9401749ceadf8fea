"""Manual moves: judged by the table of moves, made once, and counted last."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mulligan.errors import Conflict, MulliganError, StoreDamaged, illegal_move
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, was_rejected
from mulligan.store.batches import BatchOperations, CountChanges
from mulligan.store.events import event_values, is_done
from mulligan.store.follow_up import EndedRow, Enqueue, store_follow_ups
from mulligan.store.messages import NO_PRECONDITION, Outcome, Permission, Request
from mulligan.store.reading import row_of
from mulligan.store.rows import Record, to_duration, to_job
from mulligan.store.session import Session

MOVES = {
    Move.MANUAL_RETRY: "manual_retry",
    Move.RUN_NOW: "run_now",
    Move.MANUAL_CANCEL: "manual_cancel",
    Move.MANUAL_SNOOZE: "manual_snooze",
}


# These moves run a job again, so the precondition of its task is asked.
REVIVING = (Move.MANUAL_RETRY, Move.RUN_NOW)


@dataclass(frozen=True, slots=True)
class MoveParts:
    """The parts of a move that backends implement differently, on the session of the move."""

    settle: Callable[[Outcome], object]
    promote: Callable[[CountChanges], object]
    """Adds what it does to batch members to the changes: counted separately, a batch could look as if it had ended."""
    permission: Permission = NO_PRECONDITION


class MoveOperations:
    """`enqueue` is the operation of the backend that stores jobs."""

    def __init__(self, batches: BatchOperations, enqueue: Enqueue) -> None:
        self._batches = batches
        self._enqueue = enqueue

    def move(self, session: Session, request: Request, parts: MoveParts) -> Job[Any]:
        changes = CountChanges()
        if self.apply(session, request, changes, parts):
            parts.promote(changes)
        self._batches.apply_counts(session, changes, actor=request.actor)
        return to_job(row_of(session, "job", request.job))

    def apply(self, session: Session, request: Request, changes: CountChanges, parts: MoveParts) -> bool:
        """Return whether the move was made now, not before. The caller applies the changes last."""
        row = locked = row_of(session, "job_locked", request.job, request.owner)
        if is_done(session, request.id):
            return False
        before = _state(row)
        if request.first is not None:
            parts.settle(request.first)
            row = row_of(session, "job", request.job)
        source = _state(row)
        step = TABLE.get((request.move, source))
        if step is None:
            raise illegal_move(request.job, source, request.move)
        rejected = was_rejected(row["attempt"], row["finished_at"], row["enqueued_at"])
        if request.move in REVIVING and parts.permission.concerns(row["kind"], was_rejected=rejected):
            parts.permission.ask(to_job(locked), session.connection)
        self._write(session, request, row, step.target)
        session.rows("event", move_values(request, row, step.event))
        if row["batch"] is not None and step.target is State.WAITING:
            self._batches.return_to_draft(session, row)
        if step.target is State.CANCELLED and row["on_cancelled"] is not None:
            about = (row["id"], row["owner"], row["attempt"], session.moment(), step.target)
            store_follow_ups(session, self._enqueue, [EndedRow(*about, row["on_cancelled"], request.id)])
        changes.add(row["batch"], before, step.target)
        return True

    def _write(self, session: Session, request: Request, row: Record, target: State) -> None:
        values = {"id": row["id"], "source": row["state"], "target": target.value}
        try:
            with session.undo(session.violation):
                session.rows(MOVES[request.move], values, delay=to_duration(request.delay))
        except session.violation as error:
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


def move_values(request: Request, row: Record, event: str) -> dict[str, Any]:
    """Return the event of a manual move."""
    data: dict[str, Any] = {"reason": request.reason} if request.reason else {}
    if request.move is Move.MANUAL_SNOOZE:
        data["delay"] = request.delay.total_seconds()
    if request.redrive is not None:
        data["redrive"] = request.redrive
    return event_values(
        event,
        row["id"],
        row["kind"],
        row["owner"],
        row["attempt"],
        request=request.id,
        actor=request.actor,
        data=data,
    )
