"""A service of limited capacity over HTTP on the loopback interface."""

import asyncio
import socket
import struct
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from time import monotonic

from mulligan.cli.demo.drill.figures import CallsByStep
from mulligan.cli.demo.drill.plan import EACH_SECONDS, SLOTS

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# Closing with this option sends a reset.
RESET = struct.pack("ii", 1, 0)


class DrillGateway:
    """A number of slots with a queue, in its own thread. It also works for callers that have stopped waiting."""

    def __init__(self, step: float) -> None:
        self.is_down = False
        self._step = step
        self._began = monotonic()
        self._slots = asyncio.Semaphore(SLOTS)
        self._known: set[str] = set()
        self._calls: Counter[int] = Counter()
        self._firsts: Counter[int] = Counter()
        self._good: Counter[int] = Counter()
        self._stopped = asyncio.Event()
        started: Future[tuple[int, asyncio.AbstractEventLoop]] = Future()
        self._thread = Thread(target=lambda: asyncio.run(self._serve(started)), name="gateway", daemon=True)
        self._thread.start()
        self.port, self._loop = started.result()

    def begin(self) -> None:
        """The first step begins now."""
        self._began = monotonic()

    @property
    def seen(self) -> CallsByStep:
        steps = range(self._now() + 1)
        return CallsByStep(
            calls=[self._calls[step] for step in steps],
            firsts=[self._firsts[step] for step in steps],
            good=[self._good[step] for step in steps],
        )

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _now(self) -> int:
        return int((monotonic() - self._began) / self._step)

    async def _serve(self, started: "Future[tuple[int, asyncio.AbstractEventLoop]]") -> None:
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0, backlog=1_000)
        started.set_result((server.sockets[0].getsockname()[1], asyncio.get_running_loop()))
        await self._stopped.wait()
        server.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The gateway may be stopped during a call.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            request = await reader.readuntil(b"\r\n\r\n")
            self._count(request.split(b" ")[1].decode("ascii", "replace"))
            if self.is_down:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            else:
                await self._work(reader, writer)
        writer.close()

    def _count(self, path: str) -> None:
        self._calls[self._now()] += 1
        self._firsts[self._now()] += path not in self._known
        self._known.add(path)

    async def _work(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = self._now()
        async with self._slots:
            await asyncio.sleep(EACH_SECONDS)
        if reader.at_eof():
            return
        writer.write(ANSWER)
        await writer.drain()
        self._good[asked] += 1
