"""The answer that sends a stream until its client is gone, reads too slowly, or the server ends."""

import asyncio
import logging
import socket
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mulligan.web.connection import reset, socket_of
from mulligan.web.problems import Problem, respond
from mulligan.web.stream.hub import Hub
from mulligan.web.stream.stream import Stream

logger = logging.getLogger("mulligan.web")

# A client that takes nothing for this long is disconnected.
SLOWEST_SEND = 10.0
# What is held for a client that does not read, in this process and in the operating system, which would hold megabytes.
BUFFER = 16 * 1024
SOCKET_BUFFER = 64 * 1024
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """`counted_as` names the streams that are limited together."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, stream: Stream, counted_as: str) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._hub, self._stream, self._counted_as = hub, stream, counted_as
        self._sending: asyncio.Timeout | None = None
        stream.on_close = self._interrupt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._begin(send)
            await _end(send)
            return
        try:
            self._hub.join(self._stream, self._counted_as)
        except Problem as problem:
            await respond(problem)(scope, receive, send)
            return
        gone = asyncio.create_task(self._listen(receive))
        try:
            await self._send(_connection(receive), gone, send)
        finally:
            gone.cancel()
            self._hub.leave(self._stream)

    async def _send(self, connection: asyncio.Transport | None, gone: "asyncio.Task[None]", send: Send) -> None:
        if connection is not None:
            connection.set_write_buffer_limits(high=BUFFER)
            socket_of(connection).setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        try:
            await self._start()
            await self._begin(send)
            await self._send_messages(send)
        except TimeoutError:
            logger.info("a client of the event stream was disconnected: it reads too slowly")
            if connection is not None:
                reset(connection)
            # The place of the stream is taken as long as the connection is.
            await gone

    async def _start(self) -> None:
        """A log that cannot be read now delays the answer for a while, and then only its events."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SLOWEST_SEND) as self._sending:
                await self._stream.start()
        self._sending = None

    async def _send_messages(self, send: Send) -> None:
        async with aclosing(self._stream.messages()) as messages:
            async for piece in messages:
                await self._put(send, piece)
                # A client that reads fast does not keep the others waiting.
                await asyncio.sleep(0)
        async with asyncio.timeout(1):
            await _end(send)

    async def _put(self, send: Send, piece: bytes) -> None:
        async with asyncio.timeout(SLOWEST_SEND) as self._sending:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        self._sending = None

    async def _begin(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

    async def _listen(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._stream.close()

    def _interrupt(self) -> None:
        """Do not wait for a client that does not read."""
        if self._sending is not None:
            with suppress(RuntimeError):  # it is over already
                self._sending.reschedule(asyncio.get_running_loop().time())


async def _end(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _connection(receive: Receive) -> asyncio.Transport | None:
    """The transport below uvicorn's `receive`. Other servers and middleware may hide it: then None."""
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    is_usable = isinstance(transport, asyncio.Transport) and transport.get_extra_info("socket") is not None
    return transport if is_usable else None
