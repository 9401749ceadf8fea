"""Rounds of duties in every store: the last one of each duty by each worker."""

from collections.abc import Sequence

from mulligan.records.duty import DutyOverview, Round
from mulligan.records.schedule import SEEN_EVERY
from mulligan.store.clock import Now
from mulligan.store.rows import from_json, to_duration, to_json, to_round
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements
from mulligan.store.values import ROUNDS_KEPT, round_event, round_values

# Of these the store knows whether there is anything to do.
ASKED = ("expire", "redrive")


class RoundSteps:
    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    def looking(self, now: Now) -> Steps[DutyOverview]:
        (row,) = yield Statement(self._sql["chores"], {"now": now, "seen_every": to_duration(SEEN_EVERY)})
        idle = frozenset(duty for duty in ASKED if not row[duty])
        return DutyOverview(frozenset(from_json(row["paused"])), idle, has_ticks=bool(row["has_ticks"]))

    def noting(self, rounds: Sequence[Round], now: Now) -> Steps[None]:
        yield Statement(self._sql["note"], {"rounds": to_json([round_values(done) for done in rounds]), "now": now})
        yield Statement(self._sql["note_forget"], {"kept": to_duration(ROUNDS_KEPT), "now": now})
        for done in rounds:
            if done.request is not None:
                yield Statement(self._sql["event"], round_event(done, now=now))

    def listing(self) -> Steps[list[Round]]:
        rows = yield Statement(self._sql["rounds"], {})
        return [to_round(row) for row in rows]
