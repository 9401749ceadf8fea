"""Pages that change by themselves in Chromium: in many tabs, while a person is busy with them, and when they cannot."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from site_server import Site, serve
from visit import Visit

from live import SOON
from mulligan import App

# What the browser tells a tab that goes to the back, or comes to the front.
SHOW = """isShown => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => !isShown });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path_factory.mktemp('live')}/jobs.db") as found:
        found.task(name="count")(lambda: None)
        found.migrate()
        yield found


@pytest.fixture(scope="module")
def site(app: App) -> Iterator[Site]:
    with serve(app) as found:
        yield found


@pytest.fixture
def visit(context: BrowserContext, site: Site) -> Visit:
    context.set_default_timeout(SOON * 1000)
    return Visit(context, site, site.admin.token)


def enqueue(app: App) -> str:
    return f"#j-{app.tasks['count'].options(delay='1h').enqueue().id}"


def open_live(visit: Visit, path: str) -> Page:
    """The page, once its stream has begun."""
    with visit.page.expect_response("**/live?*"):
        return visit.open(path)


def test_hidden_tabs_leave_their_connections_to_the_one_that_is_shown(app: App, visit: Visit) -> None:
    """A browser opens six connections to a host, and each stream is one."""
    hidden = []
    for _ in range(6):
        page = visit.context.new_page()
        with page.expect_response("**/live?*"):
            page.goto(f"{visit.site.base}/jobs")
        with page.expect_event("requestfailed"):
            page.evaluate(SHOW, False)
        hidden.append(page)
    page = open_live(visit, "/jobs")
    job = enqueue(app)
    expect(page.locator(job)).to_be_visible()
    # What a tab has missed is there when it is shown again, and it is live.
    assert hidden[0].locator(job).count() == 0
    page.evaluate(SHOW, False)
    hidden[0].evaluate(SHOW, True)
    expect(hidden[0].locator(job)).to_be_visible()
    expect(hidden[0].locator(enqueue(app))).to_be_visible()
    visit.check()


def test_what_changed_while_a_question_was_open_is_shown_when_it_is_closed(app: App, visit: Visit) -> None:
    job = app.tasks["count"].options(delay="1h").enqueue()
    page = open_live(visit, f"/jobs/{job.id}")
    page.click("summary:has-text('Snooze…')")
    with page.expect_event("console", lambda message: message.text == "held"):
        page.evaluate("addEventListener('htmx:beforeRequest', () => console.log('held'))")
        app.cancel(job.id, actor="bob")
    expect(page.locator("h1")).to_have_text("It was enqueued for later.")
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text("It was cancelled by bob.")
    visit.check()


def test_what_changed_while_rows_were_selected_is_shown_when_none_is_any_more(app: App, visit: Visit) -> None:
    enqueue(app)
    page = open_live(visit, "/jobs?state=waiting")
    page.locator("input[name=job]").first.check()
    with page.expect_event("console", lambda message: message.text == "held"):
        page.evaluate("addEventListener('htmx:beforeRequest', () => console.log('held'))")
        job = enqueue(app)
    assert page.locator(job).count() == 0
    page.click(".bulk button:has-text('Clear')")
    expect(page.locator(job)).to_be_visible()
    visit.check()
