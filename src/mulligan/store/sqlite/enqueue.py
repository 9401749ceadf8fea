"""Enqueue on SQLite: one statement per job on the store's connection, one for all jobs on the caller's."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from mulligan.errors import StoreDamaged
from mulligan.lifecycle import TABLE, Move
from mulligan.records.job import Job, NewJob
from mulligan.store.enqueue import (
    NO_OPTIONS,
    EnqueueOperations,
    are_alike,
    new_record,
    new_values,
    refuse_other_calls,
    to_alike,
    to_answers,
)
from mulligan.store.intake import intake_names, refuse_paused
from mulligan.store.rows import Record, column_names, to_json
from mulligan.store.session import Statement, Steps
from mulligan.store.sqlite.session import SQL, Clock, SqliteSession, sqlite3

# The event data of a job that waits for a limit from the start.
LIMITED = '{"waiting_for":"limit"}'
# The columns that `enqueue_alike` sets, in its order.
COLUMNS = (
    *("kind", "owner", "queue", "service", "priority", "rank", "state", "waiting_for"),
    *("max_attempts", "max_crashes", "max_snoozes", "timeout"),
    *("submitted_at", "enqueued_at", "queued_at", "due_at", "deadline", "updated_at"),
    *("tags", "cost", "on_failed", "on_cancelled", "own_max_attempts", "own_timeout"),
)


class SqliteEnqueue(EnqueueOperations):
    """`clock` replaces the machine's clock."""

    def __init__(self, clock: Callable[[], Clock | None]) -> None:
        self._clock = clock

    def enqueue(self, session: SqliteSession, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        if are_alike(jobs) and (alike := self._enqueue_alike(session, jobs)):
            return alike
        event, now = TABLE[Move.ENQUEUE, None].event, session.now
        rows = [
            {**NO_OPTIONS, **row, "now": now, "is_submitted": job.is_submitted}
            for job, row in zip(jobs, self._new_rows(jobs), strict=True)
        ]
        session.play(self._names.assign_names(rows, now))
        buckets = session.play(self._submissions.admit(rows, now))
        closed = session.play(self._batches.lock_batches(rows))
        starts = session.play(self._submissions.assign_ranks(rows, now))
        names: list[str] = []
        stored, news, events = [], {}, []
        for job, values in zip(jobs, rows, strict=True):
            if job.dedupe_key is not None:
                session.db.execute(SQL["enqueue_clear"], values)
            cursor = None if job.id in closed else session.db.execute(SQL["enqueue"], values)
            found = cursor and cursor.fetchone()
            if cursor is None or found is None:
                stored.append(session.play(self._find_twin(values, intake_names(jobs), now)))
                continue
            names = names or column_names(cursor)
            news[job.id] = row = dict(zip(names, found, strict=True))
            stored.append(row)
            data = LIMITED if row["waiting_for"] == "limit" else values["data"]
            events.append((event, job.id, job.kind, job.owner, 0, now, data))
        session.db.executemany(SQL["event_plain"], events)
        session.play(self._submissions.charge(rows, news, buckets=buckets, starts=starts))
        return to_answers(jobs, stored, news)

    def _enqueue_alike(self, session: SqliteSession, jobs: Sequence[NewJob]) -> list[Job[Any]] | None:
        """Store all of them, or none and return None: an id exists already, or the intake is paused."""
        first, now = jobs[0], session.now
        values = new_values(first, is_limited=self._limits.applies_to(first))
        gate = {**values, "now": now, "is_submitted": first.is_submitted}
        waits_for, is_paused = session.db.execute(SQL["enqueue_gate"], gate).fetchone()
        if is_paused:
            return None
        record = new_record(values, now, waits_for)
        same = tuple(record[name] for name in COLUMNS)
        data = LIMITED if waits_for == "limit" else values["data"]
        event = (first.kind, first.owner, 0, now, data)
        try:
            with session.undo(sqlite3.IntegrityError) if len(jobs) > 1 else contextlib.nullcontext():
                session.db.executemany(SQL["enqueue_alike"], [(job.id, job.arguments, *same) for job in jobs])
        except sqlite3.IntegrityError:
            return None
        kind = TABLE[Move.ENQUEUE, None].event
        session.db.executemany(SQL["event_plain"], [(kind, job.id, *event) for job in jobs])
        return to_alike(jobs, record)

    def enqueue_steps(self, jobs: Sequence[NewJob]) -> Steps[list[Job[Any]]]:
        found, stored = yield from self.store_steps(jobs)
        return to_answers(jobs, found, stored)

    def store_steps(self, jobs: Sequence[NewJob]) -> Steps[tuple[list[Record], dict[str, Record]]]:
        """Return the row of each job, and the new ones by id.

        One statement for all jobs: on a connection in any mode it stores all or none.
        """
        yield from refuse_other_calls(SQL, jobs)
        rows = self._new_rows(jobs)
        clock = self._clock()
        now = None if clock is None else clock()
        yield from self._names.assign_names(rows, now)
        buckets = yield from self._submissions.admit(rows, now)
        if keyed := [row for row in rows if row["dedupe_key"] is not None]:
            yield Statement(SQL["enqueue_many_clear"], {"jobs": to_json(keyed), "now": now})
        starts = yield from self._submissions.assign_ranks(rows, now)
        intake = intake_names(jobs)
        values = {"jobs": to_json(rows), "intake": to_json(intake), "now": now}
        found = yield Statement(SQL["enqueue_many"], values)
        stored = {row["id"]: row for row in found}
        yield from self._submissions.charge(rows, stored, buckets=buckets, starts=starts)
        if news := [row for row in rows if row["id"] in stored]:
            event = TABLE[Move.ENQUEUE, None].event
            yield Statement(SQL["enqueue_many_events"], {"jobs": to_json(news), "event": event})
        twins = {}
        for row in rows:
            if row["id"] not in stored:
                twins[row["id"]] = yield from self._find_twin(row, intake, now)
        return [stored.get(row["id"]) or twins[row["id"]] for row in rows], stored

    def _find_twin(self, row: dict[str, Any], intake: list[str], now: int | None) -> Steps[Record]:
        found = yield Statement(SQL["job"], {"id": row["id"], "owner": None})
        if not found:
            yield from self._batches.refuse_closed(row)
            key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
            found = yield Statement(SQL["enqueue_twin"], key)
        if not found:
            yield from refuse_paused(SQL, intake, now)
            raise StoreDamaged(f"job {row['id']!r} was refused as a duplicate, but the other job cannot be found")
        return found[0]
