"""Expire: fails jobs that did not run before their deadline, expires overdue batches, and cancels the jobs left in
aborted batches."""

from mulligan.duties.runner import repeat_while_full
from mulligan.failure.verdict import deadline_passed
from mulligan.store.store import Store

PASSES = 100


class Expire:
    name = "expire"

    def __init__(self, store: Store, *, interval: float = 1.0, limit: int = 500) -> None:
        self._store = store
        self.interval = interval
        self.limit = limit
        self._verdict = deadline_passed()

    def step(self) -> int:
        jobs = repeat_while_full(
            lambda limit: self._store.expire(self._verdict, limit=limit), limit=self.limit, passes=PASSES
        )
        batches = repeat_while_full(
            lambda limit: self._store.tend_batches(limit=limit), limit=self.limit, passes=PASSES
        )
        return jobs + batches
