"""A service of limited capacity over HTTP, in its own process: `python -m …drill.gateway STEP`.

It reads the commands `begin`, `down` and `up` from its standard input, and ends when that is closed. On its standard
output it writes its port, and then repeatedly the counts of each step.
"""

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from contextlib import suppress

from mulligan.cli.demo.drill.plan import EACH_SECONDS, SLOTS
from mulligan.values.clock import SystemClock

REPORT_SECONDS = 0.2
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# Closing with this option sends a reset.
RESET = struct.pack("ii", 1, 0)


class DrillGateway:
    """A number of slots with a queue. It also works for callers that have stopped waiting."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._is_down = False
        self._slots = asyncio.Semaphore(SLOTS)
        self._known: set[str] = set()
        self.calls: Counter[int] = Counter()
        self.firsts: Counter[int] = Counter()
        self.good: Counter[int] = Counter()

    def command(self, word: str) -> None:
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

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The process may end during a call.
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
        async with self._slots:
            await asyncio.sleep(EACH_SECONDS)
        if reader.at_eof():
            return
        writer.write(ANSWER)
        await writer.drain()
        self.good[asked] += 1


async def serve(step: float) -> None:
    gateway = DrillGateway(step)
    server = await asyncio.start_server(gateway.handle, "127.0.0.1", 0, backlog=1_000)
    write_line({"port": server.sockets[0].getsockname()[1]})
    reporting = asyncio.create_task(report(gateway))
    words = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(words), sys.stdin)
    while word := await words.readline():
        gateway.command(word.decode().strip())
    reporting.cancel()


async def report(gateway: DrillGateway) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        write_line(gateway.report())


def write_line(document: object) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        asyncio.run(serve(float(sys.argv[1])))
