"""Outcomes whose fence matched nothing, in every store: told before, or too late."""

from mulligan.store.messages import Outcome, Settled
from mulligan.store.rows import Record, to_json
from mulligan.store.session import Now, Session
from mulligan.store.settle import Settlement
from mulligan.store.values import SETTLE_EVENTS, refusal_values


def refuse(session: Session, outcome: Outcome, change: Settlement, now: Now) -> Settled:
    rows = session.rows("settled", {"id": outcome.lease.fence.id})
    if not rows:
        return Settled.REFUSED
    if is_repeat(session, outcome, rows[0]):
        return Settled.REPEATED
    if outcome.reclaimed_by is None:
        session.rows("event", refusal_values(outcome, change, rows[0], now=now))
    return Settled.REFUSED


def is_repeat(session: Session, outcome: Outcome, row: Record) -> bool:
    """Whether this very settle was accepted before: by the row, or by the log for an older attempt."""
    fence = outcome.lease.fence
    if row["settled_attempt"] == fence.attempt:
        return bool(row["settled_by"] == outcome.settled_by)
    values = {"id": fence.id, "attempt": fence.attempt, "types": to_json(SETTLE_EVENTS)}
    settles = session.rows("settled_before", values)
    return any(to_json(outcome.settled_by) in settle["data"] for settle in settles)
