"""One warm Chromium of a worker. Each page has a context of its own, and a proxy of its own."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
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


class Browser:
    """Started when the first page is opened, and again when it is gone. `find` says which program it is."""

    def __init__(self, find: Callable[[], str], egress: Egress) -> None:
        self._find, self._egress = find, egress
        self._lock = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None
        self.process: int | None = None
        self.starts = 0

    @asynccontextmanager
    async def page(self, viewport: Viewport) -> AsyncIterator[tuple[Page, Proxy]]:
        """A page that shares nothing with any other."""
        chromium = await self._started()
        async with Proxy(self._egress).listening() as proxy:
            context = await chromium.new_context(
                viewport={"width": viewport.width, "height": viewport.height},
                proxy={"server": proxy.address},
                service_workers="block",
                accept_downloads=False,
            )
            try:
                yield await context.new_page(), proxy
            finally:
                await self._close(context.close())

    async def _started(self) -> Chromium:
        async with self._lock:
            if self._chromium is None or not self._chromium.is_connected():
                self._chromium = await self._start()
            return self._chromium

    async def _start(self) -> Chromium:
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
        self.process = await _process_of(found)
        return found

    async def _close(self, closing: object) -> None:
        """A page that cannot be closed takes its browser with it: the next page gets a new one."""
        try:
            async with asyncio.timeout(CLOSE_WITHIN.total_seconds()):
                await closing  # type: ignore[misc]
        except TimeoutError:
            self.kill()
        except Error:
            # The browser is gone already.
            return

    def kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            self.process = None

    async def stop(self) -> None:
        if self._chromium is not None and self._chromium.is_connected():
            await self._close(self._chromium.close())
        if self._playwright is not None:
            await self._playwright.stop()


async def _process_of(chromium: Chromium) -> int:
    session = await chromium.new_browser_cdp_session()
    found = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return next(int(each["id"]) for each in found["processInfo"] if each["type"] == "browser")
