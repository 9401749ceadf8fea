"""The built-in projections: how far the log was folded, the next page of it, and what that page adds.

Result and position are one transaction, and the position must not have moved since the page was read. So no event
counts twice, whichever processes fold and die. Unlike the cursors of users, this one keeps no event from being deleted.
"""

from datetime import timedelta
from typing import Any

import msgspec

from mulligan.records.folded import Folded
from mulligan.records.log_entry import Entry, EntryPage, Facts
from mulligan.records.statistics import MINUTE, ProjectionStatus
from mulligan.store.events import EventOperations
from mulligan.store.groups import GroupOperations, Replay
from mulligan.store.rows import Record, from_time, from_time_or_none
from mulligan.store.session import Session
from mulligan.store.statistics import StatisticOperations
from mulligan.store.totals import TotalOperations


class _Start(msgspec.Struct, gc=False):
    version: str | None = None


_facts = msgspec.json.Decoder(Facts).decode
_start = msgspec.json.Decoder(_Start).decode
_NOTHING = Facts()
# Transactions commit a little later than the times that they write.
MARGIN = 2 * MINUTE * 1_000_000


class BuiltInProjection:
    def __init__(
        self,
        events: EventOperations,
        groups: GroupOperations,
        statistics: StatisticOperations,
        totals: TotalOperations,
    ) -> None:
        self._events = events
        self._groups = groups
        self._statistics = statistics
        self._totals = totals

    def page(self, session: Session, limit: int) -> EntryPage:
        """Return the next entries of the log. A rebuild ends with a page."""
        (state,) = session.rows("projection")
        after, rebuilt = state["position"], state["rebuilt_until"]
        rows, position, is_end = self._events.entries(session, after, rebuilt if after < rebuilt else None, limit)
        (log,) = session.rows("log")
        is_pruned = after >= rebuilt and after < log["pruned"]
        return EntryPage(list(map(to_entry, rows)), after, position, is_end, is_pruned)

    def apply(self, session: Session, page: EntryPage, folded: Folded) -> bool:
        """Return False, with nothing changed, if another process has applied the page."""
        values = {
            "before": page.after,
            "position": page.position,
            "at": folded.reached_at,
            "missed": int(page.is_pruned),
        }
        moved = session.rows("projection_move", values)
        if not moved:
            return False
        replay = Replay(page.after < moved[0]["rebuilt_until"], moved[0]["rebuilt_since"])
        followed = self._groups.apply(session, folded.groups, folded.jobs, replay)
        if replay.is_on and replay.since:
            followed = {}
        self._statistics.apply(session, folded.minutes | followed, replay)
        # Totals never fall, so what was counted once is not counted again.
        if not replay.is_on:
            self._totals.apply(session, folded, is_pruned=page.is_pruned)
        return True

    def rebuild(self, session: Session) -> None:
        """Begin again with the oldest event after the last deleted one. What is older stays as it is."""
        session.rows("projection_lock")
        (log,) = session.rows("log")
        since = 0
        if log["pruned"]:
            rows, _, _ = self._events.entries(session, log["pruned"], None, 1)
            since = (rows[0]["at"] if rows else session.moment()) + MARGIN
            since -= since % (MINUTE * 1_000_000)
        session.rows("projection_restart", since=since, position=log["pruned"])
        session.rows("projection_statistics_reset", since=since)
        session.rows("projection_groups_reset", since=since)
        session.rows("projection_owners_reset")
        session.rows("projection_failing_reset")

    def status(self, session: Session) -> ProjectionStatus:
        (state,) = session.rows("projection")
        position = state["position"]
        lag = timedelta(0)
        if position < self._events.last_position(session, 0):
            rows, _, _ = self._events.entries(session, position, None, 1)
            lag = from_time(session.moment()) - from_time(rows[0]["at"]) if rows else lag
        return ProjectionStatus(
            position=position,
            reached_at=from_time(state["at"]) if state["at"] else None,
            lag=max(lag, timedelta(0)),
            missed_at=from_time_or_none(state["missed_at"]),
            is_rebuilding=position < state["rebuilt_until"],
        )


def to_entry(row: Record) -> Entry:
    return Entry(
        row["position"],
        row["type"],
        row["job"],
        row["kind"],
        row["owner"],
        row["attempt"],
        row["at"],
        row["code"],
        row["service"] or "",
        row["cost"] or 0,
        row["ready_at"],
        _read(_start, row["start_data"], _NO_START).version,
        _read(_facts, row["data"], _NOTHING),
    )


_NO_START = _Start()


def _read(decode: Any, text: str | None, otherwise: Any) -> Any:
    """Damaged data must not stop a reader of the log."""
    if text is None:
        return otherwise
    try:
        return decode(text)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return otherwise
