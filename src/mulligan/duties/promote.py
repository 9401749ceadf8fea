"""Promote and retry: let through the door what is due. Every claim does it too; this is for when all are busy."""

from mulligan.duties.runner import repeat_while_full
from mulligan.store.protocols import Upkeep

PASSES = 10


class Promote:
    """`name` is `retry` for failed attempts, `promote` for jobs that were delayed or snoozed."""

    def __init__(self, name: str, store: Upkeep, *, interval: float, limit: int) -> None:
        self.name = name
        self._store = store
        self.interval = interval
        self.limit = limit

    def step(self) -> int:
        return repeat_while_full(
            lambda limit: self._store.promote(self.name, limit=limit), limit=self.limit, passes=PASSES
        )

    def run(self, _actor: str | None) -> int:
        """Once, by hand: one pass, also of jobs that a pause holds."""
        return self._store.promote(self.name, limit=self.limit, by_hand=True)
