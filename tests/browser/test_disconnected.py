"""What a page shows while the server cannot be reached, and when it can be again."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect
from site_server import Site, serve
from starlette.types import Receive, Scope, Send
from visit import Visit

from live import SOON
from mulligan import App
from mulligan.web.server import asgi


class Wire:
    """The way to a server. While it is cut, open streams end and requests fail."""

    def __init__(self, app: App) -> None:
        self._application = asgi(app)
        self._streams: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = {}
        self._is_cut = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._application(scope, receive, send)
            return
        if self._is_cut:
            raise ConnectionError
        self._streams[task] = asyncio.get_running_loop()
        try:
            await self._application(scope, receive, send)
        finally:
            del self._streams[task]

    def cut(self) -> None:
        self._is_cut = True
        for task, loop in list(self._streams.items()):
            loop.call_soon_threadsafe(task.cancel)

    def mend(self) -> None:
        self._is_cut = False


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as found:
        found.task(name="count")(lambda: None)
        found.migrate()
        yield found


@pytest.fixture
def wire(app: App) -> Wire:
    return Wire(app)


@pytest.fixture
def site(app: App, wire: Wire) -> Iterator[Site]:
    with serve(app, wire) as found:
        yield found


def test_a_page_says_that_it_is_out_of_date_and_catches_up(
    app: App, wire: Wire, site: Site, context: BrowserContext
) -> None:
    page = Visit(context, site, site.admin.token).open("/jobs")
    soon = SOON * 1000
    note = page.locator("#cut-off")
    expect(note).to_be_hidden()
    wire.cut()
    expect(note).to_be_visible(timeout=soon)
    expect(note).to_contain_text("No connection to the server since ")
    expect(page.locator("#cut-off-at")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(page.locator("html")).to_have_class(re.compile("is-stale"))
    job = app.tasks["count"].enqueue()
    wire.mend()
    expect(note).to_be_hidden(timeout=soon)
    expect(page.locator(f"#j-{job.id}")).to_be_visible(timeout=soon)
    expect(page.locator("html")).not_to_have_class(re.compile("is-stale"))
