"""Jobs come in: with one statement for all."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, NewJob
from mulligan.store.batches import BatchSteps
from mulligan.store.clock import Now, moment
from mulligan.store.duplicates import answers, refuse_other_calls
from mulligan.store.limits import LimitDesk
from mulligan.store.postgres.connections import Connection
from mulligan.store.postgres.play import BEGIN, SQL, play, transaction
from mulligan.store.rows import Record, to_json, to_time
from mulligan.store.service_names import NameDesk
from mulligan.store.session import Statement, Steps
from mulligan.store.submissions import OwnerSteps
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
        if not jobs:
            return []
        yield from refuse_other_calls(SQL, jobs)
        rows = [{**new_values(job, is_limited=self._limits.concerns(job)), "n": n} for n, job in enumerate(jobs)]
        now = None if self._given_now is None else to_time(self._given_now())
        news = yield from self._storing(rows, now)
        stored = dict(news)
        for row in rows:
            if row["id"] not in stored:
                stored[row["id"]] = yield from self._twin(row, now, news)
        return answers(jobs, [stored[row["id"]] for row in rows], news)

    def _storing(self, rows: list[dict[str, Any]], now: Now) -> Steps[dict[str, Record]]:
        """Those that were not there already."""
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
        return stored

    def _twin(self, row: dict[str, Any], now: Now, news: dict[str, Record]) -> Steps[Record]:
        if found := (yield Statement(SQL["job"], {"id": row["id"], "owner": None})):
            return found[0]
        yield from self.batches.refusing(row)
        key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
        twins = yield Statement(SQL["enqueue_twin"], key)
        if twins and not (yield from self._has_let_go(twins[0], now)):
            return twins[0]
        # The holder of the key let go of it in this very moment: the way is free now.
        news |= yield from self._storing([row], now)
        return news.get(row["id"]) or (yield from self._twin(row, now, news))

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
        or job.is_id_given
    )
