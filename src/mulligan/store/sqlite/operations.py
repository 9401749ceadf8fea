"""Redrives on SQLite. Each function is a part of the caller's transaction."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mulligan.errors import MulliganError, RedriveNotFound
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
from mulligan.store.protocols import Request
from mulligan.store.rows import Record, from_time, records, to_json, to_page
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.statements import Statements
from mulligan.store.values import SETTLE_EVENTS, filter_conditions

SQL = Statements("mulligan.store.sqlite")
CANCELLED = TABLE[Move.CANCEL, State.RUNNING].event
RELEASED = TABLE[Move.RELEASE, State.RUNNING].event


def count_candidates(
    db: "sqlite3.Connection", wanted: JobFilter, owner: str | None, has_tag: str, before: int
) -> list[Match]:
    conditions, values = filter_conditions(wanted, owner, None, has_tag=has_tag)
    statement = SQL["count_candidates"].format(conditions=" AND ".join(conditions))
    return [Match(*row) for row in db.execute(statement, {**values, "before": before})]


def candidates(
    db: "sqlite3.Connection", wanted: JobFilter, owner: str | None, has_tag: str, where: dict[str, Any]
) -> Page[Any]:
    conditions, values = filter_conditions(wanted, owner, None, has_tag=has_tag)
    statement = SQL["candidates"].format(conditions=" AND ".join(conditions))
    return to_page(_all(db, statement, {**values, **where, "limit": where["limit"] + 1}), where["limit"])


def begin(db: "sqlite3.Connection", redrive: Redrive, now: int) -> Redrive:
    values = redrive_values(redrive)
    db.execute(SQL["operation_forget"], {"now": now, "kept": values["kept"]})
    if db.execute(SQL["operation_new"], values).rowcount:
        db.execute(SQL["event"], start_event(redrive, now=now))
    (row,) = _all(db, SQL["operation_asked"], values)
    return to_redrive(row)


def advance(
    db: "sqlite3.Connection", redrive: Redrive, moves: Sequence[Request], now: int, move: Callable[[Request], object]
) -> Redrive | None:
    values = redrive_values(redrive)
    if db.execute(SQL["operation_locked"], values).fetchone() is None:
        return None
    done = [(request.job, _made(db, redrive, request, move)) for request in moves]
    after = carried_out(redrive, done, from_time(now))
    db.execute(SQL["operation"], redrive_values(after))
    if after.state.is_over:
        db.execute(SQL["event"], end_event(after, now=now))
    return replace(after, course=replace(after.course, version=after.course.version + 1))


def _made(
    db: "sqlite3.Connection", redrive: Redrive, request: Request, move: Callable[[Request], object]
) -> str | None:
    """Why the job was not moved; None, it was. What was begun for one that cannot be is undone."""
    rows = _all(db, SQL["job"], {"id": request.job, "owner": request.owner})
    if not is_candidate(rows[0] if rows else None, redrive):
        return MOVED_ON
    db.execute("SAVEPOINT redrive")
    try:
        move(request)
    except MulliganError as error:
        db.execute("ROLLBACK TO redrive")
        return skip_reason(error)
    finally:
        if db.in_transaction:
            db.execute("RELEASE redrive")
    return None


def answers(db: "sqlite3.Connection", redrive: Redrive) -> dict[str, bool]:
    requests = [request_of(redrive.id, watched.job) for watched in redrive.course.watched]
    values = {"requests": to_json(requests), "types": to_json(SETTLE_EVENTS), "cancelled": CANCELLED}
    return to_answers(db.execute(SQL["answers"], values).fetchall(), RELEASED)


def cancel(
    db: "sqlite3.Connection", redrive_id: str, owner: str | None, actor: str | None, reason: str | None, now: int
) -> Redrive:
    is_ended = db.execute(SQL["operation_cancel"], {"id": redrive_id, "owner": owner, "now": now}).rowcount
    found = listed(db, redrive_id, owner, 1)
    if not found:
        raise RedriveNotFound(redrive_id)
    if is_ended:
        db.execute(SQL["event"], end_event(found[0], now=now, actor=actor, reason=reason))
    return found[0]


def listed(db: "sqlite3.Connection", redrive_id: str | None, owner: str | None, limit: int) -> list[Redrive]:
    values = {"id": redrive_id, "owner": owner, "limit": limit}
    return [to_redrive(row) for row in _all(db, SQL["operations"], values)]


def active(db: "sqlite3.Connection", limit: int) -> list[Redrive]:
    return [to_redrive(row) for row in _all(db, SQL["operations_active"], {"limit": limit})]


def _all(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> list[Record]:
    cursor = db.execute(statement, values)
    return records(cursor, cursor.fetchall())
