"""Whether the store can be used: asked at most once a second, whatever the number of requests. They need no key."""

import asyncio
import math
from collections.abc import Callable

from mulligan.app import App
from mulligan.errors import StoreError
from mulligan.values.clock import Clock

REMEMBERED_SECONDS = 1.0


class StoreCheck:
    def __init__(self, app: App) -> None:
        self.clock: Callable[[], Clock] = app.wiring.clock
        self._asked_at = -math.inf
        self._error: StoreError | None = None
        self._asking: asyncio.Future[None] | None = None

    async def run(self, check: Callable[[], object]) -> None:
        """Raises the StoreError that `check` raises, or has raised for another request."""
        if self._asking is None and self.clock().monotonic() - self._asked_at >= REMEMBERED_SECONDS:
            self._asking = asyncio.ensure_future(self._ask(check))
        if self._asking is not None:
            # One client that goes away does not end the question of the others.
            await asyncio.shield(self._asking)
        if self._error is not None:
            raise self._error.with_traceback(None)

    async def _ask(self, check: Callable[[], object]) -> None:
        asked_at = self.clock().monotonic()
        try:
            await asyncio.to_thread(check)
        except StoreError as error:
            self._error = error
        else:
            self._error = None
        finally:
            self._asking = None
        self._asked_at = asked_at
