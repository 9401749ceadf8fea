"""Expire: a job that did not get to run before its deadline is failed, visibly."""

from mulligan.failure.classify import deadline_passed
from mulligan.store.protocols import JobStore

PASS = 500


class Expire:
    name = "expire"

    def __init__(self, store: JobStore, *, interval: float = 1.0) -> None:
        self._store = store
        self.interval = interval

    def step(self) -> int:
        expired = self._store.expire(deadline_passed(), limit=PASS)
        total = expired
        while expired == PASS:
            expired = self._store.expire(deadline_passed(), limit=PASS)
            total += expired
        return total
