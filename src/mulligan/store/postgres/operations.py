"""Redrives on PostgreSQL. Each function is a part of the caller's transaction."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from mulligan.errors import MulliganError, RedriveNotFound, StoreDamaged
from mulligan.job import JobFilter, Page
from mulligan.lifecycle import TABLE, Move, State
from mulligan.redrive import MOVED_ON, Match, Redrive, carried_out, request_of, skip_reason
from mulligan.store.operations import (
    end_event,
    is_candidate,
    redrive_values,
    start_event,
    to_answers,
    to_redrive,
)
from mulligan.store.postgres.connections import Connection
from mulligan.store.protocols import Request
from mulligan.store.rows import Record, from_time, records, to_page
from mulligan.store.statements import Statements, in_pyformat
from mulligan.store.values import SETTLE_EVENTS, filter_conditions

SQL = Statements("mulligan.store.postgres", in_pyformat)
CANCELLED = TABLE[Move.CANCEL, State.RUNNING].event
RELEASED = TABLE[Move.RELEASE, State.RUNNING].event


def count_candidates(db: Connection, wanted: JobFilter, owner: str | None, has_tag: str, before: int) -> list[Match]:
    conditions, values = filter_conditions(wanted, owner, None, has_tag=has_tag)
    statement = SQL["count_candidates"].format(conditions=in_pyformat(" AND ".join(conditions)))
    return [Match(*row) for row in db.execute(statement, {**values, "before": before})]


def candidates(db: Connection, wanted: JobFilter, owner: str | None, has_tag: str, where: dict[str, Any]) -> Page[Any]:
    conditions, values = filter_conditions(wanted, owner, None, has_tag=has_tag)
    statement = SQL["candidates"].format(conditions=in_pyformat(" AND ".join(conditions)))
    return to_page(_all(db, statement, {**values, **where, "limit": where["limit"] + 1}), where["limit"])


def begin(db: Connection, redrive: Redrive, now: int | None) -> Redrive:
    values = redrive_values(redrive)
    db.execute(SQL["operation_forget"], {"now": now, "kept": values["kept"]})
    if db.execute(SQL["operation_new"], values).rowcount:
        db.execute(SQL["event"], start_event(redrive, now=now))
    (row,) = _all(db, SQL["operation_asked"], values)
    return to_redrive(row)


def advance(
    db: Connection, redrive: Redrive, moves: Sequence[Request], now: int | None, move: Callable[[Request], object]
) -> Redrive | None:
    values = redrive_values(redrive)
    if db.execute(SQL["operation_locked"], values).fetchone() is None:
        return None
    done = [(request.job, _made(db, redrive, request, move)) for request in moves]
    (moment,) = db.execute(SQL["now"], {"now": now}).fetchall()[0]
    after = carried_out(redrive, done, from_time(moment))
    db.execute(SQL["operation"], redrive_values(after))
    if after.state.is_over:
        db.execute(SQL["event"], end_event(after, now=now))
    return replace(after, course=replace(after.course, version=after.course.version + 1))


def _made(db: Connection, redrive: Redrive, request: Request, move: Callable[[Request], object]) -> str | None:
    """Why the job was not moved; None, it was. What was begun for one that cannot be is undone."""
    rows = _all(db, SQL["job_locked"], {"id": request.job, "owner": request.owner})
    if not is_candidate(rows[0] if rows else None, redrive):
        return MOVED_ON
    try:
        with db.transaction():
            move(request)
    except MulliganError as error:
        return skip_reason(error)
    except psycopg.IntegrityError as error:
        return skip_reason(StoreDamaged(str(error)))
    return None


def answers(db: Connection, redrive: Redrive) -> dict[str, bool]:
    requests = [request_of(redrive.id, watched.job) for watched in redrive.course.watched]
    values = {"requests": requests, "types": list(SETTLE_EVENTS), "cancelled": CANCELLED}
    return to_answers(db.execute(SQL["answers"], values).fetchall(), RELEASED)


def cancel(
    db: Connection, redrive_id: str, owner: str | None, actor: str | None, reason: str | None, now: int | None
) -> Redrive:
    is_ended = db.execute(SQL["operation_cancel"], {"id": redrive_id, "owner": owner, "now": now}).rowcount
    found = listed(db, redrive_id, owner, 1)
    if not found:
        raise RedriveNotFound(redrive_id)
    if is_ended:
        db.execute(SQL["event"], end_event(found[0], now=now, actor=actor, reason=reason))
    return found[0]


def listed(db: Connection, redrive_id: str | None, owner: str | None, limit: int) -> list[Redrive]:
    values = {"id": redrive_id, "owner": owner, "limit": limit}
    return [to_redrive(row) for row in _all(db, SQL["operations"], values)]


def active(db: Connection, limit: int) -> list[Redrive]:
    return [to_redrive(row) for row in _all(db, SQL["operations_active"], {"limit": limit})]


def _all(db: Connection, statement: str, values: dict[str, Any]) -> list[Record]:
    cursor = db.execute(statement, values)
    return records(cursor, cursor.fetchall())
