"""Depths: how many jobs are queued and waiting. Few are counted when asked; many about once a minute, by a worker."""

from datetime import timedelta
from typing import NamedTuple

from mulligan.lifecycle import LIVE, State
from mulligan.records.counts import MOST_READ
from mulligan.records.job import JobFilter
from mulligan.store.counts import CountOperations
from mulligan.store.rows import Record, to_duration
from mulligan.store.session import Session

EVERY = timedelta(minutes=1)
# A count that took long is repeated after this many times its duration.
REST = 100
MOST_COUNTED = 5_000_000
# An older count says nothing: no worker is there.
FRESH = timedelta(hours=1)


class DueCount(NamedTuple):
    state: State
    counted_at: int


class DepthOperations:
    def __init__(self, counts: CountOperations) -> None:
        self._counts = counts

    def read(self, session: Session) -> dict[State, int]:
        counted = self._counts.count(session, JobFilter(state=LIVE), "state", None)
        depths = {state: counted.groups.get(state, 0) for state in LIVE}
        if counted.at_least:
            for row in session.rows("depths", fresh=to_duration(FRESH)):
                if depths[State(row["state"])] >= MOST_READ:
                    depths[State(row["state"])] = max(row["number"], MOST_READ)
        return depths

    def list_due(self, session: Session) -> list[DueCount]:
        rows = session.rows("depths_due", every=to_duration(EVERY), rest=REST)
        return [DueCount(State(row["state"]), row["counted_at"]) for row in rows]

    def claim(self, session: Session, due: DueCount) -> bool:
        """Return False if another process counts."""
        return bool(session.rows("depth_claim", state=due.state, before=due.counted_at))

    def count(self, session: Session, state: State) -> tuple[int, int]:
        """Return how many, and how many microseconds that took."""
        began = _now(session)
        number = self._counts.count_state(session, state, MOST_COUNTED)
        return number, max(_now(session) - began, 0)

    def record(self, session: Session, state: State, number: int, took: int) -> None:
        values: Record = {"state": state, "number": number, "took": took}
        session.rows("depth_write", values)


def _now(session: Session) -> int:
    return int(session.rows("now")[0]["now"])
