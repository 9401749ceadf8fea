"""Take the picture of a page, or print it as a PDF."""

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Error, Page, Request, Response

from apps.screenshots.browser import Browser, Viewport
from apps.screenshots.proxy import Proxy
from mulligan import Egress, FinalError, TargetRefused

# Chromium draws no higher pictures. A wider one than a window may be would take gigabytes.
HIGHEST, WIDEST = 16_384, 4_000
NOTHING = (204, 205)
REDIRECTS = (301, 302, 303, 307, 308)
REPORTED_WITHIN = timedelta(seconds=2)
TOO_MANY, BROKEN = 429, 500


class SiteFailed(Exception):
    """The site answered that it is out of order, or asked us to slow down. `headers` may have `Retry-After`."""

    def __init__(self, url: str, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(f"{host_of(url)} answered with the status {status}")
        self.status = status
        self.headers = {name.title(): value for name, value in headers.items()}


class Camera:
    """Opens pages in a browser, and captures them within a time."""

    def __init__(self, browser: Browser, egress: Egress, page_timeout: timedelta) -> None:
        self._browser, self._egress = browser, egress
        self._milliseconds = page_timeout.total_seconds() * 1_000

    async def take_picture(self, url: str, viewport: Viewport, *, full_page: bool) -> bytes:
        await self._look_up(url)
        async with self._browser.page(viewport) as (page, proxy):
            await self._visit(page, url, proxy)
            async with asyncio.timeout(self._milliseconds / 1_000):
                drawn = await (_draw_all(page, viewport) if full_page else page.screenshot(timeout=self._milliseconds))
            _raise_refusal(proxy)
            return drawn

    async def print_pdf(self, url: str, viewport: Viewport) -> bytes:
        await self._look_up(url)
        async with self._browser.page(viewport) as (page, proxy):
            await self._visit(page, url, proxy)
            async with asyncio.timeout(self._milliseconds / 1_000):
                printed = await page.pdf(format="A4", print_background=True)
            _raise_refusal(proxy)
            return printed

    async def _look_up(self, url: str) -> None:
        """What cannot be reached needs no browser to say so."""
        target = self._egress.check(without_fragment(url))
        await asyncio.to_thread(self._egress.look_up, target.host, target.port)

    async def _visit(self, page: Page, url: str, proxy: Proxy) -> None:
        visited: list[str] = [url]
        answers: list[Response] = []
        page.on("request", lambda request: visited.append(request.url) if _is_of_page(request) else None)
        page.on("response", lambda response: answers.append(response) if _is_of_page(response.request) else None)
        redirects = Redirects()
        await redirects.watch(page)
        try:
            await page.goto(url, wait_until="load", timeout=self._milliseconds)
        except Error as error:
            _raise_refusal(proxy)
            _check_status(answers)
            await redirects.check(url, error)
            failure = proxy.failures.get(host_of(visited[-1]))
            if failure is not None:
                raise failure from error
            raise
        _raise_refusal(proxy)
        _check_status(answers)


def _raise_refusal(proxy: Proxy) -> None:
    """A page that asks for what is not public is refused as a whole, whichever part of it asked."""
    if proxy.refused:
        raise proxy.refused[0]


def _is_of_page(request: Request) -> bool:
    """Of the page itself, not of a frame in it."""
    return request.is_navigation_request() and request.frame.parent_frame is None


class Redirects:
    """Notes redirects out of the web: to `file:`, `data:` and the like. Playwright tells nothing of those answers."""

    def __init__(self) -> None:
        self._found: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def watch(self, page: Page) -> None:
        session = await page.context.new_cdp_session(page)
        session.on("Network.responseReceivedExtraInfo", self._note)
        await session.send("Network.enable")

    async def check(self, url: str, error: Error) -> None:
        """Raises TargetRefused. Chromium may report the failure of the page a moment before its answer."""
        is_aborted = "net::ERR_ABORTED" in error.message or "net::ERR_UNSAFE_REDIRECT" in error.message
        with suppress(TimeoutError):
            async with asyncio.timeout(REPORTED_WITHIN.total_seconds() if is_aborted else 0):
                scheme = await asyncio.shield(self._found)
                raise TargetRefused(host_of(url), f"redirects to {scheme}:, which may not be opened") from error

    def _note(self, answer: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in answer["headers"].items()}
        scheme = urlsplit(headers.get("location", "")).scheme.lower()
        is_away = answer["statusCode"] in REDIRECTS and scheme not in ("", "http", "https")
        if is_away and not self._found.done():
            self._found.set_result(scheme)


def _check_status(answers: list[Response]) -> None:
    """Raises SiteFailed or FinalError. Other statuses, as 404, are what the page is like."""
    last = answers[-1] if answers else None
    if last is not None and last.status in NOTHING:
        raise FinalError(f"{host_of(last.url)} answered with the status {last.status}", code="NOT_A_PAGE")
    if last is not None and (last.status >= BROKEN or last.status == TOO_MANY):
        raise SiteFailed(last.url, last.status, last.headers)


async def _draw_all(page: Page, viewport: Viewport) -> bytes:
    """The whole page, from its top down to what can be drawn. The page itself is not asked how high it is."""
    session = await page.context.new_cdp_session(page)
    metrics = await session.send("Page.getLayoutMetrics")
    size = metrics["cssContentSize"]
    clip = {
        "x": 0,
        "y": 0,
        "width": min(max(size["width"], viewport.width), WIDEST),
        "height": min(max(size["height"], viewport.height), HIGHEST),
        "scale": 1,
    }
    drawn = await session.send("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})
    return b64decode(drawn["data"])


def host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def without_fragment(url: str) -> str:
    """The part after # stays in the browser."""
    return url.partition("#")[0]
