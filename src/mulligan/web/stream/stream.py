"""One stream: what it has read, and what it still has to send.

A stream begins behind: it reads its own pages of the log until it has caught up with the hub. From then on it is live:
the hub offers it events. If its client reads too slowly for its queue, it is behind again, and keeps nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Protocol

from mulligan.errors import BadArgument, JobNotFound, StoreError
from mulligan.records.event import EventPage
from mulligan.web.stream.message import Written, finish, write_event, write_position, write_reset
from mulligan.web.stream.wanted import Wanted

MOST_QUEUED = 250
PAGE = 50
# On PostgreSQL the events of one transaction are one page.
LARGE = 500
HEARTBEAT = 15.0
OUTAGE_PAUSE = 1.0
# How long a client waits before it connects again, in milliseconds.
RECONNECT = b"retry: 2000\n\n"
BEAT = b": heartbeat\n"

Read = Callable[..., EventPage]


async def _always() -> bool:
    return True


class Follower(Protocol):
    """The hub, as a stream needs it."""

    position: int
    is_ready: asyncio.Event
    reads: asyncio.Semaphore
    large_reads: asyncio.Semaphore

    async def in_thread(self, function: Callable[[], Any]) -> Any: ...


class Stream:
    """`read` returns the next page of the log as the caller may see it. Without `after`, it begins now."""

    def __init__(self, hub: Follower, wanted: Wanted, read: Read, *, after: int | None, is_for_owner: bool) -> None:
        self.wanted, self.is_for_owner = wanted, is_for_owner
        self.is_live = False
        self.is_over = False
        self.is_allowed: Callable[[], Awaitable[bool]] = _always
        """Whether the caller may still read. The hub asks every second."""
        self.on_close: Callable[[], None] = lambda: None
        self._hub, self._read = hub, read
        self._position = after
        self._reached = 0
        self._was_reset = False
        self._queue: list[Written] = []
        self._progress: dict[str, bytes] = {}
        self._wake = asyncio.Event()

    # What the hub calls

    def offer(self, events: list[Written], reached: int) -> None:
        """Take the next events of the log. `reached` is how far the log was read."""
        if not self.is_live:
            return
        # The stream may have read further than the hub before it was live.
        new = [event for event in events if event.position > self._reached]
        if len(self._queue) + len(new) > MOST_QUEUED:
            self.fall_behind()
            return
        self._reached = max(self._reached, reached)
        if new:
            self._queue += new
            self._wake.set()

    def offer_progress(self, job: str, message: bytes) -> None:
        if self.is_live and (job in self._progress or len(self._progress) < MOST_QUEUED):
            self._progress[job] = message
            self._wake.set()

    def fall_behind(self) -> None:
        """Drop what is queued. The stream reads it from the log later."""
        self.is_live = False
        self._queue, self._progress = [], {}
        self._wake.set()

    def close(self) -> None:
        self.is_over = True
        self._wake.set()
        self.on_close()

    # What is sent

    async def start(self) -> None:
        """Begin now, unless the client has given a position. It comes before the answer: a client that has the answer
        misses nothing that it causes then."""
        if self._position is None:
            await self._hub.is_ready.wait()
            self._go_live(self._hub.position)

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """What the client gets, in pieces. Asking for the next piece means that the last one was sent."""
        yield RECONNECT
        if self.is_live and self._position is not None:
            # Not how far the hub is by now: what came meanwhile is still to be sent.
            yield write_position(self._position)
        while not self.is_over:
            part = self._send_queued if self.is_live else self._replay
            async with aclosing(part()) as pieces:
                async for piece in pieces:
                    yield piece
                    if self.is_over:
                        return

    async def _send_queued(self) -> AsyncGenerator[bytes, None]:
        if self._is_idle:
            await self._rest()
            if self.is_live and self._is_idle and not self.is_over:
                self._position = self._reached
                yield BEAT + write_position(self._reached)
        if not self.is_live:
            return
        events, progress, reached = self._queue, self._progress, self._reached
        self._queue, self._progress = [], {}
        for piece in finish(events):
            yield piece
        self._position = reached
        if progress:
            yield b"".join(progress.values())

    @property
    def _is_idle(self) -> bool:
        return not self._queue and not self._progress

    async def _rest(self) -> None:
        """Wait until there is something to do, or until a heartbeat is due."""
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT):
                await self._wake.wait()

    async def _replay(self) -> AsyncGenerator[bytes, None]:
        """Read the next page, and be live if that was the last."""
        if not self._hub.is_ready.is_set():
            yield BEAT + b"\n"
            await self._hub.is_ready.wait()
        if self._position is None:
            self._go_live(self._hub.position)
            yield write_position(self._hub.position)
            return
        try:
            page = await self._next_page()
        except BadArgument:
            self._go_live(self._hub.position)
            yield write_reset("unknown_position", self._hub.position)
            return
        except JobNotFound:
            # It was deleted with its events: nothing can come any more.
            self._go_live(self._hub.position)
            return
        except StoreError:
            yield BEAT + b"\n"
            await asyncio.sleep(OUTAGE_PAUSE)
            return
        # The records of a page take several times the memory of its messages, and a client may take long to read them.
        position, is_large = page.position, len(page.events) > LARGE
        pieces = [] if is_large else self._write(page)
        del page
        if is_large:
            # Few clients at a time hold so much.
            async with self._hub.large_reads:
                for piece in self._write(await self._next_page()):
                    yield piece
        while pieces:
            yield pieces.pop(0)
        self._position = position
        if position >= self._hub.position:
            self._go_live(position)

    async def _next_page(self) -> EventPage:
        async with self._hub.reads:
            page: EventPage = await self._hub.in_thread(lambda: self._read(after=self._position, limit=PAGE))
            return page

    def _write(self, page: EventPage) -> list[bytes]:
        reset = []
        if page.is_pruned and not self._was_reset:
            assert self._position is not None
            reset = [write_reset("pruned", self._position)]
        self._was_reset = page.is_pruned
        return reset + list(finish(write_event(event, is_for_owner=self.is_for_owner) for event in page.events))

    def _go_live(self, position: int) -> None:
        # Nothing is awaited between this and the look at the hub's position.
        self._position = self._reached = position
        self.is_live = True
