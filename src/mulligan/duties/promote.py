"""Promote and retry: queue the waiting jobs that are due. Every claim does so too; the duty is for when all workers
are busy."""

from dataclasses import KW_ONLY, dataclass

from mulligan.duties.runner import repeat_while_full
from mulligan.store.store import Store

PASSES = 10


@dataclass(slots=True, eq=False)
class Promote:
    """`name` is `retry` for jobs that failed, `promote` for jobs that were delayed or snoozed."""

    name: str
    store: Store
    _: KW_ONLY
    interval: float
    limit: int

    def step(self) -> int:
        return repeat_while_full(
            lambda limit: self.store.promote(self.name, limit=limit), limit=self.limit, passes=PASSES
        )

    def step_manually(self) -> int:
        """One pass, which also promotes jobs that a pause blocks."""
        return self.store.promote(self.name, limit=self.limit, is_manual=True)
