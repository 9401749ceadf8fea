"""Live pages: a stream that says when something changed, at most once a second. The page then reads itself again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from mulligan.records.event import EventPage
from mulligan.web.stream.hub import Hub
from mulligan.web.stream.message import Written
from mulligan.web.stream.stream import BEAT, HEARTBEAT, RECONNECT, Stream
from mulligan.web.stream.wanted import Wanted

CHANGED = b"event: changed\ndata: 1\n\n"
SHORTEST_PAUSE = 1.0


class Ticks(Stream):
    """Keeps no events, so it never falls behind."""

    def __init__(self, hub: Hub, wanted: Wanted, *, after: int) -> None:
        super().__init__(hub, wanted, _read_nothing, after=None, is_for_owner=True)
        self._after = after
        self._changed = asyncio.Event()

    def offer(self, events: list[Written], reached: int) -> None:  # noqa: ARG002
        if events:
            self._changed.set()

    def offer_progress(self, job: str, message: bytes) -> None:  # noqa: ARG002
        self._changed.set()

    def fall_behind(self) -> None:
        self._changed.set()

    def close(self) -> None:
        super().close()
        self._changed.set()

    async def start(self) -> None:
        await self._hub.is_ready.wait()
        self.is_live = True
        # Something was written after the page was read. Whether it concerns the page, the page finds out.
        if self._hub.position > self._after:
            self._changed.set()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        yield RECONNECT
        while not self.is_over:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT):
                    await self._changed.wait()
            if self.is_over:
                return
            is_changed = self._changed.is_set()
            self._changed.clear()
            yield CHANGED if is_changed else BEAT + b"\n"
            if is_changed:
                await asyncio.sleep(SHORTEST_PAUSE)


def _read_nothing(**_: Any) -> EventPage:
    raise AssertionError("a stream of ticks reads no log")
