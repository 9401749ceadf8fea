"""Jobs come in: with statements for each on a connection of ours, with one for all on a caller's."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from mulligan.errors import StoreDamaged
from mulligan.lifecycle import TABLE, Move
from mulligan.records.job import Job, NewJob
from mulligan.store.batches import BatchSteps
from mulligan.store.duplicates import answers, refuse_other_calls
from mulligan.store.limits import LimitDesk
from mulligan.store.rows import Record, to_json, to_time
from mulligan.store.service_names import NameDesk
from mulligan.store.session import Statement, Steps
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.sqlite.play import SQL, append, find, play
from mulligan.store.submissions import OwnerSteps
from mulligan.store.values import event_values, new_values

# What the log says of a job that waits for a place from the first.
LIMITED = '{"waiting_for":"limit"}'


class Intake:
    """`now` replaces the machine's clock."""

    def __init__(
        self, owners: OwnerSteps, limits: LimitDesk, names: NameDesk, now: Callable[[], datetime] | None
    ) -> None:
        self._owners = owners
        self._limits = limits
        self._names = names
        self._given_now = now
        self.batches = BatchSteps(SQL, self.enqueueing)

    def enqueue(self, db: "sqlite3.Connection", jobs: Sequence[NewJob], now: int) -> list[Job[Any]]:
        event = TABLE[Move.ENQUEUE, None].event
        rows = [{**new_values(job, is_limited=self._limits.concerns(job)), "now": now} for job in jobs]
        play(db, self._names.naming(rows, now))
        buckets = play(db, self._owners.admitting(rows, now))
        closed = play(db, self.batches.joining(rows))
        starts = play(db, self._owners.ranking(rows, now))
        stored, news, events = [], {}, []
        for job, values in zip(jobs, rows, strict=True):
            if job.dedupe_key is not None:
                db.execute(SQL["enqueue_clear"], values)
            row = None if job.id in closed else find(db, SQL["enqueue"], values)
            if row is None:
                stored.append(play(db, self._twin(values)))
                continue
            stored.append(row)
            news[job.id] = row
            data = LIMITED if row["waiting_for"] == "limit" else values["data"]
            events.append(event_values(event, job.id, job.kind, job.owner, 0, now=now, encoded=data))
        append(db, events)
        play(db, self._owners.counting(rows, news, buckets=buckets, starts=starts))
        return answers(jobs, stored, news)

    def enqueueing(self, jobs: Sequence[NewJob]) -> Steps[list[Job[Any]]]:
        found, stored = yield from self.storing(jobs)
        return answers(jobs, found, stored)

    def storing(self, jobs: Sequence[NewJob]) -> Steps[tuple[list[Record], dict[str, Record]]]:
        """The row of each job, and by id those that are new.

        A statement for all jobs, not one for each: on a connection of unknown mode it is all or none by itself.
        """
        yield from refuse_other_calls(SQL, jobs)
        rows = [new_values(job, is_limited=self._limits.concerns(job)) for job in jobs]
        now = None if self._given_now is None else to_time(self._given_now())
        yield from self._names.naming(rows, now)
        buckets = yield from self._owners.admitting(rows, now)
        if keyed := [row for row in rows if row["dedupe_key"] is not None]:
            yield Statement(SQL["enqueue_on_clear"], {"jobs": to_json(keyed), "now": now})
        starts = yield from self._owners.ranking(rows, now)
        found = yield Statement(SQL["enqueue_on"], {"jobs": to_json(rows), "now": now})
        stored = {row["id"]: row for row in found}
        yield from self._owners.counting(rows, stored, buckets=buckets, starts=starts)
        if news := [row for row in rows if row["id"] in stored]:
            event = TABLE[Move.ENQUEUE, None].event
            yield Statement(SQL["enqueue_on_events"], {"jobs": to_json(news), "event": event})
        twins = {}
        for row in rows:
            if row["id"] not in stored:
                twins[row["id"]] = yield from self._twin(row)
        return [stored.get(row["id"]) or twins[row["id"]] for row in rows], stored

    def _twin(self, row: dict[str, Any]) -> Steps[Record]:
        found = yield Statement(SQL["job"], {"id": row["id"], "owner": None})
        if not found:
            yield from self.batches.refusing(row)
            key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
            found = yield Statement(SQL["enqueue_twin"], key)
        if not found:
            raise StoreDamaged(f"job {row['id']!r} was refused as a duplicate, but its twin cannot be found")
        return found[0]
