"""Pictures of the converter's pages: `pdfxml_pictures.py FOLDER`, and with --readme that of its README.

The path of Python has `src`, `.`, `tests`, `tests/browser`, `tests/stores` and this folder.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from apps.pdfxml.app import create
from apps.pdfxml.settings import Settings
from apps.pdfxml.site import build_site
from pdfxml_files import ENCRYPTED, INVOICE, unique_pdf
from pdfxml_world import Gateway, Person, World, started_gateway
from pictures import SCHEMES, SIZES
from playwright.sync_api import Browser, Page
from site_server import serve

from chromium import open_browser
from live import eventually, working

README = Path(__file__).parents[3] / "docs" / "pictures" / "pdfxml.png"


@contextmanager
def seeded() -> Iterator[tuple[World, Person]]:
    """A person with a conversion in every status."""
    with tempfile.TemporaryDirectory() as folder, started_gateway() as gateway:
        place = Path(folder)
        settings = Settings(
            database_url=f"sqlite:///{place}/pdfxml.db",
            gateway_url=gateway.url,
            uploads=place / "uploads",
            results=place / "results",
            base_delay=timedelta(seconds=95),
        )
        converter = create(settings)
        site = build_site(converter)
        with serve(site.app, site.asgi()) as served, working(converter.app):
            world = World(converter, served.base, gateway)
            yield world, seed(world, gateway)
            gateway.heal()
            world.close()
        converter.app.close()


def seed(world: World, gateway: Gateway) -> Person:
    person = world.person()
    for name, mapping in (("Annual report 2025.pdf", "text"), ("Floor plan.pdf", "layout")):
        person.wait(person.uploaded(INVOICE, name=name, mapping=mapping), "complete")
    person.upload(b"PK", name="Photos.zip")
    person.wait(person.uploaded(ENCRYPTED, name="Payslip March.pdf"), "failed")
    gateway.fail(status=503)
    waiting = person.uploaded(unique_pdf(1), name="Invoice 2041.pdf")
    eventually(lambda: person.job(waiting)["retry_after"])
    gateway.fail("wait")
    person.uploaded(unique_pdf(2), name="Contract, signed.pdf", mapping="layout")
    eventually(lambda: gateway.met == 1)
    return person


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with seeded() as (world, person), open_browser() as browser:
        if given.readme:
            page = open_page(browser, world, person, "desktop", "light")
            page.goto(f"{world.base}/")
            page.screenshot(path=README)
        for size in SIZES:
            for scheme in SCHEMES:
                take_all(browser, world, person, given.folder, size, scheme)


def take_all(browser: Browser, world: World, person: Person, folder: Path, size: str, scheme: str) -> None:
    page = open_page(browser, world, person, size, scheme)
    jobs = {job["file_name"]: job["id"] for job in person.jobs()}
    paths = {"queue": "/", "conversion": f"/conversions/{jobs['Invoice 2041.pdf']}", "problem": "/conversions/none"}
    for name, path in paths.items():
        take(page, world.base + path, folder / f"{name}-{size}-{scheme}.png")
    world.app.service("gateway").open(reason="maintenance")
    take(page, f"{world.base}/", folder / f"busy-{size}-{scheme}.png")
    key = world.app.create_key(owner=None, name="on-call")
    page.goto(f"{world.base}/admin")
    page.fill("input[name=key]", key.token)
    page.click("button:has-text('Sign in')")
    take(page, f"{world.base}/admin", folder / f"admin-{size}-{scheme}.png")
    world.app.service("gateway").auto()
    take(browser.new_page(), f"{world.base}/", folder / f"empty-{size}-{scheme}.png")


def open_page(browser: Browser, world: World, person: Person, size: str, scheme: str) -> Page:
    context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)  # type: ignore[arg-type]
    for cookie in person.client.cookies.jar:
        context.add_cookies([{"name": cookie.name, "value": str(cookie.value), "url": world.base}])
    return context.new_page()


def take(page: Page, address: str, target: Path) -> None:
    page.goto(address)
    page.screenshot(path=target, full_page=True)


if __name__ == "__main__":
    main()
