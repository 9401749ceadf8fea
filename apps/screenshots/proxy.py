"""The only way from a browser to the network: a forward proxy that connects to checked addresses.

Chromium resolves no names and opens no connections of its own, so what holds here holds for pages, redirects, images,
scripts and web sockets alike. Each page has a proxy of its own, which remembers what it refused.
"""

import asyncio
import socket
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

from mulligan import Egress, TargetRefused

LARGEST_HEAD = 2**18
PIECE = 2**16
CONNECT_WITHIN = timedelta(seconds=10)
# Headers that concern one connection. The proxy closes each after one request: the next may be for another host.
_HOP = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"proxy-authorization", b"te", b"expect"})
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_UNREACHABLE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Proxy:
    """`refused` is what no page may reach. `failures` has the last error of each host that could not be reached."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._connections: set[asyncio.Task[None]] = set()
        self.address = ""
        self.refused: list[TargetRefused] = []
        self.failures: dict[str, OSError] = {}

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=LARGEST_HEAD)
        self.address = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
        try:
            yield self
        finally:
            server.close()
            open_ones = list(self._connections)
            for connection in open_ones:
                connection.cancel()
            await asyncio.gather(*open_ones, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        """A task of our own: that of a coroutine is reported as a fault when it is cancelled."""
        task = asyncio.create_task(self._serve_once(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve_once(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, ValueError, LimitOverrunError):
            # One side has hung up, or the browser sent what is no request: there is no one to tell.
            return
        finally:
            writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        request, *headers = (await reader.readuntil(b"\r\n\r\n")).rstrip(b"\r\n").split(b"\r\n")
        method, target, _ = request.split(b" ", 2)
        is_tunnel = method == b"CONNECT"
        parts = urlsplit(f"//{target.decode('ascii')}" if is_tunnel else target.decode("ascii"))
        opened = await self._open(parts.hostname or "", parts.port or 80, writer, is_tunnel=is_tunnel)
        if opened is None:
            return
        upstream, onward = opened
        try:
            if is_tunnel:
                writer.write(_CONNECTED)
                await _relay_both(reader, writer, upstream, onward)
            else:
                path = target.split(b"/", 3)[3] if target.count(b"/") > 2 else b""
                onward.write(_request(method, b"/" + path, headers))
                await _relay_answer(reader, writer, upstream, onward)
        finally:
            onward.close()

    async def _connect(self, host: str, port: int) -> socket.socket:
        """A thread cannot be cancelled: a connection that it makes for a page that is gone is closed."""
        connecting = asyncio.get_running_loop().run_in_executor(
            None, partial(self._egress.open, host, port, timeout=CONNECT_WITHIN)
        )
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_late)
            raise

    async def _open(
        self, host: str, port: int, writer: StreamWriter, *, is_tunnel: bool
    ) -> tuple[StreamReader, StreamWriter] | None:
        try:
            connection = await self._connect(host, port)
        except TargetRefused as refused:
            self.refused.append(refused)
            writer.write(_REFUSED)
        except OSError as error:
            self.failures[host] = error
            # Without an answer to a plain request, the browser reports a failure instead of a page.
            writer.write(_UNREACHABLE if is_tunnel else b"")
        else:
            return await _open_streams(connection)
        return None


def _close_late(connecting: "asyncio.Future[socket.socket]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


async def _open_streams(connection: socket.socket) -> tuple[StreamReader, StreamWriter]:
    connection.settimeout(0)
    try:
        return await asyncio.open_connection(sock=connection, limit=LARGEST_HEAD)
    except BaseException:
        connection.close()
        raise


def _request(method: bytes, path: bytes, headers: list[bytes]) -> bytes:
    kept = [header for header in headers if header.partition(b":")[0].lower() not in _HOP]
    return b"\r\n".join([b"%b %b HTTP/1.1" % (method, path), *kept, b"Connection: close", b"", b""])


async def _relay_answer(
    reader: StreamReader, writer: StreamWriter, upstream: StreamReader, onward: StreamWriter
) -> None:
    """One answer, after which the browser must not use the connection again, whatever the server says."""
    body = asyncio.create_task(_relay(reader, onward))
    try:
        status, *headers = await _read_final_head(upstream)
        kept = [header for header in headers if header.partition(b":")[0].lower() not in _HOP]
        writer.write(b"\r\n".join([status, *kept, b"Connection: close", b"", b""]))
        await _relay(upstream, writer)
    finally:
        body.cancel()
        await asyncio.gather(body, return_exceptions=True)


async def _read_final_head(upstream: StreamReader) -> list[bytes]:
    """The head of the answer, without the informational ones that may precede it."""
    while True:
        lines = (await upstream.readuntil(b"\r\n\r\n")).rstrip(b"\r\n").split(b"\r\n")
        if not lines[0].split(b" ", 2)[1].startswith(b"1"):
            return lines


async def _relay_both(reader: StreamReader, writer: StreamWriter, upstream: StreamReader, onward: StreamWriter) -> None:
    ways = [asyncio.create_task(_relay(reader, onward)), asyncio.create_task(_relay(upstream, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _relay(source: StreamReader, sink: StreamWriter) -> None:
    with suppress(IncompleteReadError):
        while piece := await source.read(PIECE):
            sink.write(piece)
            await sink.drain()
