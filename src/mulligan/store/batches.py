"""Batches in every store: the same steps, each store with its own statements of the same names.

The order of locks is jobs, then batches: whatever changes members counts them last (`counted`), and nobody who holds
the row of a batch waits for a job.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mulligan.errors import BatchClosed, BatchExpired, BatchNotFound, StoreDamaged
from mulligan.lifecycle import (
    BATCH_ABORTED,
    BATCH_EXPIRED,
    BATCH_PUBLISHED,
    BATCH_REOPENED,
    BATCH_RETRIED,
    BATCH_SETTLED,
    TABLE,
    Move,
    State,
)
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.batch_outcome import BatchAction, has_expired, next_action, outcome
from mulligan.records.job import Job, NewJob
from mulligan.store.batch_counts import CountChanges
from mulligan.store.follow_up import callback
from mulligan.store.idempotency import is_done
from mulligan.store.messages import Outcome, Settled
from mulligan.store.rows import Record, from_time, to_batch, to_data, to_json, to_time
from mulligan.store.script import Rows, Statement, Steps
from mulligan.store.session import Now, Session
from mulligan.store.settle import has_succeeded
from mulligan.store.statements import Statements
from mulligan.store.values import batch_event, batch_values, new_batch_values

logger = logging.getLogger("mulligan.store")

# Cancelled at once when a batch is aborted; the duty `expire` does the others.
SWEEP_PASS = 1_000
BY_ABORT = "the batch was aborted"
PUBLISH_PASS = 1_000
PUBLISH_PASSES = 100
RETRIED = TABLE[Move.MANUAL_RETRY, State.FAILED].event

EnqueueSteps = Callable[[Sequence[NewJob]], Steps[list[Job[Any]]]]


class BatchOperations:
    """`enqueue_steps` is the store's script that stores jobs."""

    def __init__(self, sql: Statements, enqueue_steps: EnqueueSteps) -> None:
        self._sql = sql
        self._enqueue_steps = enqueue_steps

    # Draft

    def create(self, session: Session, batch: NewBatch, now: Now) -> BatchRecord:
        session.rows("batch_new", new_batch_values(batch), now=now)
        return self.get(session, batch.id, None)

    def get(self, session: Session, batch_id: str, owner: str | None) -> BatchRecord:
        return to_batch(self._row(session, batch_id, owner, None))

    def _row(self, session: Session, batch_id: str, owner: str | None, now: Now) -> Record:
        rows = session.rows("batch", {"id": batch_id, "owner": owner}, now=now)
        if not rows:
            raise BatchNotFound(batch_id)
        return rows[0]

    def list_all(
        self, session: Session, state: BatchState | None, owner: str | None, limit: int, cursor: str | None
    ) -> list[BatchRecord]:
        values = {"state": None if state is None else state.value, "owner": owner, "limit": limit, "cursor": cursor}
        rows = session.rows("batches", values)
        return [to_batch(row) for row in rows]

    def lock_joined(self, rows: Sequence[Record]) -> Steps[set[str]]:
        """The ids of jobs that cannot be stored: their batch is no draft, or there is none."""
        wanted = sorted({row["batch"] for row in rows if row["batch"] is not None})
        if not wanted:
            return set()
        states = yield from self._states(wanted)
        return {row["id"] for row in rows if row["batch"] and states.get(row["batch"]) != BatchState.DRAFT}

    def refuse_closed(self, row: Record) -> Steps[None]:
        """Say why a job could not be stored, if its batch is why."""
        if row["batch"] is None:
            return
        state = (yield from self._states([row["batch"]])).get(row["batch"])
        if state is None:
            raise BatchNotFound(row["batch"])
        if state != BatchState.DRAFT:
            raise BatchClosed(row["batch"], state)

    def _states(self, ids: Sequence[str]) -> Steps[dict[str, str]]:
        rows = yield Statement(self._sql["batch_joined"], {"ids": to_json(ids), "now": None})
        return {row["id"]: row["state"] for row in rows}

    def park(self, session: Session, job: Record, now: Now) -> None:
        """A member that was moved by hand and waits goes back to the others while its batch is a draft. None comes back
        to one that has expired; the count says so too, but not which of many members it was."""
        row = self._row(session, job["batch"], None, now)
        batch = to_batch(row)
        if State(job["state"]).is_final and has_expired(batch, from_time(row["now"])):
            raise BatchExpired(batch.id, batch.name)
        states = session.play(self._states([job["batch"]]))
        if states.get(job["batch"]) == BatchState.DRAFT:
            session.rows("batch_park", {"id": job["id"]})

    # Publish

    def publish(self, session: Session, batch_id: str, owner: str | None, actor: str | None, now: Now) -> BatchRecord:
        rows = session.rows("batch_locked", {"id": batch_id, "owner": owner}, now=now)
        if not rows:
            raise BatchNotFound(batch_id)
        if rows[0]["state"] == BatchState.DRAFT:
            # Only now: whoever was adding has committed.
            (members,) = session.rows("batch_members", {"id": batch_id})
            self._publish(session, rows[0], members["number"], actor)
        return self.get(session, batch_id, None)

    def _publish(self, session: Session, row: Record, total: int, actor: str | None) -> None:
        moment = from_time(row["now"])
        batch = replace(to_batch(row), state=BatchState.PROCESSING, total=total, published_at=moment)
        session.rows("batch_write", batch_values(batch, admits=True))
        self._event(session, BATCH_PUBLISHED, batch, moment, actor=actor)
        if step := next_action(batch, moment):
            self._make(session, step, batch, row, actor)

    # Count

    def apply_counts(self, session: Session, tally: CountChanges, now: Now, *, actor: str | None = None) -> None:
        """Add up what a transaction did to members: its last step."""
        if not tally.rows:
            return
        rows = session.rows("batch_count", {"tallies": to_json(tally.rows)}, now=now)
        for batch, row in _readable(rows):
            step = next_action(batch, from_time(row["now"]))
            # An attempt that ends opens nothing, so only who takes members back can be refused; and an open batch whose
            # earlier failures are too many is not given up before another one comes.
            is_wanted = {
                BatchAction.REOPEN: tally.takes_back(batch.id),
                BatchAction.REFUSE: tally.takes_back(batch.id),
                BatchAction.ABORT: tally.adds_failures(batch.id),
            }
            if step is not None and is_wanted.get(step, True):
                self._make(session, step, batch, row, actor)

    def _make(self, session: Session, step: BatchAction, batch: BatchRecord, row: Record, actor: str | None) -> None:
        """Do what the counts ask for. The row is ours until the commit."""
        moment = from_time(row["now"])
        match step:
            case BatchAction.SETTLE:
                self._settle(session, batch, row["on_settled"], moment)
            case BatchAction.ABORT:
                self._abort(session, batch, moment)
            case BatchAction.REOPEN:
                self._reopen(session, batch, moment, actor)
            case BatchAction.REFUSE:
                raise BatchExpired(batch.id, batch.name)

    def _settle(self, session: Session, batch: BatchRecord, on_settled: str | None, moment: datetime) -> None:
        batch = replace(batch, state=outcome(batch), settled_at=moment)
        if jobs := callback(batch, on_settled):
            session.play(self._enqueue_steps(jobs))
        self._event(session, BATCH_SETTLED, batch, moment)
        session.rows("batch_write", batch_values(batch))

    def _reopen(self, session: Session, batch: BatchRecord, moment: datetime, actor: str | None) -> None:
        batch = replace(
            batch,
            state=BatchState.PROCESSING,
            generation=batch.generation + 1,
            settled_at=None,
            aborted_at=None,
        )
        self._event(session, BATCH_REOPENED, batch, moment, actor=actor)
        session.rows("batch_write", batch_values(batch))

    def _abort(self, session: Session, batch: BatchRecord, moment: datetime) -> None:
        batch = replace(batch, aborted_at=moment)
        self._event(session, BATCH_ABORTED, batch, moment)
        session.rows("batch_write", batch_values(batch))
        self.sweep(session, batch, SWEEP_PASS, to_time(moment))

    def sweep(self, session: Session, batch: BatchRecord, limit: int, now: Now) -> int:
        """Cancel members of an aborted batch that do not run; how many."""
        assert batch.aborted_at is not None
        values = {"id": batch.id, "aborted_at": to_time(batch.aborted_at), "limit": limit}
        rows = session.rows("batch_sweep", {**values, "cancelled": State.CANCELLED.value}, now=now)
        if not rows:
            return 0
        step = TABLE[Move.MANUAL_CANCEL, State.WAITING]
        self._events_of(session, step.event, rows, now, data={"reason": BY_ABORT})
        tally = CountChanges()
        tally.add(batch.id, State.WAITING, step.target, len(rows))
        self.apply_counts(session, tally, now)
        return len(rows)

    def count_settled(
        self, session: Session, outcomes: Sequence[Outcome], answers: Sequence[Settled], now: Now
    ) -> None:
        """Count the members among outcomes that were accepted."""
        succeeded, asked = [], {}
        for given, answer in zip(outcomes, answers, strict=True):
            lease = given.lease
            if lease.batch is None or answer not in (Settled.ACCEPTED, Settled.UNSTORABLE):
                continue
            if has_succeeded(given) and answer is Settled.ACCEPTED:
                succeeded.append(lease.batch)
            else:
                asked[lease.fence.id] = lease.batch
        tally = CountChanges()
        tally.add_all(succeeded, State.RUNNING, State.SUCCEEDED)
        if asked:
            # A wish to cancel may have won over the decision.
            rows = session.rows("states", {"ids": to_json(list(asked))})
            for row in rows:
                tally.add(asked[row["id"]], State.RUNNING, State(row["state"]))
        self.apply_counts(session, tally, now)

    # Retry

    def retry(self, session: Session, request: BatchRetry, now: Now) -> list[str]:
        """All at once: else the first could be over, and the batch settled, before the last is asked for."""
        batch = self.get(session, request.batch, request.owner)
        if is_done(session, request.id):
            return self._retried_by(session, request)
        states = session.play(self._states([batch.id]))
        gate = f"batch/{batch.id}" if states.get(batch.id) == BatchState.DRAFT else None
        retried, tally = [], CountChanges()
        for source in (State.FAILED, State.CANCELLED):
            rows = self._retry_from(session, source, request, gate, now)
            tally.add(batch.id, source, State.WAITING, len(rows))
            retried += [row["id"] for row in rows]
        if retried:
            data = {"did": len(retried)} | ({"reason": request.reason} if request.reason else {})
            event = batch_event(BATCH_RETRIED, batch, now=now, request=request.id, actor=request.actor, data=data)
            session.rows("event", event)
        self.apply_counts(session, tally, now, actor=request.actor)
        return retried

    def _retried_by(self, session: Session, request: BatchRetry) -> list[str]:
        rows = session.rows("batch_retried", {"jobs": to_json(request.jobs), "event": RETRIED})
        return [row["job"] for row in rows if to_data(row["data"]).get("request") == request.id]

    def _retry_from(self, session: Session, source: State, request: BatchRetry, gate: str | None, now: Now) -> Rows:
        step = TABLE[Move.MANUAL_RETRY, source]
        values = {"batch": request.batch, "jobs": to_json(request.jobs), "gate": gate}
        states = {"source": source.value, "target": step.target.value}
        rows = session.rows("batch_retry", {**values, **states}, now=now)
        if rows:
            data = {"request": request.id} | ({"reason": request.reason} if request.reason else {})
            self._events_of(session, step.event, rows, now, actor=request.actor, data=data)
        return rows

    # Store

    def needs_tending(self, session: Session, now: Now) -> bool:
        rows = session.rows("batch_needs", {}, now=now)
        return bool(rows[0]["is_so"])

    def tending(self, session: Session, limit: int, now: Now) -> int:
        """How many batches and jobs."""
        did = self.expire(session, limit, now)
        for batch in self.list_aborted(session, limit, now):
            did += self.sweep(session, batch, max(0, limit - did), now)
        self.finish_admission(session)
        return did

    def expire(self, session: Session, limit: int, now: Now) -> int:
        expired = BatchState.EXPIRED.value
        rows = session.rows("batch_expire", {"expired": expired, "limit": limit}, now=now)
        for batch, row in _readable(rows):
            self._event(session, BATCH_EXPIRED, batch, from_time(row["now"]))
        return len(rows)

    def list_aborted(self, session: Session, limit: int, now: Now) -> list[BatchRecord]:
        rows = session.rows("batch_aborted", {"limit": limit}, now=now)
        return [batch for batch, _ in _readable(rows)]

    def finish_admission(self, session: Session) -> None:
        """Close gates that nobody stands at any more."""
        session.rows("batch_admitted", {})

    def prune(self, session: Session, before: datetime, limit: int) -> int:
        rows = session.rows("batch_prune", {"before": to_time(before), "limit": limit})
        return len(rows)

    # Events

    def _event(
        self, session: Session, type_: str, batch: BatchRecord, moment: datetime, *, actor: str | None = None
    ) -> None:
        session.rows("event", batch_event(type_, batch, now=to_time(moment), actor=actor))

    def _events_of(
        self,
        session: Session,
        type_: str,
        rows: Iterable[Record],
        now: Now,
        *,
        data: dict[str, Any],
        actor: str | None = None,
    ) -> None:
        values = {"event": type_, "jobs": to_json(list(rows)), "data": to_json(data), "actor": actor}
        session.rows("batch_events", values, now=now)


def _readable(rows: Iterable[Record]) -> Iterator[tuple[BatchRecord, Record]]:
    """A batch that somebody damaged stands still; its members go on all the same."""
    for row in rows:
        try:
            yield to_batch(row), row
        except StoreDamaged as error:
            logger.error("%s: it is not settled", error)
