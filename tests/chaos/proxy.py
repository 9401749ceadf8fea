"""A TCP proxy before PostgreSQL that cuts a connection around a commit: the reply is lost, or the request is. It also
falls silent: all connections stay open, and nothing is forwarded.

It reads just enough of the protocol to know when a transaction that writes ends.
"""

import asyncio
import contextlib
import re
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator

CHUNK = 65_536
WRITES = re.compile(rb"\b(COMMIT|INSERT|UPDATE|DELETE)\b")
IDLE = b"I"


class Frames:
    """Bytes in, whole messages out. The very first message of a client has no type."""

    def __init__(self, *, has_startup: bool) -> None:
        self._rest = b""
        self._has_startup = has_startup

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._rest += data
        begin, rest = 0, self._rest
        while True:
            head = begin if self._has_startup else begin + 1
            if len(rest) < head + 4:
                break
            (length,) = struct.unpack_from("!I", rest, head)
            if len(rest) < head + length:
                break
            self._has_startup = False
            yield rest[begin:head], rest[head + 4 : head + length]
            begin = head + length
        self._rest = rest[begin:]


class Session:
    """What one connection is about to write."""

    def __init__(self, writes: re.Pattern[bytes]) -> None:
        self._writes = writes
        self._from_client = Frames(has_startup=True)
        self._from_server = Frames(has_startup=False)
        self._writing: set[bytes] = set()
        self._is_writing = False

    def asks(self, data: bytes) -> bool:
        """Whether with these bytes the client asks for a commit, or for a statement that is one by itself."""
        is_asking = False
        for kind, body in self._from_client.feed(data):
            if kind == b"Q":
                is_asking |= bool(self._writes.search(body))
            elif kind == b"P":
                name, _, rest = body.partition(b"\0")
                (self._writing.add if self._writes.search(rest) else self._writing.discard)(name)
            elif kind == b"B":
                is_asking |= body.split(b"\0", 2)[1] in self._writing
        self._is_writing |= is_asking
        return is_asking

    def answers(self, data: bytes) -> bool:
        """Whether with these bytes the server says that a transaction which wrote has been committed."""
        for kind, body in self._from_server.feed(data):
            if kind == b"Z" and body == IDLE:
                was_writing, self._is_writing = self._is_writing, False
                if was_writing:
                    return True
        return False


class Proxy:
    """On a port of its own. `cut` arms it; then the next commits of any client are cut, or other statements if `writes`
    matches them."""

    def __init__(self, port: int, *, writes: re.Pattern[bytes] = WRITES) -> None:
        self._writes = writes
        self._target = port
        self._replies = self._requests = 0
        self.cuts: Counter[str] = Counter()
        self._asks, self._answers = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.speak()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = server.result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self, *, replies: int = 0, requests: int = 0) -> None:
        self._replies += replies
        self._requests += requests

    def silence(self, *, requests: bool = True) -> None:
        """From now on no reply is forwarded, and no request."""
        self._call(self._answers.clear)
        if requests:
            self._call(self._asks.clear)

    def speak(self) -> None:
        """Forward what was held back, to clients that are still connected."""
        self._call(self._asks.set)
        self._call(self._answers.set)

    def _call(self, change: Callable[[], object]) -> None:
        async def call() -> None:
            change()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.CancelledError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
            with contextlib.closing(server_writer):
                session = Session(self._writes)
                ways = [
                    asyncio.create_task(self._requests_of(session, reader, server_writer)),
                    asyncio.create_task(self._replies_to(session, server_reader, writer)),
                ]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)

    async def _requests_of(self, session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            if session.asks(data) and self._requests > 0:
                self._requests -= 1
                self.cuts["request"] += 1
                return
            await self._asks.wait()
            writer.write(data)
            await writer.drain()

    async def _replies_to(self, session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            if session.answers(data) and self._replies > 0:
                self._replies -= 1
                self.cuts["reply"] += 1
                return
            await self._answers.wait()
            writer.write(data)
            await writer.drain()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
