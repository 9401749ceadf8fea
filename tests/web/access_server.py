"""A server in its own process: `access_server.py FILE_DESCRIPTOR DATABASE_URL RATE`."""

import os
import socket
import sys
import time
from functools import wraps
from typing import Any

import uvicorn

from mulligan import App
from mulligan.web.server import asgi


def slow_down(app: App) -> None:
    """Hold retries up, so that another can come meanwhile."""
    retry = app.retry

    @wraps(retry)
    def slowly(*args: Any, **given: Any) -> Any:
        time.sleep(1.0)
        return retry(*args, **given)

    app.retry = slowly  # type: ignore[method-assign]


def main() -> None:
    descriptor, url, rate = sys.argv[1:]
    os.environ |= {"MULLIGAN_REQUEST_RATE": rate, "MULLIGAN_FAILED_REQUEST_RATE": "10000/s"}
    app = App(url)
    slow_down(app)
    config = uvicorn.Config(asgi(app), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    main()
