"""Rounds of duties in every store: the last one of each duty by each worker."""

from collections.abc import Sequence

from mulligan.records.duty import DutyOverview, DutyRun
from mulligan.records.schedule import SEEN_EVERY
from mulligan.store.rows import from_json, to_duration, to_json, to_round
from mulligan.store.session import Now, Session
from mulligan.store.values import ROUNDS_KEPT, round_event, round_values

# Of these the store knows whether there is anything to do.
ASKED = ("expire", "redrive")


class DutyOperations:
    def find_chores(self, session: Session, now: Now) -> DutyOverview:
        (row,) = session.rows("chores", {"now": now, "seen_every": to_duration(SEEN_EVERY)})
        idle = frozenset(duty for duty in ASKED if not row[duty])
        return DutyOverview(frozenset(from_json(row["paused"])), idle, has_ticks=bool(row["has_ticks"]))

    def record(self, session: Session, rounds: Sequence[DutyRun], now: Now) -> None:
        session.rows("note", {"rounds": to_json([round_values(done) for done in rounds]), "now": now})
        session.rows("note_forget", {"kept": to_duration(ROUNDS_KEPT), "now": now})
        for done in rounds:
            if done.request is not None:
                session.rows("event", round_event(done, now=now))

    def list_all(self, session: Session) -> list[DutyRun]:
        rows = session.rows("rounds")
        return [to_round(row) for row in rows]
