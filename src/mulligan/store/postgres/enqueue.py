"""Jobs come in: with one statement for all."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from mulligan.job import Job, NewJob
from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.batches import BatchSteps
from mulligan.store.clock import Now, moment
from mulligan.store.limits import LimitDesk
from mulligan.store.names import NameDesk
from mulligan.store.owners import OwnerSteps
from mulligan.store.postgres.connections import Connection
from mulligan.store.postgres.play import BEGIN, SQL, play, transaction
from mulligan.store.rows import Record, to_job, to_json, to_time
from mulligan.store.script import Statement, Steps
from mulligan.store.values import new_values


class Intake:
    """`now` replaces the server's clock."""

    def __init__(
        self, owners: OwnerSteps, limits: LimitDesk, names: NameDesk, now: Callable[[], datetime] | None
    ) -> None:
        self._owners = owners
        self._limits = limits
        self._names = names
        self._given_now = now
        self.batches = BatchSteps(SQL, self.enqueueing)

    def enqueue(self, db: Connection, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        with transaction(db, BEGIN) if any(map(_takes_more, jobs)) else contextlib.nullcontext():
            return play(db, self.enqueueing(jobs))

    def enqueueing(self, jobs: Sequence[NewJob]) -> Steps[list[Job[Any]]]:
        rows = [{**new_values(job, is_limited=self._limits.concerns(job)), "n": n} for n, job in enumerate(jobs)]
        now = None if self._given_now is None else to_time(self._given_now())
        stored = yield from self._storing(rows, now)
        return [to_job(row, is_duplicate=row["id"] != job.id) for row, job in zip(stored, jobs, strict=True)]

    def _storing(self, rows: list[dict[str, Any]], now: Now) -> Steps[list[Record]]:
        if not rows:
            return []
        yield from self._names.naming(rows, now)
        buckets = yield from self._owners.admitting(rows, now)
        closed = yield from self.batches.joining(rows)
        if keyed := [row for row in rows if row["dedupe_key"] is not None]:
            yield Statement(SQL["enqueue_clear"], {"jobs": to_json(keyed), "now": now})
        starts = yield from self._owners.ranking(rows, now)
        event = TABLE[Move.ENQUEUE, None].event
        news = [row for row in rows if row["id"] not in closed]
        found = yield Statement(SQL["enqueue"], {"jobs": to_json(news), "now": now, "event": event})
        stored = {row["id"]: row for row in found}
        yield from self._owners.counting(rows, stored, buckets=buckets, starts=starts)
        for row in rows:
            if row["id"] not in stored:
                stored[row["id"]] = yield from self._twin(row, now)
        return [stored[row["id"]] for row in rows]

    def _twin(self, row: dict[str, Any], now: Now) -> Steps[Record]:
        if found := (yield Statement(SQL["job"], {"id": row["id"], "owner": None})):
            return found[0]
        yield from self.batches.refusing(row)
        key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
        twins = yield Statement(SQL["enqueue_twin"], key)
        if twins and not (yield from self._has_let_go(twins[0], now)):
            return twins[0]
        # Whoever held the key let go of it in this very moment: the way is free now.
        (stored,) = yield from self._storing([row], now)
        return stored

    def _has_let_go(self, twin: Record, now: Now) -> Steps[bool]:
        """Whether its period is over: the clear passed it over if it was still live then."""
        if twin["dedupe_until"] is None or not State(twin["state"]).is_final:
            return False
        return bool(twin["dedupe_until"] <= (yield from moment(SQL, now)))


def _takes_more(job: NewJob) -> bool:
    """Than one statement."""
    return (
        job.dedupe_key is not None
        or job.batch is not None
        or job.weight is not None
        or job.submit_rate is not None
        or job.is_service_computed
    )
