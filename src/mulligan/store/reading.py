"""Looking at jobs, lanes and workers: the same in every store."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mulligan.errors import JobNotFound
from mulligan.records.job import Job, JobFilter, Lease, Page
from mulligan.store.clock import Now, moment
from mulligan.store.protocols import NEWEST_IDS, Lane, WorkerRecord
from mulligan.store.rows import complete, from_time, to_counts, to_job, to_json, to_lane, to_page, to_worker
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements
from mulligan.store.values import filter_conditions, lane_values

TABLES = {"job": "mulligan_jobs", "batch": "mulligan_batches", "redrive": "mulligan_operations"}


class ReadingSteps:
    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    def now(self, now: Now) -> Steps[datetime]:
        return from_time((yield from moment(self._sql, now)))

    def job(self, job_id: str, owner: str | None = None) -> Steps[Job[Any]]:
        rows = yield Statement(self._sql["job"], {"id": job_id, "owner": owner})
        if not rows:
            raise JobNotFound(job_id)
        return to_job(rows[0])

    def loading(self, leases: Sequence[Lease]) -> Steps[None]:
        ids = to_json([lease.fence.id for lease in leases])
        complete(leases, (yield Statement(self._sql["load"], {"ids": ids})))

    def jobs(self, wanted: JobFilter, owner: str | None, limit: int, cursor: str | None) -> Steps[Page[Any]]:
        conditions, values = filter_conditions(wanted, owner, cursor)
        rows = yield Statement(self._sql.filtered("jobs", conditions), {**values, "limit": limit + 1})
        return to_page(rows, limit)

    def counts(self, owner: str | None) -> Steps[dict[str, dict[str, int]]]:
        return to_counts((yield Statement(self._sql["counts"], {"owner": owner})))

    def is_busy(self, kinds: Sequence[str], waiting_for: Sequence[str], now: Now) -> Steps[bool]:
        values = {"kinds": to_json(list(kinds)), "waiting_for": to_json(list(waiting_for)), "now": now}
        (row,) = yield Statement(self._sql["busy"], values)
        return bool(row["is_busy"])

    def next_due(self, now: Now) -> Steps[datetime | None]:
        (row,) = yield Statement(self._sql["next_due"], {"now": now})
        return None if row["due"] is None else from_time(row["due"])

    def next_moment(self, now: Now) -> Steps[datetime | None]:
        (row,) = yield Statement(self._sql["next_moment"], {"now": now})
        return None if row["moment"] is None else from_time(row["moment"])

    def ahead_of(self, job: Job[Any], limit: int) -> Steps[int]:
        (row,) = yield Statement(self._sql["ahead_of"], {**lane_values(job), "limit": limit})
        return int(row["number"])

    def lanes(self) -> Steps[list[Lane]]:
        return [to_lane(row) for row in (yield Statement(self._sql["lanes"], {}))]

    def find_ids(self, what: str, part: str, owner: str | None, limit: int) -> Steps[list[str]]:
        conditions = ["true"] if owner is None else ["owner = :owner AND owner <> ''" if owner else "owner = :owner"]
        text = self._sql.filtered("find_ids", conditions, table=TABLES[what])
        values = {"part": part, "owner": owner, "newest": NEWEST_IDS, "limit": limit}
        return [row["id"] for row in (yield Statement(text, values))]

    def workers(self) -> Steps[list[WorkerRecord]]:
        return [to_worker(row) for row in (yield Statement(self._sql["workers"], {}))]
