"""Outcomes whose fence matched nothing, in every store: told before, or too late."""

from mulligan.store.clock import Now
from mulligan.store.protocols import Outcome, Settled
from mulligan.store.rows import Record, to_json
from mulligan.store.session import Statement, Steps
from mulligan.store.settle import Settlement
from mulligan.store.statements import Statements
from mulligan.store.values import SETTLE_EVENTS, refusal_values


def refusing(sql: Statements, outcome: Outcome, change: Settlement, now: Now) -> Steps[Settled]:
    rows = yield Statement(sql["settled"], {"id": outcome.lease.fence.id})
    if not rows:
        return Settled.REFUSED
    if (yield from is_repeat(sql, outcome, rows[0])):
        return Settled.REPEATED
    if outcome.reclaimed_by is None:
        yield Statement(sql["event"], refusal_values(outcome, change, rows[0], now=now))
    return Settled.REFUSED


def is_repeat(sql: Statements, outcome: Outcome, row: Record) -> Steps[bool]:
    """Whether this very settle was accepted before: by the row, or by the log for an older attempt."""
    fence = outcome.lease.fence
    if row["settled_attempt"] == fence.attempt:
        return bool(row["settled_by"] == outcome.settled_by)
    values = {"id": fence.id, "attempt": fence.attempt, "types": to_json(SETTLE_EVENTS)}
    settles = yield Statement(sql["settled_before"], values)
    return any(to_json(outcome.settled_by) in settle["data"] for settle in settles)
