"""`python -m bench.load`: clients of an HTTP server in one process. Each sends a request once the last is answered.

It reads a `Load` from standard input and writes what was answered. It is a plain loop over sockets, so that it takes
far less CPU time than the server that it measures.
"""

import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import count

from bench.statistics import percentile

PATIENCE = 20
END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"content-length: "


class BadAnswer(Exception):
    """The server did not do what was asked."""


@dataclass(frozen=True)
class Load:
    port: int
    path: str
    tokens: Sequence[str]
    """One for each client."""
    seconds: float
    wanted: int = 201
    """The status of every answer."""
    has_keys: bool = True
    """Whether each request has an Idempotency-Key."""

    def run(self) -> "Answers":
        """In a process of its own."""
        command = [sys.executable, "-m", "bench.load"]
        ended = subprocess.run(command, input=json.dumps(asdict(self)), capture_output=True, text=True, check=False)
        if ended.returncode:
            raise BadAnswer(ended.stderr.strip().splitlines()[-1])
        return Answers(**json.loads(ended.stdout))


@dataclass(frozen=True)
class Answers:
    count: int
    seconds: float
    p50: float
    """Milliseconds."""
    p99: float
    cpu: float
    """Seconds that the clients used."""


@dataclass
class Client:
    """One connection, with one request under way."""

    load: Load
    token: str
    numbers: "count[int]"
    latencies: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.load.port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._began = 0.0

    def send(self) -> None:
        number = next(self.numbers)
        body = b'{"kind":"succeed","arguments":{"number":%d}}' % number
        named = f"Idempotency-Key: {_key(number)}\r\n" if self.load.has_keys else ""
        head = (
            f"POST {self.load.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\n{named}Content-Length: {len(body)}\r\n\r\n"
        )
        self._began = time.monotonic()
        self.socket.sendall(head.encode() + body)

    def receive(self) -> bool:
        """Take what has come. Return whether the answer is complete."""
        data = self.socket.recv(65_536)
        if not data:
            raise BadAnswer(f"the connection was closed after {self._received[:200]!r}")
        self._received += data
        head, found, body = self._received.partition(END_OF_HEAD)
        if not found or len(body) < int(head.lower().partition(LENGTH)[2].partition(b"\r\n")[0]):
            return False
        if int(head[9:12]) != self.load.wanted:
            raise BadAnswer(self._received[-300:].decode())
        self.latencies.append(time.monotonic() - self._began)
        self._received = b""
        return True


def _key(number: int) -> str:
    """A UUIDv7, as a client would make one."""
    stamp = f"{time.time_ns() // 1_000_000:012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7000-8000-{number:012x}"


def run(load: Load) -> Answers:
    numbers = count()
    clients = {client.socket.fileno(): client for client in (Client(load, token, numbers) for token in load.tokens)}
    poll = select.epoll()
    for number in clients:
        poll.register(number, select.EPOLLIN)
    start, used = time.monotonic(), time.process_time()
    for client in clients.values():
        client.send()
    waiting = len(clients)
    while waiting:
        ready = poll.poll(PATIENCE)
        if not ready:
            raise BadAnswer(f"nothing was answered for {PATIENCE} s")
        for number, _ in ready:
            if clients[number].receive():
                if time.monotonic() - start < load.seconds:
                    clients[number].send()
                else:
                    waiting -= 1
    seconds, used = time.monotonic() - start, time.process_time() - used
    latencies = [latency * 1_000 for client in clients.values() for latency in client.latencies]
    return Answers(len(latencies), seconds, percentile(latencies, 50), percentile(latencies, 99), used)


if __name__ == "__main__":
    print(json.dumps(asdict(run(Load(**json.load(sys.stdin))))))
