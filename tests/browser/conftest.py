from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext
from postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server(fsync="off", full_page_writes="off") as found:
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1280, "height": 900})
    yield found
    found.close()
