"""Chromium, as all tests and pictures start it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    *(("--no-sandbox",) if os.geteuid() == 0 else ()),
)


def launch(playwright: Playwright) -> Browser:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed: sudo apt-get install chromium")
    return playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))


@contextmanager
def open_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = launch(playwright)
        yield found
        found.close()


def close_page(page: Page) -> None:
    """Close a page that may be on its way to another. Chromium forgets to close one that arrives there at that moment
    (crbug.com/536385539), and `Page.close` has no time limit."""
    page.goto("about:blank")
    page.close()
