"""Expire: fails jobs that did not run before their deadline, expires overdue batches, and cancels the jobs left in
aborted batches."""

from dataclasses import KW_ONLY, dataclass

from mulligan.duties.runner import repeat_while_full
from mulligan.failure.verdict import deadline_passed
from mulligan.store.store import Store

PASSES = 100


@dataclass(slots=True, eq=False)
class Expire:
    name = "expire"

    store: Store
    _: KW_ONLY
    interval: float = 1.0
    limit: int = 500

    def step(self) -> int:
        jobs = repeat_while_full(
            lambda limit: self.store.expire(deadline_passed(), limit=limit), limit=self.limit, passes=PASSES
        )
        batches = repeat_while_full(lambda limit: self.store.tend_batches(limit=limit), limit=self.limit, passes=PASSES)
        return jobs + batches
