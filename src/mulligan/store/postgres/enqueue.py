"""Enqueue on PostgreSQL: one statement for all jobs, a cheaper one for jobs that are alike."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, NewJob
from mulligan.store.enqueue import (
    NO_OPTIONS,
    EnqueueOperations,
    are_alike,
    is_plain,
    new_record,
    new_values,
    refuse_other_calls,
    to_alike,
    to_answers,
)
from mulligan.store.intake import intake_names, refuse_paused
from mulligan.store.postgres.notify import NOTIFY, NoNotifier, Notifier
from mulligan.store.postgres.session import BEGIN, SEPARATOR, SQL, PostgresSession
from mulligan.store.rows import Record, to_json
from mulligan.store.session import Now, Statement, Steps, moment


class PostgresEnqueue(EnqueueOperations):
    """`now` returns the time of a clock that replaces the server's, or None."""

    def __init__(self, now: Callable[[], Now], notifier: Notifier | NoNotifier) -> None:
        self._now = now
        self._notifier = notifier

    def enqueue(self, session: PostgresSession, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """Store the jobs and announce them."""
        if are_alike(jobs) and (stored := self._enqueue_alike(session, jobs)):
            return stored
        with contextlib.nullcontext() if all(map(is_plain, jobs)) else session.transaction(BEGIN):
            stored = session.play(self.enqueue_steps(jobs))
        self._notifier.hint()
        return stored

    def _enqueue_alike(self, session: PostgresSession, jobs: Sequence[NewJob]) -> list[Job[Any]] | None:
        """Store all of them, or none and return None: an id exists already, or the intake is paused."""
        values = new_values(jobs[0], is_limited=self._limits.applies_to(jobs[0]))
        more = {
            "ids": SEPARATOR.join(job.id for job in jobs),
            "all_arguments": SEPARATOR.join(job.arguments for job in jobs),
            "separator": SEPARATOR,
            "now": self._now(),
            "event": TABLE[Move.ENQUEUE, None].event,
            "intake": SEPARATOR.join(intake_names(jobs[:1])),
        }
        try:
            found = self._store_and_announce(session, NO_OPTIONS | values | more)
        except psycopg.errors.UniqueViolation:
            return None
        return None if found is None else to_alike(jobs, new_record(values, *found))

    def _store_and_announce(self, session: PostgresSession, values: Record) -> tuple[Any, ...] | None:
        statement = SQL["enqueue_alike"]
        if not self._notifier.take():
            found = session.cursor(statement, values, prepare=True).fetchone()
            self._notifier.hint()
            return found
        with session.db.pipeline():
            stored = session.cursor(statement, values, prepare=True)
            # Sent without waiting for the reply. A nested pipeline has its own commit: in the same one, the lock of
            # NOTIFY would be held until the jobs are on disk.
            with session.db.pipeline():
                session.db.execute(NOTIFY)
        return stored.fetchone()

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
