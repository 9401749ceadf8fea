"""Jobs that fail without an attempt: their events, their follow-up jobs, and the counts of their batches."""

from collections.abc import Sequence
from typing import Any

from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, NewJob
from mulligan.store.batches import BatchOperations, CountChanges
from mulligan.store.events import event_values, failure_data
from mulligan.store.follow_up import EndedRow, Enqueue, store_follow_ups
from mulligan.store.rows import Record, error_values, to_job, to_json
from mulligan.store.session import Session
from mulligan.store.settle import failure_to_keep

# The same as from the queue.
FAILED = TABLE[Move.EXPIRE, State.WAITING]
REJECTED = "it was rejected when it was enqueued"


class ExpireOperations:
    """`enqueue` is the operation of the backend that stores jobs."""

    def __init__(self, batches: BatchOperations, enqueue: Enqueue) -> None:
        self._batches = batches
        self._enqueue = enqueue

    def expire(self, session: Session, verdict: Verdict, limit: int) -> int:
        values = {"limit": limit, "failed": FAILED.target.value, **error_values(verdict)}
        rows = session.rows("expire", values)
        self.log_failures(session, rows, verdict, "its deadline passed before it could run")
        self.finish(session, rows)
        return len(rows)

    def reject(self, session: Session, job: NewJob, verdict: Verdict) -> Job[Any]:
        """Store a job that failed before it could run. No job follows it."""
        (stored,) = self._enqueue(session, [job])
        if stored.is_duplicate:
            return stored
        values = {"id": job.id, "failed": FAILED.target.value, **error_values(verdict)}
        (row,) = session.rows("reject", values)
        data = failure_data(verdict, {"because": REJECTED}) | failure_to_keep(verdict)
        data |= {"error": verdict.technical_line, "detail": verdict.detail}
        about = (job.id, job.kind, job.owner)
        event = event_values(FAILED.event, *about, code=verdict.code, data=data)
        session.rows("event", event, now=row["finished_at"])
        changes = CountChanges()
        changes.add(job.batch, State.WAITING, FAILED.target)
        self._batches.apply_counts(session, changes)
        return to_job(row)

    def log_failures(self, session: Session, rows: Sequence[Record], verdict: Verdict, because: str) -> None:
        if rows:
            data = to_json(failure_data(verdict, {"because": because}))
            about = {"event": FAILED.event, "code": verdict.code, "data": data}
            values = {"jobs": to_json(rows), "now": rows[0]["finished_at"]}
            session.rows("events_of_many", {**values, **about})

    def finish(self, session: Session, rows: Sequence[Record], *, changes: CountChanges | None = None) -> None:
        """Store the follow-up jobs, then count batch members. With `changes` the caller counts them later."""
        self.store_follow_ups(session, rows)
        mine = CountChanges() if changes is None else changes
        mine.add_all([row["batch"] for row in rows], State.WAITING, FAILED.target)
        if changes is None:
            self._batches.apply_counts(session, mine)

    def store_follow_ups(self, session: Session, rows: Sequence[Record]) -> None:
        failed = [
            EndedRow(row["id"], row["owner"], row["attempt"], row["finished_at"], State.FAILED, row["on_failed"])
            for row in rows
        ]
        store_follow_ups(session, self._enqueue, failed)
