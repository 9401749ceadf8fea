"""Rounds of duties in every store: the last one of each duty by each worker."""

from mulligan.duty import Round
from mulligan.store.clock import Now
from mulligan.store.rows import to_round
from mulligan.store.script import Statement, Steps
from mulligan.store.statements import Statements
from mulligan.store.values import round_event, round_values


class RoundSteps:
    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    def noting(self, done: Round, now: Now) -> Steps[None]:
        values = {**round_values(done), "now": now}
        yield Statement(self._sql["note"], values)
        yield Statement(self._sql["note_forget"], values)
        if done.request is not None:
            yield Statement(self._sql["event"], round_event(done, now=now))

    def listing(self) -> Steps[list[Round]]:
        rows = yield Statement(self._sql["rounds"], {})
        return [to_round(row) for row in rows]
