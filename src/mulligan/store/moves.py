"""Moves by hand, in every store: judged by the table of moves, made once, and counted last."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mulligan.errors import Conflict, JobNotFound, MulliganError, StoreDamaged, illegal_move
from mulligan.lifecycle import TABLE, State
from mulligan.records.job import Job
from mulligan.store.batch_counts import CountChanges
from mulligan.store.batches import BatchSteps
from mulligan.store.clock import Now
from mulligan.store.idempotency import is_done
from mulligan.store.protocols import Outcome, Request
from mulligan.store.rows import Record, to_duration, to_job
from mulligan.store.session import Statement, Steps, alone, undoing
from mulligan.store.statements import Statements
from mulligan.store.values import MOVES, move_values


@dataclass(frozen=True, slots=True)
class Hands:
    """What each store does in its own way amid a move, on the connection that the move is played on."""

    settle: Callable[[Outcome], object]
    promote: Callable[[CountChanges], object]
    """What it does to members it adds to the tally: between the two a batch could look as if it were over."""


class MoveSteps:
    """`violation` is what the driver raises for a row that the schema does not allow."""

    def __init__(self, sql: Statements, batches: BatchSteps, violation: type[Exception]) -> None:
        self._sql = sql
        self._batches = batches
        self.violation = violation

    def moving(self, request: Request, now: Now, hands: Hands) -> Steps[Job[Any]]:
        tally = CountChanges()
        if (yield from self.making(request, now, tally, hands)):
            hands.promote(tally)
        yield from self._batches.counted(tally, now, actor=request.actor)
        return to_job((yield from self._row("job", request.job)))

    def making(self, request: Request, now: Now, tally: CountChanges, hands: Hands) -> Steps[bool]:
        """Whether it was not made before. The caller counts the tally last."""
        row = yield from self._row("job_locked", request.job, request.owner)
        if (yield from is_done(self._sql, request.id)):
            return False
        before = _state(row)
        if request.first is not None:
            hands.settle(request.first)
            row = yield from self._row("job", request.job)
        source = _state(row)
        step = TABLE.get((request.move, source))
        if step is None:
            raise illegal_move(request.job, source, request.move)
        yield from self._write(request, row, step.target, now)
        yield Statement(self._sql["event"], move_values(request, row, step.event, now=now))
        if row["batch"] is not None and step.target is State.WAITING:
            yield from self._batches.parking(row, now)
        tally.add(row["batch"], before, step.target)
        return True

    def _row(self, statement: str, job_id: str, owner: str | None = None) -> Steps[Record]:
        rows = yield Statement(self._sql[statement], {"id": job_id, "owner": owner})
        if not rows:
            raise JobNotFound(job_id)
        return rows[0]

    def _write(self, request: Request, row: Record, target: State, now: Now) -> Steps[None]:
        values = {"id": row["id"], "source": row["state"], "target": target.value, "now": now}
        statement = Statement(self._sql[MOVES[request.move]], {**values, "delay": to_duration(request.delay)})
        try:
            yield from undoing(alone(statement), self.violation)
        except self.violation as error:
            raise (yield from self._refusal(row, error)) from error

    def _refusal(self, row: Record, error: Exception) -> Steps[MulliganError]:
        key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
        twins = yield Statement(self._sql["enqueue_twin"], key)
        if twins and twins[0]["id"] != row["id"]:
            return Conflict(row["id"], twins[0]["id"])
        return StoreDamaged(f"the row of job {row['id']!r} is damaged: {error}")


def _state(row: Record) -> State:
    try:
        return State(row["state"])
    except ValueError as error:
        raise StoreDamaged(f"the row of job {row['id']!r} is damaged: {error}") from error
