"""Pictures of every page, on desktop and phone, in light and dark: `make pictures ARGS=folder`.

With `--readme`, the best three are written to docs/pictures/.
"""

import argparse
import logging
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, BrowserContext
from site_server import Site, serve

from chromium import close_page, open_browser
from mulligan import App, JobFilter
from mulligan.web.pages import PAGES

SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
README = Path(__file__).parents[2] / "docs" / "pictures"
# The site and the page of each picture of the README.
BEST = {"failures": ("failures", "/"), "job": ("jobs", "/jobs/{job_id}"), "services": ("services", "/services")}


# Each subject of the dashboard has a site of its own, as its tests have.


def seed_jobs(url: str) -> App:
    app: App = import_module("seed_jobs").Shop(url).seed().app
    return app


def seed_failures(url: str) -> App:
    app: App = import_module("seed_failures").an_incident(url).app
    return app


def seed_services(url: str) -> App:
    module = import_module("seed_services")
    shop = module.open_shop(url)
    module.fill(shop)
    app: App = shop.app
    return app


def seed_operate(url: str) -> App:
    module = import_module("seed_operate")
    module.seed_failures(url)
    app: App = module.make_shop(url)
    module.seed_all(app)
    app.redrive(JobFilter(state="failed"), canary=3, actor="ann", reason="the feed is complete again")
    return app


# The pages that each site shows best, by the start of their paths; the last one shows the others.
SITES = {
    "failures": (seed_failures, ("/", "/failures", "/retry", "/find", "/help")),
    "jobs": (seed_jobs, ("/jobs",)),
    "services": (seed_services, ("/batches", "/services", "/retries")),
    "operate": (seed_operate, ()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the pictures are stored")
    parser.add_argument("--readme", action="store_true", help="write the best three to docs/pictures/ as well")
    parser.add_argument("--only", choices=SITES, action="append", help="the sites to take; default: all")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    # The failures of the seeds are logged one by one.
    logging.disable(logging.CRITICAL)
    for name in given.only or SITES:
        # The browser comes after the seeding, which runs loops of its own.
        with open_site(name) as site, open_browser() as browser:
            take_site(browser, site, name, given.folder)
            if given.readme:
                take_best(browser, site, name)


@contextmanager
def open_site(name: str) -> Iterator[Site]:
    seed, _ = SITES[name]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        app = seed(f"sqlite:///{folder}/jobs.db")
        stack.callback(app.close)
        yield stack.enter_context(serve(app))


def take_site(browser: Browser, site: Site, name: str, folder: Path) -> None:
    ids = find_ids(site.app)
    for size, viewport in SIZES.items():
        for scheme in SCHEMES:
            with signed_in(browser, site, viewport=viewport, color_scheme=scheme) as context:
                for path in paths_of(name):
                    if (address := fill(path, ids)) is None:
                        print(f"{path}: nothing to show on the site {name}", file=sys.stderr)
                        continue
                    take(context, site.base + address, folder / f"{file_name(path)}-{size}-{scheme}.png")


def take_best(browser: Browser, site: Site, name: str) -> None:
    README.mkdir(exist_ok=True)
    for picture, (site_name, path) in BEST.items():
        if site_name == name and (address := fill(path, find_ids(site.app))) is not None:
            with signed_in(browser, site, viewport=SIZES["desktop"], color_scheme="light") as context:
                take(context, site.base + address, README / f"{picture}.png", whole=False)


@contextmanager
def signed_in(browser: Browser, site: Site, **options: object) -> Iterator[BrowserContext]:
    context = browser.new_context(**options)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{site.base}/sign-in?next=/help")
    page.fill("input[name=key]", site.admin.token)
    with page.expect_navigation():
        page.click("button:has-text('Sign in')")
    close_page(page)
    yield context
    context.close()


def take(context: BrowserContext, url: str, path: Path, *, whole: bool = True) -> None:
    page = context.new_page()
    # A page with a stream is never idle.
    page.goto(url, wait_until="load")
    page.screenshot(path=path, full_page=whole)
    close_page(page)


def paths_of(name: str) -> list[str]:
    """The paths of the pages that this site shows. Files to download are no pages."""
    shown = {page.path for page in PAGES if not page.is_change and not re.search("/(download|export)$", page.path)}
    return sorted(path for path in shown if site_of(path) == name)


def site_of(path: str) -> str:
    for name, (_, starts) in SITES.items():
        if any(path == start or (start != "/" and path.startswith(f"{start}/")) for start in starts):
            return name
    return "operate"


def fill(path: str, ids: dict[str, str]) -> str | None:
    """None: the site has nothing of this sort."""
    wanted = re.findall(r"{(\w+)", path)
    if not all(ids.get(name) for name in wanted):
        return None
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: quote(ids[match[1]], safe=""), path)


def find_ids(app: App) -> dict[str, str]:
    """The most telling record for each parameter of a path."""
    jobs = app.jobs(limit=200).jobs
    return {
        "job_id": max(jobs, key=lambda job: (job.failures, job.attempt)).id if jobs else "",
        "batch_id": next((each.id for each in app.batches()), ""),
        "group": next((each.id for each in app.failures(limit=1).groups), ""),
        "redrive_id": next((each.id or "" for each in app.redrives(limit=1)), ""),
        "name": next((each.name for each in app.services() if each.state != "closed"), ""),
        "check": str(app.alerts().rules[0].check),
        "kind": next(iter(app.tasks), ""),
        "delivery_id": next((each.id for each in app.deliveries(limit=1)), ""),
        "subscription_id": next((each.id for each in app.subscriptions()), ""),
    }


def file_name(path: str) -> str:
    return re.sub(r"\W+", "-", re.sub(r"{(\w+)[^}]*}", r"\1", path)).strip("-") or "failures"


if __name__ == "__main__":
    main()
