"""Batches: drafts, publishing, counting members, and the outcome.

Locks are taken in one order: jobs, then batches. A transaction that changes members applies its count changes last
(`apply_counts`), and no transaction waits for a job while it holds the row of a batch.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mulligan.errors import (
    BatchClosed,
    BatchExpired,
    BatchNotFound,
    Conflict,
    MulliganError,
    StoreDamaged,
    StoreUnavailable,
    illegal_move,
)
from mulligan.lifecycle import (
    BATCH_ABORTED,
    BATCH_EXPIRED,
    BATCH_PUBLISHED,
    BATCH_REOPENED,
    BATCH_RETRIED,
    BATCH_SETTLED,
    FINAL,
    TABLE,
    Move,
    State,
)
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.batch_outcome import BatchAction, has_expired, next_action, outcome
from mulligan.store.events import event_values, is_done, to_data
from mulligan.store.follow_up import EndedRow, Enqueue, store_follow_ups, to_callbacks
from mulligan.store.messages import Outcome, Permission, RetriedMembers, Settled
from mulligan.store.reading import row_of
from mulligan.store.rows import Record, from_time, to_duration, to_job, to_json, to_record, to_time
from mulligan.store.session import Rows, Session, Statement, Statements, Steps
from mulligan.store.settle import has_succeeded

logger = logging.getLogger("mulligan.store")

# Members cancelled at once when a batch is aborted. The duty `expire` cancels the rest.
CANCEL_PASS = 1_000
BY_ABORT = "the batch was aborted"
NOT_RETRIED = "another job holds the same dedupe key, or its state has changed"
RETRIED = TABLE[Move.MANUAL_RETRY, State.FAILED].event
KEY = ("id", "owner", "kind", "dedupe_key")


class CountChanges:
    """How a transaction changes the counts of ended members, by batch and state."""

    def __init__(self) -> None:
        self._changes: dict[str, Counter[State]] = {}

    def add(self, batch: str | None, before: State, after: State, number: int = 1) -> None:
        if batch is None or before is after:
            return
        counts = self._changes.setdefault(batch, Counter())
        if before.is_final:
            counts[before] -= number
        if after.is_final:
            counts[after] += number

    def add_all(self, batches: Iterable[str | None], before: State, after: State) -> None:
        for batch, number in Counter(batches).items():
            self.add(batch, before, after, number)

    def takes_back(self, batch: str) -> bool:
        """Whether fewer of its members are ended than before."""
        return sum(self._changes[batch].values()) < 0

    def adds_failures(self, batch: str) -> bool:
        return self._changes[batch][State.FAILED] > 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each batch whose counts change, in the order of locking."""
        return [
            {"id": batch, **{state.value: counts[state] for state in FINAL}}
            for batch, counts in sorted(self._changes.items())
            if any(counts.values())
        ]


class BatchOperations:
    """`enqueue` is the operation of the backend that stores jobs."""

    def __init__(self, sql: Statements, enqueue: Enqueue) -> None:
        self._sql = sql
        self._enqueue = enqueue

    # Draft

    def create(self, session: Session, batch: NewBatch) -> BatchRecord:
        session.rows("batch_new", new_batch_values(batch))
        return self.get(session, batch.id, None)

    def get(self, session: Session, batch_id: str, owner: str | None) -> BatchRecord:
        return to_batch(self._row(session, batch_id, owner))

    def _row(self, session: Session, batch_id: str, owner: str | None) -> Record:
        rows = session.rows("batch", {"id": batch_id, "owner": owner})
        if not rows:
            raise BatchNotFound(batch_id)
        return rows[0]

    def list_all(
        self, session: Session, state: BatchState | None, owner: str | None, limit: int, cursor: str | None
    ) -> list[BatchRecord]:
        values = {"state": None if state is None else state.value, "owner": owner, "limit": limit, "cursor": cursor}
        rows = session.rows("batches", values)
        return [to_batch(row) for row in rows]

    def lock_batches(self, rows: Sequence[Record]) -> Steps[set[str]]:
        """Lock the batches of these jobs. Return the ids of jobs whose batch is not a draft or does not exist."""
        wanted = sorted({row["batch"] for row in rows if row["batch"] is not None})
        if not wanted:
            return set()
        states = yield from self._states(wanted)
        return {row["id"] for row in rows if row["batch"] and states.get(row["batch"]) != BatchState.DRAFT}

    def refuse_closed(self, row: Record) -> Steps[None]:
        """Raise the reason why a job could not be stored, if its batch is the reason."""
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

    def return_to_draft(self, session: Session, job: Record) -> None:
        """Block a member that was moved manually while its batch is a draft. Raises BatchExpired for an expired batch:
        the counts would detect that too, but not which of many members caused it."""
        row = self._row(session, job["batch"], None)
        batch = to_batch(row)
        if State(job["state"]).is_final and has_expired(batch, from_time(row["now"])):
            raise BatchExpired(batch.id, batch.name)
        states = session.play(self._states([job["batch"]]))
        if states.get(job["batch"]) == BatchState.DRAFT:
            session.rows("batch_block", {"id": job["id"]})

    # Publish

    def publish(self, session: Session, batch_id: str, owner: str | None, actor: str | None) -> BatchRecord:
        rows = session.rows("batch_locked", {"id": batch_id, "owner": owner})
        if not rows:
            raise BatchNotFound(batch_id)
        if rows[0]["state"] == BatchState.DRAFT:
            # Only now: all transactions that add members have committed.
            (members,) = session.rows("batch_members", {"id": batch_id})
            self._publish(session, rows[0], members["number"], actor)
        return self.get(session, batch_id, None)

    def _publish(self, session: Session, row: Record, total: int, actor: str | None) -> None:
        moment = from_time(row["now"])
        batch = replace(to_batch(row), state=BatchState.PROCESSING, total=total, published_at=moment)
        session.rows("batch_write", batch_values(batch, admits=True))
        self._event(session, BATCH_PUBLISHED, batch, moment, actor=actor)
        if step := next_action(batch, moment):
            self._act(session, step, batch, row, actor)

    # Count

    def apply_counts(self, session: Session, changes: CountChanges, *, actor: str | None = None) -> None:
        """Apply the count changes of a transaction, as its last step, and settle, abort or reopen batches
        accordingly."""
        if not changes.rows:
            return
        rows = session.rows("batch_count", {"tallies": to_json(changes.rows)})
        for batch, row in _skip_damaged(rows):
            step = next_action(batch, from_time(row["now"]))
            # An ending attempt reopens nothing, so only a transaction that retries members can be refused. A reopened
            # batch with too many earlier failures is aborted only after another failure.
            is_wanted = {
                BatchAction.REOPEN: changes.takes_back(batch.id),
                BatchAction.REFUSE: changes.takes_back(batch.id),
                BatchAction.ABORT: changes.adds_failures(batch.id),
            }
            if step is not None and is_wanted.get(step, True):
                self._act(session, step, batch, row, actor)

    def _act(self, session: Session, step: BatchAction, batch: BatchRecord, row: Record, actor: str | None) -> None:
        """Take the action. The row is locked until the commit."""
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
        if jobs := to_callbacks(batch, on_settled):
            self._enqueue(session, jobs)
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
        self.cancel_members(session, batch, CANCEL_PASS)

    def cancel_members(self, session: Session, batch: BatchRecord, limit: int) -> int:
        """Cancel members of an aborted batch that are not running. Return how many."""
        assert batch.aborted_at is not None
        values = {"id": batch.id, "aborted_at": to_time(batch.aborted_at), "limit": limit}
        rows = session.rows("batch_cancel", {**values, "cancelled": State.CANCELLED.value})
        if not rows:
            return 0
        step = TABLE[Move.MANUAL_CANCEL, State.WAITING]
        self._log_members(session, step.event, rows, data={"reason": BY_ABORT})
        ended = [
            EndedRow(row["id"], row["owner"], row["attempt"], row["finished_at"], step.target, row["on_cancelled"])
            for row in rows
        ]
        store_follow_ups(session, self._enqueue, ended)
        changes = CountChanges()
        changes.add(batch.id, State.WAITING, step.target, len(rows))
        self.apply_counts(session, changes)
        return len(rows)

    def count_settled(self, session: Session, outcomes: Sequence[Outcome], answers: Sequence[Settled]) -> None:
        """Count the batch members among the accepted outcomes."""
        succeeded, others = [], {}
        for given, answer in zip(outcomes, answers, strict=True):
            lease = given.lease
            if lease.batch is None or answer not in (Settled.ACCEPTED, Settled.UNSTORABLE):
                continue
            if has_succeeded(given) and answer is Settled.ACCEPTED:
                succeeded.append(lease.batch)
            else:
                others[lease.fence.id] = lease.batch
        changes = CountChanges()
        changes.add_all(succeeded, State.RUNNING, State.SUCCEEDED)
        if others:
            # A cancel request may have taken precedence over the decision.
            rows = session.rows("states", {"ids": to_json(list(others))})
            for row in rows:
                changes.add(others[row["id"]], State.RUNNING, State(row["state"]))
        self.apply_counts(session, changes)

    # Retry

    def retry(self, session: Session, request: BatchRetry, permission: Permission) -> RetriedMembers:
        """All in one transaction: else the first could end, and the batch be settled, before the last is retried."""
        batch = self.get(session, request.batch, request.owner)
        if is_done(session, request.id):
            return RetriedMembers(batch, self._list_retried(session, request), {})
        states = session.play(self._states([batch.id]))
        gate = f"batch/{batch.id}" if states.get(batch.id) == BatchState.DRAFT else None
        retried, changes = [], CountChanges()
        for source in (State.FAILED, State.CANCELLED):
            rows = self._retry_from(session, source, request, request.jobs, gate)
            changes.add(batch.id, source, State.WAITING, len(rows))
            retried += [row["id"] for row in rows]
        refused = dict.fromkeys(set(request.jobs).difference(retried), NOT_RETRIED)
        for job_id in request.asked:
            try:
                with session.undo(MulliganError, session.violation):
                    changes.add(batch.id, self._retry_asked(session, job_id, request, gate, permission), State.WAITING)
                retried.append(job_id)
            except StoreUnavailable:
                raise
            except (MulliganError, session.violation) as error:
                refused[job_id] = str(error)
        if retried:
            data = {"did": len(retried)} | ({"reason": request.reason} if request.reason else {})
            event = batch_event(BATCH_RETRIED, batch, request=request.id, actor=request.actor, data=data)
            session.rows("event", event)
        self.apply_counts(session, changes, actor=request.actor)
        return RetriedMembers(self.get(session, batch.id, None), retried, refused)

    def _retry_asked(
        self, session: Session, job_id: str, request: BatchRetry, gate: str | None, permission: Permission
    ) -> State:
        """Retry a member if its task allows it. Return the state it had."""
        row = row_of(session, "job_locked", job_id)
        job = to_job(row)
        if (Move.MANUAL_RETRY, job.state) not in TABLE or not job.state.is_final:
            raise illegal_move(job.id, job.state, Move.MANUAL_RETRY)
        permission.ask(job, session.connection)
        if not self._retry_from(session, job.state, request, [job_id], gate):
            (twin,) = session.rows("enqueue_twin", {name: row[name] for name in KEY}) or [{"id": job_id}]
            raise Conflict(job_id, twin["id"])
        return job.state

    def _list_retried(self, session: Session, request: BatchRetry) -> list[str]:
        jobs = [*request.jobs, *request.asked]
        rows = session.rows("batch_retried", {"jobs": to_json(jobs), "event": RETRIED})
        return [row["job"] for row in rows if to_data(row["data"]).get("request") == request.id]

    def _retry_from(
        self, session: Session, source: State, request: BatchRetry, jobs: Sequence[str], gate: str | None
    ) -> Rows:
        step = TABLE[Move.MANUAL_RETRY, source]
        values = {"batch": request.batch, "jobs": to_json(jobs), "gate": gate}
        states = {"source": source.value, "target": step.target.value}
        rows = session.rows("batch_retry", {**values, **states})
        if rows:
            data = {"request": request.id} | ({"reason": request.reason} if request.reason else {})
            self._log_members(session, step.event, rows, actor=request.actor, data=data)
        return rows

    # Upkeep

    def needs_upkeep(self, session: Session) -> bool:
        rows = session.rows("batch_needs", {})
        return bool(rows[0]["is_so"])

    def expire(self, session: Session, limit: int) -> int:
        expired = BatchState.EXPIRED.value
        rows = session.rows("batch_expire", {"expired": expired, "limit": limit})
        for batch, row in _skip_damaged(rows):
            self._event(session, BATCH_EXPIRED, batch, from_time(row["now"]))
        return len(rows)

    def list_aborted(self, session: Session, limit: int) -> list[BatchRecord]:
        rows = session.rows("batch_aborted", {"limit": limit})
        return [batch for batch, _ in _skip_damaged(rows)]

    def finish_admission(self, session: Session) -> None:
        """Close the gates of batches that no longer block any job."""
        session.rows("batch_admitted", {})

    def prune(self, session: Session, before: datetime, limit: int) -> int:
        rows = session.rows("batch_prune", {"before": to_time(before), "limit": limit})
        return len(rows)

    # Events

    def _event(
        self, session: Session, type_: str, batch: BatchRecord, moment: datetime, *, actor: str | None = None
    ) -> None:
        session.rows("event", batch_event(type_, batch, actor=actor), now=to_time(moment))

    def _log_members(
        self,
        session: Session,
        type_: str,
        rows: Iterable[Record],
        *,
        data: dict[str, Any],
        actor: str | None = None,
    ) -> None:
        values = {"event": type_, "jobs": to_json(list(rows)), "data": to_json(data), "actor": actor}
        session.rows("batch_events", values)


def _skip_damaged(rows: Iterable[Record]) -> Iterator[tuple[BatchRecord, Record]]:
    """Skip damaged batches: they are not settled, but their members continue."""
    for row in rows:
        try:
            yield to_batch(row), row
        except StoreDamaged as error:
            logger.error("%s: it is not settled", error)


def new_batch_values(batch: NewBatch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "name": batch.name,
        "owner": batch.owner,
        "success_at": float(batch.success_at),
        "abort_above": None if batch.abort_above is None else float(batch.abort_above),
        "expires_in": None if batch.expires_in is None else to_duration(batch.expires_in),
        "on_settled": None if batch.on_settled is None else to_json(batch.on_settled),
        "draft": BatchState.DRAFT.value,
    }


def batch_values(batch: BatchRecord, *, admits: bool = False) -> dict[str, Any]:
    times = {name: getattr(batch, name) for name in ("published_at", "settled_at", "aborted_at")}
    return {
        "id": batch.id,
        "state": batch.state.value,
        "generation": batch.generation,
        "total": batch.total,
        "admits": admits,
        **{name: None if moment is None else to_time(moment) for name, moment in times.items()},
    }


def batch_event(
    type_: str,
    batch: BatchRecord,
    *,
    request: str | None = None,
    actor: str | None = None,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return an event without a job. Without a request id it is written once per generation, however often it is
    repeated."""
    about: dict[str, Any] = {"what": "batch", "name": batch.name, "batch": batch.id, "generation": batch.generation}
    counts = {name: getattr(batch, name) for name in ("total", "succeeded", "failed", "cancelled")}
    return event_values(
        type_,
        owner=batch.owner,
        request=request or f"{type_}:{batch.id}:{batch.generation}",
        actor=actor,
        data=about | {"state": batch.state.value, **counts} | (data or {}),
    )


def to_batch(row: Record) -> BatchRecord:
    """Raises StoreDamaged, with the id, for a row that was changed manually and makes no sense."""
    try:
        state = BatchState(row["state"])
    except ValueError as error:
        raise StoreDamaged(f"the row of batch {row['id']!r} is damaged: {error}") from error
    return to_record(BatchRecord, row, state=state)
