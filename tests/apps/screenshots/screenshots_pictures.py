"""Takes the picture of the application's page for its README.

PYTHONPATH=.:src:tests:tests/browser python tests/apps/screenshots/screenshots_pictures.py [FOLDER]
"""

import sys
import tempfile
import threading
from datetime import timedelta
from pathlib import Path

from apps.screenshots.options import find_chromium
from playwright.sync_api import Browser, sync_playwright
from screenshots_make import make_screenshots
from screenshots_sites import Sites, serving_sites
from screenshots_world import World, serving
from visit import ARGUMENTS

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
PASSWORD = "correct horse battery"


def sign_up(page: object, base: str, email: str = "ann@example.org", name: str = "Ann") -> None:
    page.goto(f"{base}/sign-up")  # type: ignore[attr-defined]
    for field, value in (("name", name), ("email", email), ("password", PASSWORD)):
        page.fill(f"input[name={field}]", value)  # type: ignore[attr-defined]
    with page.expect_navigation():  # type: ignore[attr-defined]
        page.click("button:has-text('Make an account')")  # type: ignore[attr-defined]


def prepare(world: World, sites: Sites, owner: str) -> None:
    """Captures in every state."""
    from apps.screenshots.access import Caller
    from apps.screenshots.captures import Captures, Order

    captures, caller = Captures(world.all), Caller(owner, "ann@example.org")
    for path, fields in [
        ("http://private.test/report", {}),
        (sites.url("/tall", "docs.test"), {"full_page": True}),
        (sites.url("/page", "shop.test"), {"format": "PDF"}),
        (sites.url("/recovers?name=p&after=9&how=503", "news.test"), {}),
        ("http://www.nowhere.test/start", {}),
        (sites.url("/page", "blog.test"), {}),
    ]:
        captures.submit(caller, Order(url=path, **fields))  # type: ignore[arg-type]
    # The loop of the browser runs in this thread.
    working = threading.Thread(target=lambda: world.app.run_until_idle(timeout="60s"))
    working.start()
    working.join()
    world.app.pause(kind="pdf_generation")
    captures.submit(caller, Order(url=sites.url("/page", "wiki.test"), format="PDF"))


def take(browser: Browser, world: World, sites: Sites, folder: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    sign_up(page, world.base)
    with world.all.database.read() as connection:
        owner = str(connection.exec_driver_sql("SELECT id FROM accounts").scalar())
    prepare(world, sites, owner)
    page.goto(world.base)
    page.screenshot(path=folder / "screenshots.png")
    context.close()


def main(folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        serving_sites() as sites,
        serving(
            make_screenshots(
                f"sqlite:///{place}/app.db", Path(place), sites, policies=None, page_timeout=timedelta(seconds=10)
            ),
            sites,
        ) as world,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=find_chromium(world.all.options), args=list(ARGUMENTS))
        take(browser, world, sites, folder)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
