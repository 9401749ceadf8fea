"""A TCP proxy on loopback that cuts connections: before the request is passed on, or instead of the reply."""

import socket
import threading
from contextlib import suppress


class CuttingProxy:
    """`cuts` are what happens to the next connections, in order: `"request"`, `"reply"` or `"pass"`; then all pass."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.cuts: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                cut = self.cuts.pop(0) if self.cuts else "pass"
                threading.Thread(target=self._serve, args=(near, cut), daemon=True).start()

    def _serve(self, near: socket.socket, cut: str) -> None:
        with near, suppress(OSError):
            if cut == "request":
                near.recv(65536)
                return
            with socket.create_connection(("127.0.0.1", self._port)) as far:
                threading.Thread(target=_copy, args=(near, far), daemon=True).start()
                if cut == "reply":
                    # The server has carried it out.
                    far.recv(65536)
                    near.shutdown(socket.SHUT_RDWR)
                else:
                    _copy(far, near)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
