"""Calls to the store that go on until it answers. Each of its operations can be repeated."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from mulligan.errors import StoreClosed, StoreError
from mulligan.worker.drivers import Driver
from mulligan.worker.outage import Outage

T = TypeVar("T")

SHORTEST_PAUSE = 0.05


class GaveUpError(Exception):
    """The store did not answer for as long as anybody would wait."""


class Caller:
    """`troubled` is called whenever the store does not answer."""

    def __init__(self, driver: Driver, *, outage: Outage, longest_pause: float, troubled: Callable[[], None]) -> None:
        self._driver = driver
        self._outage = outage
        self._longest_pause = longest_pause
        self._troubled = troubled
        self._patience: asyncio.Timeout | None = None
        self._is_patient = True

    async def persist(self, call: Callable[[], T], *, kind: str) -> T:
        pause = SHORTEST_PAUSE
        while True:
            try:
                answer = await self._driver.blocking(call)
            except StoreClosed:
                raise
            except StoreError as error:
                self._outage.failed(kind, error)
                self._troubled()
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._longest_pause)
            else:
                self._outage.answered(kind)
                return answer

    async def ask(self, call: Callable[[], T], *, kind: str) -> T:
        """The same, but no longer than the patience lasts. One asks at a time."""
        self._patience = patience = asyncio.timeout(None if self._is_patient else 0)
        try:
            async with patience:
                return await self.persist(call, kind=kind)
        except TimeoutError:
            if patience.expired():
                raise GaveUpError from None
            raise
        finally:
            self._patience = None

    def lose_patience(self) -> None:
        """From now on nobody waits for an answer."""
        self._is_patient = False
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())
