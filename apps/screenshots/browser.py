"""One warm Chromium of a worker. Each page has a context of its own, and a proxy of its own."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from playwright.async_api import Browser as Chromium
from playwright.async_api import Error, Page, Playwright, async_playwright

from apps.screenshots.proxy import Proxy
from mulligan import Egress

ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Not a single name is resolved here, and no packet of WebRTC passes the proxy by.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    *(("--no-sandbox",) if os.geteuid() == 0 else ()),
)
# A browser that takes longer to close a page does not do so at all.
CLOSE_WITHIN = timedelta(seconds=10)
START_WITHIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Viewport:
    width: int = 1_280
    height: int = 800


@dataclass(slots=True, eq=False)
class Running:
    """A Chromium with the number of its pages. One that could not close a page is worn out."""

    chromium: Chromium
    process: int
    pages: int = 0
    is_worn_out: bool = False

    def kill(self) -> None:
        # The number of one that is gone may be another program's by now.
        if self.chromium.is_connected():
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)


class Browser:
    """Started when the first page is opened, and again when it is gone or worn out. `find` says which program it is."""

    def __init__(self, find: Callable[[], str], egress: Egress, *, close_within: timedelta = CLOSE_WITHIN) -> None:
        self._find, self._egress, self._close_within = find, egress, close_within
        self._lock = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._running: Running | None = None
        self.starts = 0

    @property
    def process(self) -> int | None:
        """That of the browser in which the next page is opened."""
        return None if self._running is None else self._running.process

    @asynccontextmanager
    async def page(self, viewport: Viewport) -> AsyncIterator[tuple[Page, Proxy]]:
        """A page that shares nothing with any other."""
        async with self._borrowed() as running, Proxy(self._egress).listening() as proxy:
            context = await running.chromium.new_context(
                viewport={"width": viewport.width, "height": viewport.height},
                proxy={"server": proxy.address},
                service_workers="block",
                accept_downloads=False,
            )
            try:
                yield await context.new_page(), proxy
            finally:
                running.is_worn_out |= not await self._could_close(context.close())

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[Running]:
        """A worn-out browser is killed with its last page: others may be at work in it, and the next page gets a new
        one."""
        running = await self._started()
        running.pages += 1
        try:
            yield running
        finally:
            running.pages -= 1
            if running.is_worn_out and not running.pages:
                running.kill()

    async def _started(self) -> Running:
        async with self._lock:
            running = self._running
            if running is None or running.is_worn_out or not running.chromium.is_connected():
                running = self._running = await self._start()
            return running

    async def _start(self) -> Running:
        program = self._find()
        if self._playwright is None:
            self._playwright = await async_playwright().start()
        found = await self._playwright.chromium.launch(
            executable_path=program,
            args=list(ARGUMENTS),
            # The worker handles signals: it waits for the jobs that run.
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=START_WITHIN.total_seconds() * 1_000,
        )
        self.starts += 1
        return Running(found, await _process_of(found))

    async def _could_close(self, closing: Awaitable[None]) -> bool:
        try:
            async with asyncio.timeout(self._close_within.total_seconds()):
                await closing
        except TimeoutError:
            return False
        except Error:
            # The browser is gone already.
            return True
        return True

    async def stop(self) -> None:
        if self._running is not None and not await self._could_close(self._running.chromium.close()):
            self._running.kill()
        if self._playwright is not None:
            await self._playwright.stop()


async def _process_of(chromium: Chromium) -> int:
    session = await chromium.new_browser_cdp_session()
    found = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return next(int(each["id"]) for each in found["processInfo"] if each["type"] == "browser")
