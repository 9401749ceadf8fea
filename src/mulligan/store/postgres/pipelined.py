"""A transaction whose begin and commit take no round trips: they are sent with its first and its last statements."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from mulligan.store.postgres.connections import Connection
from mulligan.store.postgres.lean import LeanCall, LeanStatement, run_together
from mulligan.store.postgres.session import ASYNCHRONOUSLY, Cursor, PostgresSession
from mulligan.store.session import Named, Now, Rows

T = TypeVar("T")

# A plan that is made for an empty table stays when it has grown, until the server analyses it.
_BEGIN = [
    LeanStatement("begin", "BEGIN").with_values({}),
    LeanStatement("by_key", f"{ASYNCHRONOUSLY}, set_config('enable_seqscan', 'off', true)").with_values({}),
]
_COMMIT = LeanStatement("commit", "COMMIT").with_values({})


class PipelinedSession(PostgresSession):
    """It commits asynchronously, and finds rows by their keys."""

    __slots__ = ("_has_begun", "_last")

    def __init__(self, db: Connection, now: Now) -> None:
        super().__init__(db, now)
        self._has_begun = False
        self._last: list[Named] = []

    def run(self, work: Callable[["PipelinedSession"], T]) -> T:
        """Run `work` in one transaction."""
        try:
            answer = work(self)
            self._send(self._last, [_COMMIT])
        except BaseException:
            with suppress(psycopg.Error):
                self.db.roll_back()
            raise
        return answer

    def together(self, *statements: Named) -> list[Rows]:
        return self._send(statements) if statements else []

    def at_end(self, *statements: Named) -> None:
        self._last += statements

    def cursor(self, sql: str, values: Mapping[str, Any], *, prepare: bool | None = None) -> Cursor:
        if not self._has_begun:
            self._send([])
        return super().cursor(sql, values, prepare=prepare)

    def _send(self, statements: Sequence[Named], then: Sequence[LeanCall] = ()) -> list[Rows]:
        first, self._has_begun = [] if self._has_begun else _BEGIN, True
        found = self.db.wait(run_together(self.db, [*first, *self.lean(statements), *then]))
        return found[len(first) :]
