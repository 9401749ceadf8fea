"""One warm Chromium of a worker. Each page has a context of its own, and a proxy of its own."""

import asyncio
import os
import signal
import sys
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
# A browser that takes longer to open a page or to close one does not do so at all.
OPEN_WITHIN = timedelta(seconds=20)
CLOSE_WITHIN = timedelta(seconds=10)
START_WITHIN = timedelta(seconds=60)
# A driver ends when its input does.
STOP_WITHIN = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Viewport:
    width: int = 1_280
    height: int = 800


class Process:
    """One that can be killed once. The number of a process that is gone may be another program's by now, so Linux is
    asked for a handle."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._handle = os.pidfd_open(number) if sys.platform == "linux" else None

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if self._handle is None:
                os.kill(self.number, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        if self._handle is not None:
            os.close(self._handle)


@dataclass(slots=True, eq=False)
class Running:
    """A Chromium with its driver and the number of its pages. One that could not open or close a page is worn out."""

    driver: Playwright
    chromium: Chromium
    process: Process
    pages: int = 0
    is_worn_out: bool = False
    is_over: bool = False

    @property
    def is_fit(self) -> bool:
        # Without its driver, a browser is still called connected.
        return self.chromium.is_connected() and not self.is_worn_out


class Browser:
    """Started when the first page is opened, and again when it is gone or worn out. `find` says which program it is."""

    def __init__(
        self,
        find: Callable[[], str],
        egress: Egress,
        *,
        open_within: timedelta = OPEN_WITHIN,
        close_within: timedelta = CLOSE_WITHIN,
    ) -> None:
        self._find, self._egress = find, egress
        self._open_within, self._close_within = open_within, close_within
        self._starting: asyncio.Task[Running] | None = None
        self._running: Running | None = None
        self._stops: set[asyncio.Task[None]] = set()
        self.starts = 0

    @property
    def process(self) -> int | None:
        """That of the browser in which the next page is opened."""
        return None if self._running is None else self._running.process.number

    @asynccontextmanager
    async def page(self, viewport: Viewport) -> AsyncIterator[tuple[Page, Proxy]]:
        """A page that shares nothing with any other. Raises TimeoutError if the browser does not open it in time."""
        async with self._borrowed() as running, Proxy(self._egress).listening() as proxy:
            page = await self._open(running, viewport, proxy)
            try:
                yield page, proxy
            finally:
                running.is_worn_out |= not await self._could_close(page.context.close())

    async def _open(self, running: Running, viewport: Viewport, proxy: Proxy) -> Page:
        """Whatever prevents it, a cancellation too, may leave half a page behind: the browser gets no other."""
        try:
            async with asyncio.timeout(self._open_within.total_seconds()):
                context = await running.chromium.new_context(
                    viewport={"width": viewport.width, "height": viewport.height},
                    proxy={"server": proxy.address},
                    service_workers="block",
                    accept_downloads=False,
                )
                return await context.new_page()
        except BaseException:
            running.is_worn_out = True
            raise

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
            self._end_unfit(running)

    async def _started(self) -> Running:
        """A start goes on if the page that asked for it is given up: the next one needs a browser too."""
        if self._running is not None:
            self._end_unfit(self._running)
        if self._running is not None and self._running.is_fit:
            return self._running
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> Running:
        program = self._find()
        async with asyncio.timeout(START_WITHIN.total_seconds()):
            driver = await async_playwright().start()
            try:
                chromium = await driver.chromium.launch(
                    executable_path=program,
                    args=list(ARGUMENTS),
                    # The worker handles signals: it waits for the jobs that run.
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
                self._running = Running(driver, chromium, Process(await _process_of(chromium)))
            except BaseException:
                self._stop_later(driver)
                raise
        self.starts += 1
        return self._running

    def _end_unfit(self, running: Running) -> None:
        """Once its last page is gone."""
        if not (running.pages or running.is_fit or running.is_over):
            self._end(running)

    def _end(self, running: Running) -> None:
        running.is_over = True
        running.process.kill()
        self._stop_later(running.driver)
        if self._running is running:
            self._running = None

    def _stop_later(self, driver: Playwright) -> None:
        """No page waits for it."""
        task = asyncio.create_task(self._stop_driver(driver))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def _stop_driver(self, driver: Playwright) -> None:
        with suppress(TimeoutError, Error, OSError):
            async with asyncio.timeout(STOP_WITHIN.total_seconds()):
                await driver.stop()

    async def _could_close(self, closing: Awaitable[None]) -> bool:
        try:
            async with asyncio.timeout(self._close_within.total_seconds()):
                await closing
        except (TimeoutError, Error):
            return False
        return True

    async def stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._running is not None:
            await self._could_close(self._running.chromium.close())
            self._end(self._running)
        await asyncio.gather(*self._stops)


async def _process_of(chromium: Chromium) -> int:
    session = await chromium.new_browser_cdp_session()
    found = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return next(int(each["id"]) for each in found["processInfo"] if each["type"] == "browser")
