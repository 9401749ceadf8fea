"""Enqueue on PostgreSQL: one statement for all jobs."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, NewJob
from mulligan.store.enqueue import EnqueueOperations, refuse_other_calls, to_answers
from mulligan.store.intake import intake_names, refuse_paused
from mulligan.store.postgres.session import BEGIN, SQL, PostgresSession
from mulligan.store.rows import Record, to_json
from mulligan.store.session import Now, Statement, Steps, moment


class PostgresEnqueue(EnqueueOperations):
    """`now` returns the time of a clock that replaces the server's, or None."""

    def __init__(self, now: Callable[[], Now]) -> None:
        self._now = now

    def enqueue(self, session: PostgresSession, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        with session.transaction(BEGIN) if any(map(_needs_transaction, jobs)) else contextlib.nullcontext():
            return session.play(self.enqueue_steps(jobs))

    def enqueue_steps(self, jobs: Sequence[NewJob]) -> Steps[list[Job[Any]]]:
        if not jobs:
            return []
        yield from refuse_other_calls(SQL, jobs)
        rows = [{**row, "n": n} for n, row in enumerate(self._new_rows(jobs))]
        now, intake = self._now(), intake_names(jobs)
        news = yield from self._store_steps(rows, now, intake)
        stored = dict(news)
        for row in rows:
            if row["id"] not in stored:
                stored[row["id"]] = yield from self._find_twin(row, now, news, intake)
        return to_answers(jobs, [stored[row["id"]] for row in rows], news)

    def _store_steps(self, rows: list[dict[str, Any]], now: Now, intake: list[str]) -> Steps[dict[str, Record]]:
        """Store the jobs. Return the new ones by id."""
        yield from self._names.assign_names(rows, now)
        buckets = yield from self._submissions.admit(rows, now)
        closed = yield from self._batches.lock_batches(rows)
        if keyed := [row for row in rows if row["dedupe_key"] is not None]:
            yield Statement(SQL["enqueue_clear"], {"jobs": to_json(keyed), "now": now})
        starts = yield from self._submissions.assign_ranks(rows, now)
        event = TABLE[Move.ENQUEUE, None].event
        news = [row for row in rows if row["id"] not in closed]
        found = yield Statement(SQL["enqueue"], {"jobs": to_json(news), "now": now, "event": event, "intake": intake})
        stored = {row["id"]: row for row in found}
        yield from self._submissions.charge(rows, stored, buckets=buckets, starts=starts)
        return stored

    def _find_twin(self, row: dict[str, Any], now: Now, news: dict[str, Record], intake: list[str]) -> Steps[Record]:
        if found := (yield Statement(SQL["job"], {"id": row["id"], "owner": None})):
            return found[0]
        yield from self._batches.refuse_closed(row)
        key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
        twins = yield Statement(SQL["enqueue_twin"], key)
        if twins and not (yield from self._has_released_key(twins[0], now)):
            return twins[0]
        yield from refuse_paused(SQL, intake, now)
        # The holder released the key in the meantime, so the job can be stored now.
        news |= yield from self._store_steps([row], now, intake)
        return news.get(row["id"]) or (yield from self._find_twin(row, now, news, intake))

    def _has_released_key(self, twin: Record, now: Now) -> Steps[bool]:
        """Whether its dedupe period is over: `enqueue_clear` skipped it if it was still live then."""
        if twin["dedupe_until"] is None or not State(twin["state"]).is_final:
            return False
        return bool(twin["dedupe_until"] <= (yield from moment(SQL, now)))


def _needs_transaction(job: NewJob) -> bool:
    """Whether storing it takes more than one statement."""
    return (
        job.dedupe_key is not None
        or job.batch is not None
        or job.weight is not None
        or job.submit_rate is not None
        or job.max_live is not None
        or job.is_service_computed
        or job.is_id_given
    )
