"""Live pages: one look at the end of the log for all streams of a process. Each reads the events that it may see."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import StreamingResponse

from apps.pages.problems import Problem
from mulligan import App, Event, MulliganError, StoreUnavailable

LOOK_EVERY = 0.25
HEARTBEAT = 15.0
# Ticks of a page, in seconds.
SHORTEST_PAUSE = 1.0
MOST_STREAMS = 500
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Message = tuple[str, dict[str, Any]]
ToMessage = Callable[[Event], Message | None]


class Feed:
    """Knows the end of the log while there are streams."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.streams = 0
        self._position = 0
        self._changed: asyncio.Condition | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.streams += 1
        if self._task is None:
            self._changed = asyncio.Condition()
            self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.streams -= 1
        if not self.streams and self._task is not None:
            self._task.cancel()
            self._task = None

    async def wait(self, position: int) -> None:
        """Until there may be more than at the position, or for the time of a heartbeat."""
        assert self._changed is not None
        try:
            async with asyncio.timeout(HEARTBEAT), self._changed:
                await self._changed.wait_for(lambda: self._position > position)
        except TimeoutError:
            return

    async def _look(self) -> None:
        assert self._changed is not None
        while True:
            try:
                found = await asyncio.to_thread(self.app.last_position)
            except MulliganError:
                # The database is away: the streams stay, and go on when it is back.
                found = self._position
            if found != self._position:
                async with self._changed:
                    self._position = found
                    self._changed.notify_all()
            await asyncio.sleep(LOOK_EVERY)


def stream(
    request: Request,
    to_message: ToMessage,
    *,
    owner: str | None = None,
    job: str | None = None,
    batch: str | None = None,
    after: int | None = None,
    pause: float = 0.0,
) -> StreamingResponse:
    """Server-sent events, by the names that `to_message` gives them. `Last-Event-ID` continues a stream. Raises
    Problem if there are too many."""
    feed: Feed = request.app.state.feed
    if feed.streams >= MOST_STREAMS:
        raise Problem(429, "TOO_MANY_STREAMS", "Too many pages are open. Load this one again later.")
    last = request.headers.get("last-event-id", "")
    if last.isascii() and last.isdecimal() and len(last) < 19:
        after = int(last)
    read = partial(feed.app.stream, owner=owner, job=job, batch=batch)
    return StreamingResponse(
        _messages(feed, read, to_message, after, pause), media_type="text/event-stream", headers=HEADERS
    )


async def _messages(
    feed: Feed, read: Callable[..., Any], to_message: ToMessage, after: int | None, pause: float
) -> AsyncIterator[str]:
    async with feed:
        position = await asyncio.to_thread(feed.app.last_position) if after is None else after
        yield "retry: 2000\n\n"
        while True:
            try:
                page = await asyncio.to_thread(read, after=position)
            except StoreUnavailable:
                await asyncio.sleep(1)
                continue
            except MulliganError:
                # A job of another owner, or a position that this log has not reached: there will never be an answer.
                return
            found = [message for event in page.events if (message := to_message(event)) is not None]
            for name, data in found[:1] if pause else found:
                yield f"event: {name}\ndata: {json.dumps(data)}\n\n"
            if page.position != position:
                position = page.position
                # Events of one transaction share a position: a stream continues behind all of them.
                yield f"id: {position}\n\n"
            elif not found:
                yield ": heartbeat\n\n"
            if page.is_end:
                await asyncio.sleep(pause if found else 0)
                await feed.wait(position)


def ticks(request: Request, *, owner: str | None, job: str | None, batch: str | None) -> StreamingResponse:
    """Says that something changed, at most once a second. The page then reads itself again."""
    text = request.query_params.get("after", "")
    after = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
    return stream(
        request, lambda _: ("changed", {}), owner=owner, job=job, batch=batch, after=after, pause=SHORTEST_PAUSE
    )
