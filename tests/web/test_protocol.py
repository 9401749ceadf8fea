"""What a client does to a connection: the server holds no memory for it, and ends it in time.

The protocol runs on a real socket in this process; waits are shorter than in a server.
"""

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mulligan.web import protocol as module
from mulligan.web.protocol import LARGEST_FRAME, BoundedProtocol

T = TypeVar("T")
PATIENCE = 20
# Of the first, less is left than asyncio holds without a word.
UNREAD = {"/more": 120_000, "/large": 4_000_000}
# Linux lets a client have no smaller one.
RECEIVE_BUFFER = 4_096
HEAD = b"POST /%b HTTP/1.1\r\nHost: x\r\n"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """`/refuse` answers as an endpoint does without a valid key: the body is not read. `/read` reads it. `/more` and
    `/large` have answers that the buffers of the operating system do not take, if their client does not read."""
    if scope["path"] in UNREAD:
        await Response(bytes(UNREAD[scope["path"]]))(scope, receive, send)
        return
    more = scope["path"] == "/read"
    status = 200 if more else 401
    while more:
        more = (await receive()).get("more_body", False)
    await Response(status_code=status)(scope, receive, send)


class Kept(BoundedProtocol):
    """Remembers its connections."""

    made: list["Kept"] = []  # noqa: RUF012

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.made.append(self)
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


class Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> int:
        """The status of the next answer, which is read whole."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await self.reader.readexactly(int(length.split(b":")[1]))
        return int(head.split()[1])

    async def rest(self) -> bytes:
        """All until the server ends the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE)
        except ConnectionError:
            return b""


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time a test can advance."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def connect(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    found.connect(("127.0.0.1", port))
    return found


def talk(work: Callable[[Line], Awaitable[T]]) -> T:
    async def run() -> T:
        config = uvicorn.Config(application, http=Kept, ws="none", log_config=None, access_log=False)
        config.load()
        state = uvicorn.Server(config).server_state
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: Kept(config, state, {}), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        line = Line(*await asyncio.open_connection(sock=connect(port), limit=RECEIVE_BUFFER))
        try:
            return await work(line)
        finally:
            line.writer.close()
            listening.close()

    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(run())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    Kept.made.clear()


def test_trailers_take_no_memory() -> None:
    async def send_trailers(line: Line) -> int:
        await line.send(HEAD % b"read" + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n")
        await line.send(b"x: y\r\n" * 10_000)
        await line.send(b"\r\n")
        assert await line.status() == 200
        return len(Kept.made[0].headers)

    assert talk(send_trailers) < 10


@pytest.mark.parametrize("trailer", [b"x: y\r\n", b"x: " + b"a" * 1_000], ids=["many", "one"])
def test_trailers_are_bounded(trailer: bytes) -> None:
    async def flood(line: Line) -> bytes:
        await line.send(HEAD % b"read" + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
        answer = asyncio.ensure_future(line.rest())
        try:
            for _ in range(2 * LARGEST_FRAME // len(trailer)):
                await line.send(trailer)
        except ConnectionError:
            pass
        return await answer

    assert b" 200 " not in talk(flood)


@pytest.mark.parametrize("path", [b"refuse", b"read"])
def test_a_body_in_small_chunks_is_read(path: bytes) -> None:
    async def send_chunks(line: Line) -> list[int]:
        found = []
        for _ in range(2):
            await line.send(HEAD % path + b"Transfer-Encoding: chunked\r\n\r\n" + b"8\r\nabcdefgh\r\n" * 20_000)
            await line.send(b"0\r\n\r\n")
            found.append(await line.status())
        return found

    assert talk(send_chunks) == [200 if path == b"read" else 401] * 2


def test_a_body_that_drips_after_the_answer_ends_the_connection() -> None:
    async def drip(line: Line) -> bytes:
        await line.send(HEAD % b"refuse" + b"Content-Length: 1000\r\n\r\n")
        assert await line.status() == 401
        ended = asyncio.ensure_future(line.rest())
        while not ended.done():
            try:
                await line.send(b"a")
            except ConnectionError:
                break
            await asyncio.sleep(0.02)
        return await ended

    assert talk(drip) == b""


def test_an_empty_line_keeps_no_connection() -> None:
    async def send_lines(line: Line) -> bytes:
        await line.send(b"GET /refuse HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await line.status() == 401
        await line.send(b"\r\n")
        return await line.rest()

    assert talk(send_lines) == b""


def test_a_body_that_comes_after_its_answer_leaves_the_connection_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 20)

    async def late(line: Line) -> list[int]:
        await line.send(HEAD % b"refuse" + b"Content-Length: 4\r\n\r\n")
        first = await line.status()
        await line.send(b"abcd" + HEAD % b"read" + b"Content-Length: 2\r\n\r\nab")
        return [first, await line.status()]

    assert talk(late) == [401, 200]


def test_requests_at_once_are_answered_in_their_order() -> None:
    async def pipeline(line: Line) -> list[int]:
        read, refuse = HEAD % b"read" + b"Content-Length: 2\r\n\r\nab", HEAD % b"refuse" + b"Content-Length: 0\r\n\r\n"
        await line.send((read + refuse) * 3)
        return [await line.status() for _ in range(6)]

    assert talk(pipeline) == [200, 401] * 3


def test_a_head_that_comes_slowly_is_refused() -> None:
    async def begin(line: Line) -> bytes:
        await line.send(b"GET /refuse HTTP/1.1\r\nHost")
        return await line.rest()

    assert talk(begin).startswith(b"HTTP/1.1 408 ")


# Clients that do not read


@pytest.mark.parametrize("path", [b"more", b"large"])
def test_an_answer_that_nobody_reads_ends_its_connection(path: bytes) -> None:
    async def ask(line: Line) -> bool:
        await line.send(b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        await line.reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(Kept.made[0].lost.wait(), PATIENCE)
        poll = select.poll()
        poll.register(line.writer.get_extra_info("socket"), select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))

    assert talk(ask), "the operating system holds nothing of it either"


def test_a_client_that_reads_slowly_gets_its_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes several times as long as a client that reads nothing may."""
    monkeypatch.setattr(module, "PATIENCE", PATIENCE)

    async def ask(line: Line) -> int:
        await line.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await line.reader.readuntil(b"\r\n\r\n")
        (answer,) = Kept.made
        read = 0
        for _ in range(5):
            unread = answer.transport.get_write_buffer_size()
            while answer.transport.get_write_buffer_size() == unread:
                read += len(await line.reader.readexactly(RECEIVE_BUFFER))
            loop = asyncio.get_running_loop()
            assert isinstance(loop, Clock)
            loop.ahead += 0.9 * PATIENCE
            await asyncio.sleep(0)
        await line.reader.readexactly(UNREAD["/large"] - read)
        return int(head.split()[1])

    assert talk(ask) == 200
