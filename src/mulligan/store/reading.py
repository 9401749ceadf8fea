"""Looking at jobs, lanes and workers: the same in every store."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mulligan.errors import JobNotFound
from mulligan.records.job import Job, JobFilter, Lease, Page
from mulligan.store.messages import NEWEST_IDS, Lane, WorkerRecord
from mulligan.store.rows import complete, from_time, to_counts, to_job, to_json, to_lane, to_page, to_worker
from mulligan.store.session import Now, Session
from mulligan.store.values import filter_conditions, lane_values

TABLES = {"job": "mulligan_jobs", "batch": "mulligan_batches", "redrive": "mulligan_operations"}


class ReadOperations:
    def now(self, session: Session, now: Now) -> datetime:
        return from_time(session.moment(now))

    def job(self, session: Session, job_id: str, owner: str | None = None) -> Job[Any]:
        rows = session.rows("job", {"id": job_id, "owner": owner})
        if not rows:
            raise JobNotFound(job_id)
        return to_job(rows[0])

    def load(self, session: Session, leases: Sequence[Lease]) -> None:
        ids = to_json([lease.fence.id for lease in leases])
        complete(leases, session.rows("load", {"ids": ids}))

    def jobs(self, session: Session, wanted: JobFilter, owner: str | None, limit: int, cursor: str | None) -> Page[Any]:
        conditions, values = filter_conditions(wanted, owner, cursor)
        rows = session.execute(session.sql.filtered("jobs", conditions), {**values, "limit": limit + 1})
        return to_page(rows, limit)

    def counts(self, session: Session, owner: str | None) -> dict[str, dict[str, int]]:
        return to_counts(session.rows("counts", {"owner": owner}))

    def is_busy(self, session: Session, kinds: Sequence[str], waiting_for: Sequence[str], now: Now) -> bool:
        values = {"kinds": to_json(list(kinds)), "waiting_for": to_json(list(waiting_for)), "now": now}
        (row,) = session.rows("busy", values)
        return bool(row["is_busy"])

    def next_due(self, session: Session, now: Now) -> datetime | None:
        (row,) = session.rows("next_due", {"now": now})
        return None if row["due"] is None else from_time(row["due"])

    def next_moment(self, session: Session, now: Now) -> datetime | None:
        (row,) = session.rows("next_moment", {"now": now})
        return None if row["moment"] is None else from_time(row["moment"])

    def ahead_of(self, session: Session, job: Job[Any], limit: int) -> int:
        (row,) = session.rows("ahead_of", {**lane_values(job), "limit": limit})
        return int(row["number"])

    def lanes(self, session: Session) -> list[Lane]:
        return [to_lane(row) for row in session.rows("lanes")]

    def find_ids(self, session: Session, what: str, part: str, owner: str | None, limit: int) -> list[str]:
        conditions = ["true"] if owner is None else ["owner = :owner AND owner <> ''" if owner else "owner = :owner"]
        text = session.sql.filtered("find_ids", conditions, table=TABLES[what])
        values = {"part": part, "owner": owner, "newest": NEWEST_IDS, "limit": limit}
        return [row["id"] for row in session.execute(text, values)]

    def workers(self, session: Session) -> list[WorkerRecord]:
        return [to_worker(row) for row in session.rows("workers")]
