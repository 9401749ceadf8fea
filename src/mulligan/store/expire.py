"""Jobs that fail without an attempt, in every store: what the log says of it, what follows, and how it is counted."""

from collections.abc import Sequence

from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.batch_counts import CountChanges
from mulligan.store.batches import BatchOperations, EnqueueSteps
from mulligan.store.follow_up import FailedRow, follow_ups
from mulligan.store.rows import Record, to_json
from mulligan.store.session import Now, Session
from mulligan.store.values import error_values, failure_data

# From the queue it is the same.
FAILED = TABLE[Move.EXPIRE, State.WAITING]


class ExpireOperations:
    """`enqueue_steps` is the store's script that stores jobs."""

    def __init__(self, batches: BatchOperations, enqueue_steps: EnqueueSteps) -> None:
        self._batches = batches
        self._enqueue_steps = enqueue_steps

    def expire(self, session: Session, verdict: Verdict, limit: int, now: Now) -> int:
        values = {"limit": limit, "failed": FAILED.target.value, **error_values(verdict)}
        rows = session.rows("expire", {**values, "now": now})
        self.log_failures(session, rows, verdict, "its deadline passed before it could run")
        self.finish(session, rows, now)
        return len(rows)

    def log_failures(self, session: Session, rows: Sequence[Record], verdict: Verdict, because: str) -> None:
        if rows:
            data = to_json(failure_data(verdict, {"because": because}))
            about = {"event": FAILED.event, "code": verdict.code, "data": data}
            values = {"jobs": to_json(rows), "now": rows[0]["finished_at"]}
            session.rows("events_of_many", {**values, **about})

    def finish(self, session: Session, rows: Sequence[Record], now: Now, *, tally: CountChanges | None = None) -> None:
        """Store what is to follow, and count last; in the tally of a larger step, which counts it then."""
        self.store_follow_ups(session, rows)
        mine = CountChanges() if tally is None else tally
        mine.add_all([row["batch"] for row in rows], State.WAITING, FAILED.target)
        if tally is None:
            self._batches.apply_counts(session, mine, now)

    def store_follow_ups(self, session: Session, rows: Sequence[Record]) -> None:
        failed = [
            FailedRow(row["id"], row["owner"], row["attempt"], row["finished_at"], row["on_failed"]) for row in rows
        ]
        if jobs := follow_ups(failed):
            session.play(self._enqueue_steps(jobs))
