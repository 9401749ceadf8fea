"""A service of limited capacity over real HTTP, in a process of its own: `python -m …drill.gateway STEP`.

It is told on its standard input to `begin`, to go `down` and to come `up`, and ends with it. On its standard output
it says its port, and then again and again what it saw in each step of time.
"""

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from contextlib import suppress

from mulligan.cli.demo.drill.plan import EACH_SECONDS, PLACES
from mulligan.values.clock import SystemClock

REPORT_SECONDS = 0.2
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# Closing with this set sends a reset instead of a farewell.
RESET = struct.pack("ii", 1, 0)


class DrillGateway:
    """Some places, and a queue before them. It does not notice who gave up waiting, and works for him all the same."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._is_down = False
        self._places = asyncio.Semaphore(PLACES)
        self._known: set[str] = set()
        self.calls: Counter[int] = Counter()
        self.firsts: Counter[int] = Counter()
        self.good: Counter[int] = Counter()

    def hear(self, word: str) -> None:
        match word:
            case "begin":
                self._began = self._clock.monotonic()
            case "down" | "up":
                self._is_down = word == "down"

    def report(self) -> dict[str, list[int]]:
        steps = range(self._now() + 1)
        named = {"calls": self.calls, "firsts": self.firsts, "good": self.good}
        return {name: [counts[step] for step in steps] for name, counts in named.items()}

    def _now(self) -> int:
        return int((self._clock.monotonic() - self._began) / self._step)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # It ends with calls in its places.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            request = await reader.readuntil(b"\r\n\r\n")
            self._count(request.split(b" ")[1].decode("ascii", "replace"))
            if self._is_down:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            else:
                await self._work(reader, writer)
        writer.close()

    def _count(self, path: str) -> None:
        self.calls[self._now()] += 1
        self.firsts[self._now()] += path not in self._known
        self._known.add(path)

    async def _work(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = self._now()
        async with self._places:
            await asyncio.sleep(EACH_SECONDS)
        if reader.at_eof():
            return
        writer.write(ANSWER)
        await writer.drain()
        self.good[asked] += 1


async def serve(step: float) -> None:
    gateway = DrillGateway(step)
    server = await asyncio.start_server(gateway.talk, "127.0.0.1", 0, backlog=1_000)
    echo({"port": server.sockets[0].getsockname()[1]})
    reporting = asyncio.create_task(tell(gateway))
    words = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(words), sys.stdin)
    while word := await words.readline():
        gateway.hear(word.decode().strip())
    reporting.cancel()


async def tell(gateway: DrillGateway) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        echo(gateway.report())


def echo(document: object) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        asyncio.run(serve(float(sys.argv[1])))
