"""Jobs come in: with one statement for all."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, NewJob
from mulligan.store.duplicates import answers, refuse_other_calls
from mulligan.store.parts import Parts
from mulligan.store.postgres.session import BEGIN, SQL, PostgresSession
from mulligan.store.rows import Record, to_json
from mulligan.store.script import Statement, Steps, moment
from mulligan.store.session import Now
from mulligan.store.values import new_values


class PostgresEnqueue:
    """`now` is the time of a clock that replaces the server's, or None."""

    def __init__(self, now: Callable[[], Now]) -> None:
        self._now = now

    def use(self, parts: Parts) -> None:
        self._owners = parts.submissions
        self._limits = parts.limits
        self._names = parts.services.names
        self._batches = parts.batches

    def enqueue(self, session: PostgresSession, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        with session.transaction(BEGIN) if any(map(_takes_more, jobs)) else contextlib.nullcontext():
            return session.play(self.enqueue_steps(jobs))

    def enqueue_steps(self, jobs: Sequence[NewJob]) -> Steps[list[Job[Any]]]:
        if not jobs:
            return []
        yield from refuse_other_calls(SQL, jobs)
        rows = [{**new_values(job, is_limited=self._limits.concerns(job)), "n": n} for n, job in enumerate(jobs)]
        now = self._now()
        news = yield from self._store_steps(rows, now)
        stored = dict(news)
        for row in rows:
            if row["id"] not in stored:
                stored[row["id"]] = yield from self._twin(row, now, news)
        return answers(jobs, [stored[row["id"]] for row in rows], news)

    def _store_steps(self, rows: list[dict[str, Any]], now: Now) -> Steps[dict[str, Record]]:
        """Those that were not there already."""
        yield from self._names.assign_names(rows, now)
        buckets = yield from self._owners.admit(rows, now)
        closed = yield from self._batches.lock_joined(rows)
        if keyed := [row for row in rows if row["dedupe_key"] is not None]:
            yield Statement(SQL["enqueue_clear"], {"jobs": to_json(keyed), "now": now})
        starts = yield from self._owners.rank(rows, now)
        event = TABLE[Move.ENQUEUE, None].event
        news = [row for row in rows if row["id"] not in closed]
        found = yield Statement(SQL["enqueue"], {"jobs": to_json(news), "now": now, "event": event})
        stored = {row["id"]: row for row in found}
        yield from self._owners.charge(rows, stored, buckets=buckets, starts=starts)
        return stored

    def _twin(self, row: dict[str, Any], now: Now, news: dict[str, Record]) -> Steps[Record]:
        if found := (yield Statement(SQL["job"], {"id": row["id"], "owner": None})):
            return found[0]
        yield from self._batches.refuse_closed(row)
        key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
        twins = yield Statement(SQL["enqueue_twin"], key)
        if twins and not (yield from self._has_let_go(twins[0], now)):
            return twins[0]
        # The holder of the key let go of it in this very moment: the way is free now.
        news |= yield from self._store_steps([row], now)
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
