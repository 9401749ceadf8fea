"""A gateway that converts documents over HTTP on the loopback interface, with planned faults."""

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Self

from mulligan.cli.demo.faults import Phase

USUAL_SECONDS = 0.3
# Longer than the timeout of the clients.
SLOW_SECONDS = 2.5
CALLS_PER_SECOND = 3
RETRY_AFTER = "1"

Answer = tuple[HTTPStatus, dict[str, str], dict[str, str]]


def is_intact(document: str) -> bool:
    return not document.startswith("damaged")


# Not an HTTPServer, which looks up its own name in the DNS at its start.
class Gateway(ThreadingTCPServer):
    """Serves inside a `with` block. `reads` decides which documents it can convert."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 100

    def __init__(self, phase: Callable[[], Phase], *, reads: Callable[[str], bool] = is_intact) -> None:
        super().__init__(("127.0.0.1", 0), CallHandler)
        self._phase = phase
        self._reads = reads
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._served: deque[float] = deque(maxlen=CALLS_PER_SECOND)
        self._addresses: dict[str, str] = {}
        self.calls = 0
        self.converted = 0
        self.repeated = 0
        """Calls for documents that an earlier attempt had converted before it timed out or died."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which tasks find it. A proxy cannot reach the loopback interface."""
        host, port = self.server_address[:2]
        return {"GATEWAY_URL": f"http://{host!s}:{port}", "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}

    def start(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), name="gateway", daemon=True).start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self.shutdown()
        self.server_close()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        with self._lock:
            self.calls += 1
        if self._phase() is not Phase.DOWN:
            return True
        # Closing with this option sends a reset.
        request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.close()
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that closed the connection."""

    def answer(self, wanted: Mapping[str, str], key: str) -> Answer:
        fault = self._fault()
        if fault is not None:
            return fault
        self._closed.wait(USUAL_SECONDS)
        document = wanted.get("document", "")
        if not self._reads(document):
            return HTTPStatus.UNPROCESSABLE_ENTITY, {}, {"error": f"{document} is not a document"}
        return HTTPStatus.OK, {}, {"address": self._convert(document, key)}

    def _fault(self) -> Answer | None:
        """The planned fault for this call, if any."""
        match self._phase():
            case Phase.HICCUPS if self.calls % 3 == 0:
                return HTTPStatus.SERVICE_UNAVAILABLE, {}, {"error": "hiccup"}
            case Phase.SLOW if self.calls % 3 != 0:
                self._closed.wait(SLOW_SECONDS)
            case Phase.CROWDED if not self._has_room():
                return HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": RETRY_AFTER}, {"error": "too many calls"}
        return None

    def _has_room(self) -> bool:
        now = time.monotonic()
        with self._lock:
            if len(self._served) == CALLS_PER_SECOND and now - self._served[0] < 1:
                return False
            self._served.append(now)
            return True

    def _convert(self, document: str, key: str) -> str:
        """Convert once for each key: a repeated call gets the same address."""
        with self._lock:
            if key in self._addresses:
                self.repeated += 1
            else:
                self.converted += 1
                self._addresses[key] = f"/results/{self.converted}/{document}.xml"
            return self._addresses[key]


class CallHandler(BaseHTTPRequestHandler):
    """One HTTP call."""

    server: Gateway

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, document = self.server.answer(json.loads(body), self.headers.get("Idempotency-Key", ""))
        encoded = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(encoded))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing, because the view uses the terminal."""
