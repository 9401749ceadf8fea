"""Each rule for pages is asked about an error that really happened in Chromium."""

import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Error, Page, Playwright, sync_playwright

from chromium import launch
from mulligan.failure.classify import classify
from mulligan.failure.packs import PACKS, browser
from mulligan.failure.verdict import Failure

released = threading.Event()


class Site(BaseHTTPRequestHandler):
    """Answers each path in its own wrong way."""

    def do_GET(self) -> None:
        match self.path:
            case "/loop":
                self.answer(302, location="/loop")
            case "/file":
                self.answer(200, b"abc", **{"content-disposition": "attachment; filename=a.bin"})
            case "/nothing":
                self.answer(204)
            case "/error":
                self.answer(500)
            case "/escape":
                self.answer(302, location="file:///etc/passwd")
            case "/silent":
                released.wait()
            case "/reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            case "/page":
                self.answer(200, b"<h1>A page</h1>")
            case _:
                self.close_connection = True

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "text/html", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        released.set()
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    found = launch(playwright)
    yield found
    found.close()


def processes(browser: Browser, kind: str) -> list[int]:
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return [process["id"] for process in found if process["type"] == kind]


def judged(act: Callable[[], object]) -> tuple[str, str, str | None]:
    with pytest.raises(Error) as raised:
        act()
    verdict = classify(Failure.of(raised.value), kind="k", rules=PACKS)
    return verdict.code, str(verdict.error_class), verdict.rule


def visit(page: Page, url: str) -> Callable[[], object]:
    return lambda: page.goto(url, timeout=1_000 if url.endswith("/silent") else 20_000)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://{site}/silent", ("TIMEOUT", "retryable", "browser.timeout")),
        ("http://{site}/loop", ("HTTP_3XX", "final", "browser.redirects")),
        ("http://{site}/escape", ("URL_INVALID", "final", "browser.url")),
        ("http://127.0.0.1:22/", ("URL_INVALID", "final", "browser.url")),
        ("nonsense", ("URL_INVALID", "final", "browser.url")),
        ("http://{site}/file", ("NOT_A_PAGE", "final", "browser.download")),
        ("http://{site}/nothing", ("HTTP_BROKEN", "retryable", "browser.broken")),
        ("http://{site}/empty", ("HTTP_BROKEN", "retryable", "browser.broken")),
        ("http://{site}/error", ("HTTP_BROKEN", "retryable", "browser.broken")),
        ("http://{site}/reset", ("NETWORK", "retryable", "browser.network")),
        ("https://{site}/", ("NETWORK", "retryable", "browser.network")),
        ("http://nowhere.invalid/", ("NETWORK", "retryable", "browser.network")),
    ],
)
def test_a_page_that_does_not_load_is_judged_by_what_chromium_says(
    chromium: Browser, site: str, url: str, expected: tuple[str, str, str]
) -> None:
    page = chromium.new_context().new_page()
    assert judged(visit(page, url.format(site=site))) == expected
    page.context.close()


def test_a_refused_connection_is_retried(chromium: Browser) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        page = chromium.new_context().new_page()
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        assert judged(visit(page, url)) == ("NETWORK", "retryable", "browser.network")


def test_a_crashed_page_is_retried(chromium: Browser, site: str) -> None:
    before = processes(chromium, "renderer")
    page = chromium.new_context().new_page()
    page.goto(f"http://{site}/page")
    for process in set(processes(chromium, "renderer")) - set(before):
        os.kill(process, signal.SIGKILL)
    page.wait_for_event("crash")
    assert judged(visit(page, f"http://{site}/page")) == ("PROGRAM_CRASHED", "retryable", "browser.crashed")


def test_a_killed_browser_and_a_missing_one_are_retried(playwright: Playwright, site: str) -> None:
    browser_of_its_own = launch(playwright)
    page = browser_of_its_own.new_context().new_page()
    os.kill(processes(browser_of_its_own, "browser")[0], signal.SIGKILL)
    assert judged(visit(page, f"http://{site}/page")) == ("PROGRAM_CRASHED", "retryable", "browser.crashed")
    missing = judged(lambda: playwright.chromium.launch(executable_path="/nowhere/chromium"))
    assert missing == ("PROGRAM_MISSING", "retryable", "browser.missing")


@pytest.mark.parametrize("code", ["DATE_INVALID", "AUTHORITY_INVALID", "COMMON_NAME_INVALID"])
def test_an_invalid_certificate_is_final(code: str) -> None:
    failure = Failure.of(Error(f"Page.goto: net::ERR_CERT_{code} at https://example.org/"))
    assert classify(failure, kind="k", rules=browser.RULES).code == "CERTIFICATE_INVALID"
