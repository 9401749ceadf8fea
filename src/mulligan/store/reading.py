"""Queries about jobs, lanes and workers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mulligan.errors import JobNotFound, StoreDamaged
from mulligan.lifecycle import State
from mulligan.records.job import Job, JobFilter, Lease, Page
from mulligan.store.messages import NEWEST_IDS, Lane, QueueLoad, WorkerRecord
from mulligan.store.rows import Record, decode_strings, from_time, load_records, to_job, to_json, to_record, to_time
from mulligan.store.scans import scans_of
from mulligan.store.session import Session
from mulligan.store.subscriptions import scope_of

# So many ids are looked up faster than jobs are read.
FEW = 2_000
# A page ends before its jobs have more bytes of arguments and results, which take up to thirty times as much memory
# once they are decoded. So many rows are read at a time, because any of them may be large.
MOST_BYTES = 2**20
PART = 25
OF_IDS = "id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))"
TABLES = {
    "job": "mulligan_jobs",
    "batch": "mulligan_batches",
    "redrive": "mulligan_operations",
    "group": "mulligan_groups",
    "key": "mulligan_keys",
    "subscription": "mulligan_subscriptions",
    "delivery": "mulligan_deliveries",
    "hook": "mulligan_hooks",
}


def row_of(session: Session, statement: str, job_id: str, owner: str | None = None) -> Record:
    """Return the row that `job` or `job_locked` finds. Raises JobNotFound."""
    rows = session.rows(statement, {"id": job_id, "owner": owner})
    if not rows:
        raise JobNotFound(job_id)
    return rows[0]


class ReadOperations:
    def now(self, session: Session) -> datetime:
        return from_time(session.moment())

    def job(self, session: Session, job_id: str, owner: str | None = None) -> Job[Any]:
        return to_job(row_of(session, "job", job_id, owner))

    def load(self, session: Session, leases: Sequence[Lease]) -> None:
        ids = to_json([lease.fence.id for lease in leases])
        load_records(leases, session.rows("load", {"ids": ids}))

    def jobs(self, session: Session, wanted: JobFilter, owner: str | None, limit: int, cursor: str | None) -> Page[Any]:
        rows: list[Record] = []
        room, is_last = MOST_BYTES, False
        while len(rows) < limit and not is_last:
            number = min(PART, limit - len(rows))
            conditions, values = quick_conditions(session, wanted, owner, rows[-1]["id"] if rows else cursor)
            found = session.filtered("jobs", conditions, {**values, "limit": number + 1})
            is_last = len(found) <= number
            for row in found[:number]:
                room -= _size(row)
                if room < 0 and rows:
                    return _make_page(rows, is_last=False)
                rows.append(row)
        return _make_page(rows, is_last=is_last)

    def counts(self, session: Session, owner: str | None) -> dict[str, dict[str, int]]:
        return to_counts(session.rows("counts", {"owner": owner}))

    def is_busy(self, session: Session, kinds: Sequence[str], waiting_for: Sequence[str]) -> bool:
        values = {"kinds": to_json(list(kinds)), "waiting_for": to_json(list(waiting_for))}
        (row,) = session.rows("is_busy", values)
        return bool(row["is_busy"])

    def next_due(self, session: Session) -> datetime | None:
        (row,) = session.rows("next_due")
        return None if row["due"] is None else from_time(row["due"])

    def ahead_of(self, session: Session, job: Job[Any], limit: int) -> int:
        (row,) = session.rows("ahead_of", {**lane_values(job), "limit": limit})
        return int(row["number"])

    def position(self, session: Session, job_id: str, owner: str | None, limit: int) -> int | None:
        job = self.job(session, job_id, owner)
        rows = session.rows("position", {"id": job.id, "limit": limit - 1})
        return int(rows[0]["ahead"]) + 1 if rows else None

    def lanes(self, session: Session) -> list[Lane]:
        return [to_lane(row) for row in session.rows("lanes")]

    def queue_loads(self, session: Session, most: int) -> list[QueueLoad]:
        loads: dict[tuple[str, str], QueueLoad] = {}
        for row in session.rows("queue_loads", most=most):
            lane = row["queue"], row["kind"]
            if row["running"]:
                known = loads.get(lane, QueueLoad(queue=lane[0], kind=lane[1]))
                loads[lane] = replace(known, running=int(row["running"]))
            else:
                loads[lane] = to_load(row)
        return list(loads.values())

    def find_ids(self, session: Session, what: str, part: str, owner: str | None, limit: int) -> list[str]:
        conditions = ["true"] if owner is None else ["owner = :owner AND owner <> ''" if owner else "owner = :owner"]
        if what == "group":
            conditions = ["scope = :scope"]
        values = {"part": part, "owner": owner, "scope": scope_of(owner), "newest": NEWEST_IDS, "limit": limit}
        rows = session.filtered("find_ids", conditions, values, table=TABLES[what])
        return [row["id"] for row in rows]

    def workers(self, session: Session) -> list[WorkerRecord]:
        return [to_worker(row) for row in session.rows("workers")]


def quick_conditions(
    session: Session, wanted: JobFilter, owner: str | None, cursor: str | None
) -> tuple[list[str], dict[str, Any]]:
    """The conditions of a filter. If only few jobs are in its states, they name these jobs."""
    conditions, values = filter_conditions(wanted, owner, cursor)
    if (few := find_few(session, wanted)) is not None:
        conditions, values = [*conditions, OF_IDS], {**values, "ids": to_json(few)}
    return conditions, values


def find_few(session: Session, wanted: JobFilter) -> list[str] | None:
    """Return the ids of all jobs in the wanted states if they are few; None if they are many, or need not be known.

    Otherwise the newest running jobs would be looked for among all jobs. Failed jobs have an index by their ids.
    """
    if wanted.ids is not None or wanted.state is None or State.FAILED in wanted.states:
        return None
    scans = [scan for state in wanted.states for scan in scans_of(state)]
    texts = [session.sql.filtered("few_ids", [], number=str(each), scan=scan.where) for each, scan in enumerate(scans)]
    rows = session.execute(" UNION ALL ".join(texts), {"now": session.now, "few": FEW + 1})
    return [row["id"] for row in rows] if len(rows) <= FEW else None


def lane_values(job: Job[Any]) -> dict[str, Any]:
    """The position of a job in its lane."""
    return {
        "queue": job.queue,
        "kind": job.kind,
        "service": job.service,
        "priority": job.priority,
        "id": job.id,
    }


def filter_conditions(wanted: JobFilter, owner: str | None, cursor: str | None) -> tuple[list[str], dict[str, Any]]:
    """Return constant SQL conditions, spelled so that partial indexes match, and the values to bind. `{{name}}` is
    included from the backend's SQL."""
    values: dict[str, Any] = {
        "cursor": cursor,
        "ids": None if wanted.ids is None else to_json(wanted.ids),
        "owner": owner if owner is not None else wanted.owner,
        "kind": wanted.kind,
        "queue": wanted.queue,
        "service": wanted.service,
        "worker": wanted.worker,
        "code": wanted.code,
        "error_class": wanted.error_class,
        "last_code": wanted.last_code,
        "group": wanted.group,
        "batch": wanted.batch,
        "tag": wanted.tag,
        "version": wanted.version,
        "since": wanted.since and to_time(wanted.since),
        "until": wanted.until and to_time(wanted.until),
        "finished_since": wanted.finished_since and to_time(wanted.finished_since),
    }
    texts = {
        "cursor": "id < :cursor",
        "ids": OF_IDS,
        "owner": "owner = :owner AND owner <> ''" if values["owner"] else "owner = :owner",
        "kind": "kind = :kind",
        "queue": "queue = :queue",
        "service": "service = :service",
        "worker": "leased_by = :worker AND state = 'running'",
        "code": "error_code = :code AND state = 'failed'",
        "error_class": "error_class = :error_class AND state = 'failed'",
        "last_code": "last_code = :last_code",
        "group": "error_group = :group AND state = 'failed'",
        "batch": "batch = :batch",
        "tag": "{{has_tag}}",
        "version": "version = :version",
        "since": "enqueued_at >= :since",
        "until": "enqueued_at < :until",
        "finished_since": "finished_at >= :finished_since",
    }
    conditions = [text for name, text in texts.items() if values[name] is not None]
    if wanted.owner is not None and wanted.owner != values["owner"]:
        conditions.append("false")
    if wanted.state is not None:
        conditions.append(state_condition(wanted.states))
    return conditions or ["true"], values


def state_condition(states: Sequence[State]) -> str:
    names = ", ".join(f"'{state}'" for state in states)
    return f"state = {names}" if len(states) == 1 else f"state IN ({names})"


def to_worker(row: Record) -> WorkerRecord:
    queues = None if row["queues"] is None else decode_strings(row["queues"])
    return to_record(WorkerRecord, row, queues=queues, kinds=decode_strings(row["kinds"]))


def to_lane(row: Record) -> Lane:
    return Lane(row["queue"], row["kind"], row["number"], from_time(row["since"]), bool(row["is_misfit"]))


def to_load(row: Record) -> QueueLoad:
    return QueueLoad(
        queue=row["queue"],
        kind=row["kind"],
        ready=int(row["ready"]),
        at_least=bool(row["at_least"]),
        since=from_time(row["since"]),
    )


def to_page(rows: Sequence[Record], limit: int) -> Page[Any]:
    """Make a page of up to `limit` rows; one more row means there is a next page."""
    return _make_page(rows[:limit], is_last=len(rows) <= limit)


def _make_page(rows: Sequence[Record], *, is_last: bool) -> Page[Any]:
    """A damaged row is listed, and hides no other."""
    jobs, damaged = [], []
    for row in rows:
        try:
            jobs.append(to_job(row))
        except StoreDamaged as error:
            damaged.append(str(error))
    return Page(tuple(jobs), None if is_last else rows[-1]["id"], tuple(damaged))


def _size(row: Record) -> int:
    """Of what may be large. In a damaged row it may be anything."""
    return sum(len(value) for value in (row["arguments"], row["result"]) if isinstance(value, str | bytes))


def to_counts(rows: Iterable[Record]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["kind"], {})[row["state"]] = row["number"]
    return counts
