"""A receiver of webhooks on loopback that answers as its path says and keeps what it got."""

import contextlib
import io
import socketserver
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PATIENCE = 20.0


@dataclass
class Received:
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class _Handler(socketserver.StreamRequestHandler):
    """`/503`, `/429/7` with Retry-After, or a way to fail: silent, drip, broken, large, long, garbage, secret."""

    server: "Receiver"
    timeout = PATIENCE

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            received = Received(self.rfile.readline().split()[1].decode())
            while line := self.rfile.readline().strip():
                name, _, value = line.decode().partition(":")
                received.headers[name.lower()] = value.strip()
            received.body = self.rfile.read(int(received.headers["content-length"]))
            self.server.received.append(received)
            way, _, argument = received.path.strip("/").partition("/")
            if way.isdecimal():
                self._say(way, f"Retry-After: {argument}\r\n" if argument else "", "the answer")
            else:
                getattr(self, f"_{way}")()

    def _say(self, status: str, headers: str, body: str) -> None:
        head = f"HTTP/1.1 {status} Said\r\n{headers}Content-Length: {len(body.encode())}\r\n\r\n"
        self.wfile.write((head + body).encode())

    def _silent(self) -> None:
        self.server.over.wait(PATIENCE)

    def _drip(self) -> None:
        """A byte now and then, for ever: each read alone would be in time."""
        while not self.server.over.wait(0.01):
            self.wfile.write(b"H" if not hasattr(self, "begun") else b"T")
            self.begun = True

    def _broken(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 Said\r\nContent-Length: 1000\r\n\r\nhalf")

    def _large(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 Said\r\n\r\n")
        for _ in range(10_000):
            self.wfile.write(b"x" * 10_000)

    def _long(self) -> None:
        """The head fills a client's buffer, so its body is a read of its own."""
        start, end = b"HTTP/1.1 200 Said\r\nConnection: close\r\nPadding: ", b"\r\n\r\n"
        padding = b"x" * (io.DEFAULT_BUFFER_SIZE - len(start) - len(end))
        self.wfile.write(start + padding + end + b"body")

    def _garbage(self) -> None:
        self.wfile.write(b"220 mail.example ESMTP\r\n")

    def _secret(self) -> None:
        self._say("500", "", "\x1b[31m password=hunter2hunter2\0 \r\nsecond line")


class Receiver(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._context = context
        self.received: list[Received] = []
        self.names: list[str | None] = []
        self.over = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str = "/200", host: str = "127.0.0.1") -> str:
        return f"{'https' if self._context else 'http'}://{host}:{self.port}{path}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self._context is None:
            super().finish_request(request, client_address)
            return
        self._context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        with contextlib.suppress(OSError), self._context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is expected."""


@contextlib.contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    with Receiver(context) as receiver:
        thread = threading.Thread(target=receiver.serve_forever, args=(0.01,))
        thread.start()
        yield receiver
        receiver.over.set()
        receiver.shutdown()
        thread.join()
