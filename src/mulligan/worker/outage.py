"""The store's silence as the log tells it: once when it begins, once when it is over, whoever of a worker notices."""

import logging

from mulligan.errors import StoreError
from mulligan.values.clock import Clock

logger = logging.getLogger("mulligan.worker")

STEADY_SECONDS = 1.0
"""Connections break one after the other: an answer is the end of an outage only when nothing failed for so long."""


class Outage:
    """Heard from the loop and from the keeper's thread alike; at worst two of them tell of its first moment.

    Some calls may fail while others are answered: a SQLite file whose lock is held can be read. It is over when every
    kind of call that failed was answered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: set[str] = set()
        self._failed_at: float | None = None
        """When something failed last; None: the store answers."""

    def failed(self, call: str, error: StoreError) -> None:
        if self._failed_at is None:
            logger.error("the store does not answer, trying again: %s", error)
        self._failing.add(call)
        self._failed_at = self._clock.monotonic()

    def answered(self, call: str) -> None:
        if self._failed_at is None:
            return
        self._failing.discard(call)
        if not self._failing and self._clock.monotonic() - self._failed_at >= STEADY_SECONDS:
            self._failed_at = None
            logger.warning("the store answers again")
