"""A server of an app in this process, with a person who is signed in."""

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

import httpx
import uvicorn

from live import SOON
from mulligan import App
from mulligan.records.key import CreatedKey, Scope
from mulligan.web.server import asgi


class Site:
    """`base` is its address. `admin` and `owner` are keys; `client` is signed in with one of them, without scripts."""

    def __init__(self, app: App, base: str) -> None:
        self.app, self.base = app, base
        self.admin = app.create_key(owner=None, name="on-call")
        self._clients: list[httpx.Client] = []

    def key(self, owner: str | None, *scopes: Scope) -> CreatedKey:
        return self.app.create_key(owner=owner, name=owner or "somewhere", scopes=scopes or None)

    def anonymous(self, *, follow_redirects: bool = True) -> httpx.Client:
        """Not signed in."""
        client = httpx.Client(base_url=self.base, follow_redirects=follow_redirects, timeout=SOON)
        self._clients.append(client)
        return client

    def client(self, key: CreatedKey | None = None) -> httpx.Client:
        """Signed in as a browser is, by the form."""
        client = self.anonymous()
        answer = client.post("/sign-in", data={"key": (key or self.admin).token, "next": "/help"})
        assert answer.status_code == 200, answer.text
        return client

    def post(self, client: httpx.Client, page: str, action: str, **fields: Any) -> httpx.Response:
        """Send a form as the page does that has it: with the hidden fields of that page."""
        shown = client.get(page)
        assert shown.status_code == 200, shown.text
        return client.post(action, data={**hidden_fields(shown.text), **fields})

    def close(self) -> None:
        for client in self._clients:
            client.close()


def hidden_fields(html: str) -> dict[str, str]:
    """The fields that every form of a page has."""
    found = {}
    for name in ("csrf", "request", "back"):
        if match := re.search(rf'name="{name}" value="([^"]*)"', html):
            found[name] = unescape(match[1])
    return found


@contextmanager
def serve(app: App, application: Callable[..., Any] | None = None) -> Iterator[Site]:
    """The pages and the API of an app on a free port. `application` is what is served instead, with them mounted."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application or asgi(app), log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    site = Site(app, f"http://127.0.0.1:{listener.getsockname()[1]}")
    try:
        yield site
    finally:
        site.close()
        server.should_exit = True
        thread.join()
        listener.close()
