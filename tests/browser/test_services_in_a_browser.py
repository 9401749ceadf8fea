"""The pages of batches, services and retries in a browser: live changes, the main action, and what axe finds."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, expect
from seed_services import Shop, fill, open_shop
from site_server import Site, serve
from visit import Visit, find_violations

# A busy machine takes its time.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Shop]]:
    shop = open_shop(f"sqlite:///{tmp_path_factory.mktemp('past')}/jobs.db?synchronous=normal")
    fill(shop, hours=0.6)
    with serve(shop.app) as site:
        yield site, shop
    shop.app.close()


def visit_of(context: BrowserContext, site: Site) -> Visit:
    visit = Visit(context, site, site.admin.token)
    # Signing in leads to the first page, which is tested elsewhere.
    visit.open("/help")
    visit.errors.clear()
    return visit


def test_retries_in_a_browser(past: tuple[Site, Shop], context: BrowserContext) -> None:
    site, _ = past
    visit = visit_of(context, site)
    page = visit.open("/retries")
    expect(page.locator("h1")).to_have_text(re.compile(r"Retries recovered \d+\s% of \d+ retried jobs\."))
    expect(page.locator(".advice li").first).to_contain_text("never helped")
    assert find_violations(page) == []
    page.click("nav[aria-label=Time] a:has-text('7 d')")
    expect(page.locator("nav[aria-label=Time] a[aria-current]")).to_have_text("7 d")
    page.click("a[data-open]:has-text('GW_5XX')")
    expect(page.locator("h1")).to_contain_text("Retries recovered")
    expect(page.locator(".eyebrow")).to_contain_text("convert")
    page.emulate_media(color_scheme="dark")
    assert find_violations(page) == []
    visit.check()


def test_batches_in_a_browser(past: tuple[Site, Shop], context: BrowserContext) -> None:
    site, shop = past
    visit = visit_of(context, site)
    page = visit.open("/batches")
    assert find_violations(page) == []
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("succeeded")

    # Live: the page changes by itself when a member ends.
    (spring,) = [batch for batch in shop.app.batches() if batch.name == "spring campaign"]
    visit.open(f"/batches/{spring.id}")
    expect(page.locator("h1")).to_have_text(re.compile("succeeded, .* failed"))
    page.click("summary:has-text('Retry')")
    page.fill("form[action$='/retry'] input[name=reason]", "mended in a browser")
    page.click("form[action$='/retry'] button")
    expect(page.locator("#answer")).to_contain_text("start again")
    expect(page.locator("h1")).to_contain_text("left")
    shop.run()
    expect(page.locator("h1")).to_contain_text("57 of 89 succeeded")
    expect(page.locator(".chapters")).to_contain_text("mended in a browser")
    assert find_violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert find_violations(page) == []
    visit.check()


def test_services_in_a_browser(past: tuple[Site, Shop], context: BrowserContext) -> None:
    site, shop = past
    visit = visit_of(context, site)
    page = visit.open("/services")
    expect(page.locator("h1")).to_contain_text("down")
    assert find_violations(page) == []
    page.click("a[data-open]:has-text('gateway')")
    expect(page.locator("h1")).to_have_text(re.compile(r"gateway has been down since [\d:]+\. .* jobs wait for it\."))
    expect(page.locator(".chart.wide")).to_have_attribute("aria-label", re.compile("It was down 1 time"))

    # Live: another person keeps it closed.
    shop.app.service("gateway").close(actor="bob", reason="it is back")
    expect(page.locator("h1")).to_contain_text("gateway has been kept closed")
    expect(page.locator(".story")).to_contain_text("Kept closed by bob")

    # The chart is drawn again to zoom in, and stays while the page changes.
    page.click("[data-zoom]")
    page.wait_for_selector("#zoom canvas")
    shop.app.pause("1h", service="gateway", actor="bob")
    expect(page.locator(".story")).to_contain_text("Paused by bob")
    expect(page.locator("#zoom canvas")).to_be_visible()
    assert find_violations(page) == []

    page.click("summary:has-text('Keep open')")
    expect(page.locator("form[action$='/open']")).to_contain_text("Its jobs wait, and no attempt is used up.")
    page.fill("form[action$='/open'] input[name=reason]", "maintenance")
    page.click("form[action$='/open'] button")
    expect(page.locator("#answer")).to_contain_text("gateway is kept open.")
    expect(page.locator("h1")).to_contain_text("gateway has been kept open")
    page.emulate_media(color_scheme="dark")
    assert find_violations(page) == []
    visit.check()
