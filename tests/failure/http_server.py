"""An HTTP server on loopback that fails as it is told by the path, and the client libraries that ask it."""

import asyncio
import contextlib
import socket
import socketserver
import ssl
import struct
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

import aiohttp
import httpx
import httpx2
import requests
import trustme

# Servers on loopback answer at once or never; on a busy machine "at once" may take a while.
PATIENCE = 20.0
SHORT = 0.2
TLS_HELLO = b"\x16"


class _Answer(socketserver.StreamRequestHandler):
    """`/503`, `/429?Retry-After: 7`, or a way to fail: reset, silent, half, stalled, garbage, loop, elsewhere."""

    server: "Server"
    timeout = PATIENCE

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            if self.connection.recv(1, socket.MSG_PEEK) == TLS_HELLO:
                self._plain()
                return
            method, target, _ = self.rfile.readline().decode().split()
            while self.rfile.readline().strip():
                pass
            if method == "CONNECT":
                self._say("403 Forbidden")
                return
            target = target.lstrip("/")
            way, _, header = urllib.parse.unquote(target).partition("?")
            self._say(f"{way} Said", header) if way.isdecimal() else getattr(self, f"_{way}")()

    def _say(self, status: str, *headers: str, body: str = "no") -> None:
        lines = [f"HTTP/1.1 {status}", "Connection: close", *(line for line in headers if line)]
        self._write("\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]))

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode())

    def _reset(self) -> None:
        # Lingering for zero seconds makes close send a reset.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _gone(self) -> None:
        """It closes without a word."""

    def _plain(self) -> None:
        """It speaks no TLS, and says so to a client that begins with it."""
        self._say("400 Bad Request")
        self.connection.shutdown(socket.SHUT_WR)
        # What is left unread when it closes would make that a reset.
        self.rfile.read()

    def _silent(self) -> None:
        self.server.over.wait(PATIENCE)

    def _half(self) -> None:
        self._write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")

    def _chunk(self) -> None:
        self._write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf")

    def _stalled(self) -> None:
        self._half()
        self.server.over.wait(PATIENCE)

    def _garbage(self) -> None:
        self._write("220 mail.example ESMTP\r\n\r\n")

    def _zipped(self) -> None:
        self._say("200 OK", "Content-Encoding: gzip", body="this is not zipped")

    def _loop(self) -> None:
        self._say("302 Found", "Location: /loop")

    def _elsewhere(self) -> None:
        self._say("302 Found", "Location: nowhere://at.all/")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self._context = context
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://localhost:{self.server_address[1]}"

    def finish_request(self, request: socket.socket, address: tuple[str, int]) -> None:  # type: ignore[override]
        # In the thread of this connection: a handshake that fails delays no other.
        if self._context is None:
            super().finish_request(request, address)
            return
        with contextlib.suppress(OSError), self._context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, address)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves is what we are here for."""


@contextlib.contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    with Server(context) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


def distrusted() -> ssl.SSLContext:
    """What a server needs for TLS, by an unknown authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    return context


def closed_port() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def with_httpx(url: str, timeout: float) -> object:
    # Reading all the authorities takes most of the time.
    with httpx.Client(timeout=timeout, follow_redirects=True, verify=url.startswith("https")) as client:
        return client.get(url).raise_for_status().text


def with_httpx2(url: str, timeout: float) -> object:
    with httpx2.Client(timeout=timeout, follow_redirects=True, verify=url.startswith("https")) as client:
        return client.get(url).raise_for_status().text


def with_httpx2_async(url: str, timeout: float) -> object:
    async def get() -> str:
        verify = url.startswith("https")
        async with httpx2.AsyncClient(timeout=timeout, follow_redirects=True, verify=verify) as client:
            return (await client.get(url)).raise_for_status().text

    return asyncio.run(get())


def with_requests(url: str, timeout: float) -> object:
    answer = requests.get(url, timeout=timeout)
    answer.raise_for_status()
    return answer.text


def with_aiohttp(url: str, timeout: float) -> object:
    async def get() -> str:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=timeout, sock_read=timeout)
        async with aiohttp.ClientSession(timeout=limits) as session, session.get(url) as answer:
            answer.raise_for_status()
            return await answer.text()

    return asyncio.run(get())


def with_urllib(url: str, timeout: float) -> object:
    # urlopen would remember the proxies of its first call.
    with urllib.request.build_opener().open(url, timeout=timeout) as answer:
        return answer.read()


CLIENTS: dict[str, Callable[[str, float], object]] = {
    "httpx": with_httpx,
    "httpx2": with_httpx2,
    "httpx2_async": with_httpx2_async,
    "requests": with_requests,
    "aiohttp": with_aiohttp,
    "urllib": with_urllib,
}
