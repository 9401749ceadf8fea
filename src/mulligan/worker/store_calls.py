"""Store calls of a worker: repeated until the store answers. Every store operation can be repeated safely."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mulligan.errors import StoreClosed, StoreError
from mulligan.values.clock import Clock

logger = logging.getLogger("mulligan.worker")

T = TypeVar("T")
Blocking = Callable[[Callable[[], Any]], Awaitable[Any]]

SHORTEST_PAUSE = 0.05
# Connections break one after the other: an outage is over only after this long without a failed call.
STEADY_SECONDS = 1.0


class StoreSilent(Exception):
    """The store did not answer before the worker stopped waiting."""


class OutageLog:
    """Logs an outage of the store once when it begins and once when it is over.

    Some calls may fail while others are answered: a SQLite file with a held lock can be read. The outage is over when
    every kind of call that failed was answered. The loop and the keeper's thread both report here; at worst both log
    the beginning.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: set[str] = set()
        self._failed_at: float | None = None
        """Time of the last failed call; None while the store answers."""

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


class StoreCalls:
    """`blocking` calls a function without blocking the event loop."""

    def __init__(self, blocking: Blocking, *, outage: OutageLog, longest_pause: float) -> None:
        self._blocking = blocking
        self._outage = outage
        self._longest_pause = longest_pause
        self._patience: asyncio.Timeout | None = None
        self._is_patient = True
        self.may_have_lost_replies = False
        """A call failed: the store may have done what it asked for. Cleared by the claimer."""

    async def persist(self, call: Callable[[], T], *, kind: str) -> T:
        """Repeat the call until the store answers. Raises StoreClosed."""
        pause = SHORTEST_PAUSE
        while True:
            try:
                answer: T = await self._blocking(call)
            except StoreClosed:
                raise
            except StoreError as error:
                self._outage.failed(kind, error)
                self.may_have_lost_replies = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._longest_pause)
            else:
                self._outage.answered(kind)
                return answer

    async def ask(self, call: Callable[[], T], *, kind: str) -> T:
        """As `persist`, but raises StoreSilent once the worker stops waiting. One call at a time."""
        self._patience = patience = asyncio.timeout(None if self._is_patient else 0)
        try:
            async with patience:
                return await self.persist(call, kind=kind)
        except TimeoutError:
            if patience.expired():
                raise StoreSilent from None
            raise
        finally:
            self._patience = None

    def lose_patience(self) -> None:
        """Stop waiting for answers, from now on."""
        self._is_patient = False
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())
