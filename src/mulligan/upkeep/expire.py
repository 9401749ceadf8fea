"""Expire: a job that did not get to run before its deadline is failed, visibly."""

from mulligan.failure.classify import deadline_passed
from mulligan.store.protocols import Upkeep
from mulligan.upkeep.rounds import whole_passes

PASSES = 100


class Expire:
    name = "expire"

    def __init__(self, store: Upkeep, *, interval: float = 1.0, limit: int = 500) -> None:
        self._store = store
        self.interval = interval
        self.limit = limit
        self._verdict = deadline_passed()

    def step(self) -> int:
        return whole_passes(
            lambda limit: self._store.expire(self._verdict, limit=limit), limit=self.limit, passes=PASSES
        )

    def run(self, _actor: str | None) -> int:
        """By hand it is the same."""
        return self.step()
