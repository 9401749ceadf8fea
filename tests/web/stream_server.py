"""A real uvicorn on loopback for the tests: in a process of its own, with one key per owner."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from starlette.requests import Request

from mulligan import App
from mulligan.records.key import Scope
from mulligan.values.clock import SystemClock
from mulligan.web.access.caller import Caller
from mulligan.web.access.idempotency import Repeatable
from mulligan.web.problems import Problem

START_SECONDS = 30


class PlainAccess:
    """A key is the name of its owner; `admin` is an administrator's, and `blind` lacks the scope `args:reveal`."""

    async def identify(self, request: Request) -> Caller:
        _, _, key = request.headers.get("authorization", "").partition("Bearer ")
        if not key:
            raise Problem(401, "UNAUTHORIZED", "a key is needed")
        scopes = frozenset(Scope) - ({Scope.ARGS_REVEAL} if key == "blind" else set())
        return Caller(key, None if key == "admin" else key, f"key {key}", scopes)

    def __init__(self) -> None:
        self._first: dict[str, datetime] = {}

    @asynccontextmanager
    async def admit(
        self, caller: Caller, _route: Any, request: Request, *, reveals: bool = False
    ) -> AsyncIterator[Repeatable | None]:
        if reveals and Scope.ARGS_REVEAL not in caller.scopes:
            raise Problem(403, "FORBIDDEN", f"this key has no scope {Scope.ARGS_REVEAL}")
        key = request.headers.get("idempotency-key")
        yield None if key is None else Repeatable(key, self._first.setdefault(key, SystemClock().now()))


def make_app(url: str) -> App:
    app = App(url)

    @app.task(public=True)
    def greet(name: str) -> str:
        return f"Hello, {name}"

    @app.task(public=True)
    def report(batch: str) -> str:
        return f"batch {batch} is over"

    return app


def serve() -> Any:
    """The application that uvicorn loads by name: `MULLIGAN_TEST_MOUNT` mounts it in another one."""
    from mulligan.web.server import asgi

    application = asgi(make_app(os.environ["MULLIGAN_TEST_URL"]), PlainAccess())
    if mount := os.environ.get("MULLIGAN_TEST_MOUNT"):
        from fastapi import FastAPI

        outer = FastAPI()
        outer.mount(mount, application)
        return outer
    return application


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


class WebServer:
    """Can be killed and started again on the same port."""

    def __init__(self, url: str, *, mount: str = "", port: int | None = None) -> None:
        self.port = port or free_port()
        self.base = f"http://127.0.0.1:{self.port}{mount}"
        here = Path(__file__).parent
        self._environment = {
            **os.environ,
            "MULLIGAN_TEST_URL": url,
            "MULLIGAN_TEST_MOUNT": mount,
            "PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1] / "src")]),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "WebServer":
        command = [sys.executable, "-m", "uvicorn", "--factory", "stream_server:serve", "--port", str(self.port)]
        command += ["--http", "httptools", "--log-level", "warning"]
        self.process = subprocess.Popen(command, env=self._environment)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            assert self.process.poll() is None, "the server ended"
            time.sleep(0.02)
        raise AssertionError("the server does not listen")

    def send_signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM, *, timeout: float = 10) -> None:
        assert self.process is not None
        self.send_signal(number)
        self.process.wait(timeout)

    @property
    def memory(self) -> int:
        """Bytes that are its own."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return sum(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(("Private_Dirty", "Swap:"))
        )


@contextmanager
def web_server(url: str, **options: Any) -> Iterator[WebServer]:
    server = WebServer(url, **options)
    try:
        yield server.start()
    finally:
        if server.process is not None and server.process.poll() is None:
            server.process.kill()
            server.process.wait()
