import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from postgres_server import PostgresServer, postgres_server
from visit import ARGUMENTS


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one module: while it is there, an event loop runs in this thread, and tests of other modules run theirs."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed: sudo apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield found
        found.close()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server(fsync="off", full_page_writes="off") as found:
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1280, "height": 900})
    yield found
    found.close()
