"""Jobs that fail without an attempt, in every store: what the log says of it, what follows, and how it is counted."""

from collections.abc import Sequence

from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.batch_counts import CountChanges
from mulligan.store.batches import BatchSteps, Enqueueing
from mulligan.store.clock import Now
from mulligan.store.follow_up import FailedRow, follow_ups
from mulligan.store.rows import Record, to_json
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements
from mulligan.store.values import error_values, failure_data

# From the queue it is the same.
FAILED = TABLE[Move.EXPIRE, State.WAITING]


class UnrunSteps:
    """`enqueueing` are a store's steps to store jobs."""

    def __init__(self, sql: Statements, batches: BatchSteps, enqueueing: Enqueueing) -> None:
        self._sql = sql
        self._batches = batches
        self._enqueueing = enqueueing

    def expiring(self, verdict: Verdict, limit: int, now: Now) -> Steps[int]:
        values = {"limit": limit, "failed": FAILED.target.value, **error_values(verdict)}
        rows = yield Statement(self._sql["expire"], {**values, "now": now})
        yield from self.telling(rows, verdict, "its deadline passed before it could run")
        yield from self.ending(rows, now)
        return len(rows)

    def telling(self, rows: Sequence[Record], verdict: Verdict, because: str) -> Steps[None]:
        if rows:
            data = to_json(failure_data(verdict, {"because": because}))
            about = {"event": FAILED.event, "code": verdict.code, "data": data}
            values = {"jobs": to_json(rows), "now": rows[0]["finished_at"]}
            yield Statement(self._sql["events_of_many"], {**values, **about})

    def ending(self, rows: Sequence[Record], now: Now, *, tally: CountChanges | None = None) -> Steps[None]:
        """Store what is to follow, and count last; in the tally of a larger step, which counts it then."""
        yield from self.following(rows)
        mine = CountChanges() if tally is None else tally
        mine.add_all([row["batch"] for row in rows], State.WAITING, FAILED.target)
        if tally is None:
            yield from self._batches.counted(mine, now)

    def following(self, rows: Sequence[Record]) -> Steps[None]:
        failed = [
            FailedRow(row["id"], row["owner"], row["attempt"], row["finished_at"], row["on_failed"]) for row in rows
        ]
        if jobs := follow_ups(failed):
            yield from self._enqueueing(jobs)
