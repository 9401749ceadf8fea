"""Requests to the API of an app with keys in its store: in this process, or to servers in their own processes."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx

from mulligan import App
from mulligan.records.key import Scope
from mulligan.records.rate import parse_rate
from mulligan.web.access.access import KeyAccess
from mulligan.web.server import asgi

T = TypeVar("T")

PREFIX = "/api/v1"
GENEROUS = "10000/s"


class Web:
    """The API inside this process. The rates become settings of the app."""

    def __init__(self, app: App, *, requests: str = GENEROUS, failures: str = GENEROUS) -> None:
        rates = {"request_rate": parse_rate(requests), "failed_request_rate": parse_rate(failures)}
        app.settings = replace(app.settings, **rates)
        self.app = app
        self.access = KeyAccess(app)
        self.application = asgi(app, self.access)

    def key(self, owner: str | None = None, *scopes: Scope, **terms: Any) -> str:
        """The token of a new key; without scopes, with all that the owner can have."""
        given = scopes or (Scope if owner is None else set(Scope) - {Scope.OPERATE})
        return self.app.create_key(owner=owner, name="test", scopes=list(given), **terms).token

    def run(self, work: Callable[[httpx.AsyncClient], Awaitable[T]], address: str = "192.0.2.1") -> T:
        async def run() -> T:
            transport = httpx.ASGITransport(self.application, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await work(client)

        return asyncio.run(run())

    def request(self, method: str, path: str, key: str | None = None, **given: Any) -> httpx.Response:
        address = given.pop("address", "192.0.2.1")
        headers = given.pop("headers", {}) | ({} if key is None else bearer(key))
        return self.run(lambda client: client.request(method, PREFIX + path, headers=headers, **given), address)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def servers(number: int, url: str, *, rate: str = "10000/s") -> Iterator[list[str]]:
    """The addresses of servers in processes of their own, on one database."""
    running, addresses = [], []
    try:
        for _ in range(number):
            with socket.create_server(("127.0.0.1", 0)) as listening:
                addresses.append(f"http://127.0.0.1:{listening.getsockname()[1]}{PREFIX}")
                command = [sys.executable, str(Path(__file__).with_name("access_server.py"))]
                arguments = [str(listening.fileno()), url, rate]
                running.append(subprocess.Popen([*command, *arguments], pass_fds=[listening.fileno()], env=os.environ))
        yield addresses
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(20)
