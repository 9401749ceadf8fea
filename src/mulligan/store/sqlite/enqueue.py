"""Enqueue on SQLite. On the store's connection, jobs that are alike take one statement, others one each. On the
caller's connection all take one."""

from collections.abc import Callable, Sequence
from typing import Any

from mulligan.errors import StoreDamaged
from mulligan.lifecycle import TABLE, Move
from mulligan.records.job import Job, NewJob
from mulligan.store.alike import Alike, AlikeCache, are_alike
from mulligan.store.enqueue import NO_OPTIONS, EnqueueOperations, refuse_other_calls, to_answers
from mulligan.store.intake import intake_names, refuse_paused
from mulligan.store.rows import Record, column_names, to_json
from mulligan.store.session import Session, Statement, Steps
from mulligan.store.sqlite.session import SQL, Clock, SqliteSession, sqlite3

# The event data of a job that waits for a limit from the start.
LIMITED = '{"waiting_for":"limit"}'


class SqliteEnqueue(EnqueueOperations):
    """`clock` replaces the machine's clock."""

    def __init__(self, clock: Callable[[], Clock | None]) -> None:
        self._clock = clock
        self._alike = AlikeCache(Alike)

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
        alike = self._alike.find(first, is_limited=self._limits.applies_to(first))
        waits_for, is_paused = _find_gate(session, alike.values, now, is_submitted=first.is_submitted)
        arguments = {job.id: job.arguments for job in jobs}
        if is_paused or len(arguments) < len(jobs):
            return None
        columns, by_id = alike.columns(now, waits_for), to_json(arguments)
        try:
            session.db.execute(SQL["enqueue_alike"], columns | {"jobs": by_id})
        except sqlite3.IntegrityError:
            return None
        data = LIMITED if waits_for == "limit" else columns["data"]
        about = {"type": TABLE[Move.ENQUEUE, None].event, "kind": first.kind, "owner": first.owner}
        session.db.execute(SQL["enqueue_alike_events"], {**about, "at": now, "data": data, "jobs": by_id})
        return alike.records(jobs, now, waits_for)

    def store_within(self, session: Session, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """Store jobs as a part of another operation."""
        if isinstance(session, SqliteSession):
            return self.enqueue(session, jobs)
        return session.play(self.enqueue_steps(jobs))

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


def _find_gate(session: SqliteSession, values: Record, now: int, *, is_submitted: bool) -> tuple[str | None, bool]:
    """Return what a new job waits for, and whether its intake is paused."""
    (may_be_gated,) = session.db.execute(SQL["enqueue_look"]).fetchone()
    if not (may_be_gated or values["delay"] or values["is_limited"]):
        return None, False
    about = {**values, "now": now, "is_submitted": is_submitted}
    waits_for, is_paused = session.db.execute(SQL["enqueue_gate"], about).fetchone()
    return waits_for, bool(is_paused)
