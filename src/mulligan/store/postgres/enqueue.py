"""Enqueue on PostgreSQL: one statement for all jobs, a cheaper one for jobs that are alike."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.abc import PQGen

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, NewJob
from mulligan.store.alike import Alike, AlikeCache, are_alike
from mulligan.store.enqueue import EnqueueOperations, is_plain, refuse_other_calls, to_answers
from mulligan.store.intake import intake_names, refuse_paused
from mulligan.store.postgres.connections import Connection
from mulligan.store.postgres.lean import LeanStatement, Parameter, to_parameter
from mulligan.store.postgres.notify import NOTIFY, NoNotifier, Notifier
from mulligan.store.postgres.session import BEGIN, SEPARATOR, SQL, PostgresSession
from mulligan.store.rows import Record, to_json
from mulligan.store.session import Now, Session, Statement, Steps, moment

EACH = LeanStatement("enqueue_each", SQL["enqueue_each"])
# Ids and arguments are one string each, split at the separator: for both sides this is cheaper than JSON.
MANY = LeanStatement(
    "enqueue_alike",
    SQL.filtered(
        "enqueue_alike",
        (),
        jobs="unnest(string_to_array(:ids, :separator), string_to_array(:arguments, :separator))",
        ids="unnest(string_to_array(:ids, :separator))",
    ),
)
# Without a function that returns rows, it takes a twentieth less of the server's time.
ONE = LeanStatement(
    "enqueue_one", SQL.filtered("enqueue_alike", (), jobs="(SELECT :ids, :arguments)", ids="(SELECT :ids)")
)
# Of both.
IDS, ARGUMENTS, NOW = map(MANY.names.index, ("ids", "arguments", "now"))


class PostgresAlike(Alike):
    """Its parameters are encoded once."""

    def __init__(self, job: NewJob, *, is_limited: bool) -> None:
        super().__init__(job, is_limited=is_limited)
        event, intake = TABLE[Move.ENQUEUE, None].event, SEPARATOR.join(intake_names([job]))
        same = {**self.values, "separator": SEPARATOR, "event": event, "intake": intake}
        self._same = [to_parameter(same.get(name)) for name in MANY.names]

    def row(self, job: NewJob, number: int) -> dict[str, Any]:
        return {**self.values, "id": job.id, "arguments": job.arguments, "n": number}

    def parameters(self, jobs: Sequence[NewJob], now: Now) -> list[Parameter]:
        ids, arguments = SEPARATOR.join([job.id for job in jobs]), SEPARATOR.join([job.arguments for job in jobs])
        parameters = self._same.copy()
        parameters[IDS], parameters[ARGUMENTS], parameters[NOW] = map(to_parameter, (ids, arguments, now))
        return parameters

    def answers(self, jobs: Sequence[NewJob], stored: Sequence[Any]) -> list[Job[Any]]:
        now, waits_for = stored
        return self.records(jobs, int(now), None if waits_for is None else waits_for.decode())


class PostgresEnqueue(EnqueueOperations):
    """`now` returns the time of a clock that replaces the server's, or None."""

    def __init__(self, now: Callable[[], Now], notifier: Notifier | NoNotifier) -> None:
        self._now = now
        self._notifier = notifier
        self._alike = AlikeCache(PostgresAlike)

    def enqueue(self, session: PostgresSession, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """Store the jobs and announce them."""
        if are_alike(jobs) and (stored := session.db.wait(self.store_alike(session.db, jobs))):
            return stored
        with contextlib.nullcontext() if all(map(is_plain, jobs)) else session.transaction(BEGIN):
            stored = session.play(self.enqueue_steps(jobs))
        self._notifier.hint()
        return stored

    def store_each(self, connection: Connection, jobs: Sequence[NewJob]) -> PQGen[Sequence[Job[Any] | None]]:
        """Store and announce jobs of several calls, each on its own. None is for one that is not stored: its id exists
        already. All are None if the intake of one is paused, or if another transaction is about to store one."""
        if len(jobs) == 1 and is_plain(jobs[0]):
            alike = yield from self.store_alike(connection, jobs)
            return [None] if alike is None else alike
        # Of two jobs with one id, the first is stored here.
        first = {job.id: job for job in reversed(jobs)}
        try:
            found = yield from self._announce(connection, EACH, self._each(list(first.values())))
        except psycopg.errors.LockNotAvailable:
            return [None] * len(jobs)
        stored = {job_id: at for job_id, *at in found}
        answers = [(job, stored.get(job.id.encode()) if first[job.id] is job else None) for job in jobs]
        return [None if at is None else self._alike_of(job).answers([job], at)[0] for job, at in answers]

    def _each(self, jobs: Sequence[NewJob]) -> list[Parameter]:
        # One order for all transactions: two that have the same ids must not deadlock.
        ordered = sorted(jobs, key=lambda job: job.id)
        values = {
            "jobs": to_json([self._alike_of(job).row(job, number) for number, job in enumerate(ordered)]),
            "now": self._now(),
            "event": TABLE[Move.ENQUEUE, None].event,
            "intake": to_json(intake_names(jobs)),
        }
        return [to_parameter(values[name]) for name in EACH.names]

    def store_alike(self, connection: Connection, jobs: Sequence[NewJob]) -> PQGen[list[Job[Any]] | None]:
        """Store and announce jobs that are alike, or store none and return None: an id exists already, or the intake is
        paused."""
        alike = self._alike_of(jobs[0])
        statement, parameters = ONE if len(jobs) == 1 else MANY, alike.parameters(jobs, self._now())
        try:
            found = yield from self._announce(connection, statement, parameters)
        except psycopg.errors.UniqueViolation:
            return None
        return alike.answers(jobs, found[0]) if found else None

    def _announce(
        self, connection: Connection, statement: LeanStatement, parameters: list[Parameter]
    ) -> PQGen[list[tuple[Parameter, ...]]]:
        """Run a statement that stores jobs, and announce them."""
        announces = self._notifier.take()
        try:
            found = yield from statement.run(connection, parameters, NOTIFY if announces else None)
        except psycopg.errors.UniqueViolation:
            raise
        except BaseException:
            # Earlier jobs may have been left to the NOTIFY of this call.
            self._notifier.hint()
            raise
        if not announces:
            self._notifier.hint()
        return found

    def _alike_of(self, job: NewJob) -> PostgresAlike:
        return self._alike.find(job, is_limited=self._limits.applies_to(job))

    def store_within(self, session: Session, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """Store jobs as a part of another operation, which announces them."""
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
        found = yield Statement(
            SQL["enqueue"], {"jobs": to_json(news), "now": now, "event": event, "intake": to_json(intake)}
        )
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
