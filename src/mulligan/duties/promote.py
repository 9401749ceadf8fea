"""Promote and retry: queue the waiting jobs that are due. Every claim does so too; the duty is for when all workers
are busy."""

from mulligan.duties.runner import repeat_while_full
from mulligan.store.store import Store

PASSES = 10


class Promote:
    """`name` is `retry` for jobs that failed, `promote` for jobs that were delayed or snoozed."""

    def __init__(self, name: str, store: Store, *, interval: float, limit: int) -> None:
        self.name = name
        self._store = store
        self.interval = interval
        self.limit = limit

    def step(self) -> int:
        return repeat_while_full(
            lambda limit: self._store.promote(self.name, limit=limit), limit=self.limit, passes=PASSES
        )

    def run(self, _actor: str | None) -> int:
        """Run manually: one pass, which also promotes jobs that a pause blocks."""
        return self._store.promote(self.name, limit=self.limit, is_manual=True)
