"""A receiver that stores each webhook and then, twice for each id, drops the connection without an answer."""

import contextlib
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator


class _Handler(socketserver.StreamRequestHandler):
    server: "DroppingReceiver"
    timeout = 20.0

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self.rfile.readline()
            headers: dict[str, str] = {}
            while line := self.rfile.readline().strip():
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            body = self.rfile.read(int(headers["content-length"]))
            if self.server.take(headers["webhook-id"], body):
                self.wfile.write(b"HTTP/1.1 204 Taken\r\nContent-Length: 0\r\n\r\n")


class DroppingReceiver(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, drops: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._drops, self._lock = drops, threading.Lock()
        self.bodies: dict[str, set[bytes]] = {}
        self.times: Counter[str] = Counter()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def take(self, message_id: str, body: bytes) -> bool:
        """Store it; whether it is answered."""
        with self._lock:
            self.bodies.setdefault(message_id, set()).add(body)
            self.times[message_id] += 1
            return self.times[message_id] > self._drops


@contextlib.contextmanager
def dropping(drops: int) -> Iterator[DroppingReceiver]:
    with DroppingReceiver(drops) as receiver:
        thread = threading.Thread(target=receiver.serve_forever, args=(0.01,))
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()
