"""A plain reader of server-sent events on a socket, so that the tests see every byte."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit


@dataclass
class Message:
    event: str = ""
    id: str | None = None
    data: Any = None
    comment: str | None = None


@dataclass
class Reader:
    """Connects at once. `after` is sent as Last-Event-ID; `last_id` is the last that came."""

    base: str
    path: str = "/api/v1/events/stream"
    key: str = "admin"
    after: str | None = None
    buffer: int | None = None
    seen: bytearray = field(default_factory=bytearray)
    last_id: str | None = None

    def __post_init__(self) -> None:
        place = urlsplit(self.base)
        header = f"Last-Event-ID: {self.after}\r\n" if self.after is not None else ""
        request = f"GET {place.path}{self.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n{header}\r\n"
        self.socket = socket.socket()
        with self.closed_on_error():
            if self.buffer:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.buffer)
            self.socket.connect((place.hostname, place.port))
            self.socket.sendall(request.encode())
        self._raw = b""
        self._body = b""
        self.status = 0

    @property
    def position(self) -> str | None:
        """Where a client that connects again goes on."""
        return self.last_id or self.after

    def _receive(self, end: float) -> None:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.socket.settimeout(left)
        part = self.socket.recv(65536)
        if not part:
            raise EOFError
        self._raw += part
        self.seen += part

    def open(self, timeout: float = 10) -> int:
        """Read the head of the answer. Return its status."""
        end = time.monotonic() + timeout
        while b"\r\n\r\n" not in self._raw:
            self._receive(end)
        head, _, self._raw = self._raw.partition(b"\r\n\r\n")
        self.head = head.decode()
        self.status = int(head.split()[1])
        return self.status

    def read(self, timeout: float = 10) -> Message:
        """The next message; a heartbeat is one with a comment, a bare position one with an id only."""
        if not self.status:
            self.open(timeout)
        end = time.monotonic() + timeout
        while b"\n\n" not in self._body:
            while not self._dechunk():
                self._receive(end)
        text, _, self._body = self._body.partition(b"\n\n")
        return self._parse(text.decode())

    def _dechunk(self) -> bool:
        size, line, rest = self._raw.partition(b"\r\n")
        if not line:
            return False
        length = int(size, 16)
        if len(rest) < length + 2:
            return False
        if length == 0:
            raise EOFError
        self._body += rest[:length]
        self._raw = rest[length + 2 :]
        return True

    def _parse(self, text: str) -> Message:
        found = Message()
        for line in text.split("\n"):
            name, _, value = line.partition(": ")
            match name:
                case "event":
                    found.event = value
                case "id":
                    found.id = self.last_id = value
                case "data":
                    found.data = json.loads(value)
                case "":
                    found.comment = value
        return found

    def events(self, number: int, timeout: float = 10) -> list[Message]:
        """So many messages with data."""
        found: list[Message] = []
        end = time.monotonic() + timeout
        while len(found) < number:
            message = self.read(end - time.monotonic())
            if message.event:
                found.append(message)
        return found

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """A socket that is left open would fail a test that runs later."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
