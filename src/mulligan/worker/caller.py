"""Calls to the store that go on until it answers. Each of its operations can be repeated."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

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

    async def persist(self, call: Callable[[], T]) -> T:
        pause = SHORTEST_PAUSE
        while True:
            try:
                answer = await self._driver.blocking(call)
            except StoreClosed:
                raise
            except StoreError as error:
                self._outage.failed(error)
                self._troubled()
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._longest_pause)
            else:
                self._outage.answered()
                return answer

    async def ask(self, call: Callable[[], T], patience: "asyncio.Task[Any]") -> T:
        """The same, but no longer than the patience lasts."""
        asking = asyncio.get_running_loop().create_task(self.persist(call))
        await asyncio.wait({asking, patience}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        asking.cancel()
        raise GaveUpError
