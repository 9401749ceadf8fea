"""Pages that change by themselves in Chromium: in many tabs, while a person is busy with them, and when they cannot."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect
from site_server import Site, serve
from visit import Visit, find_violations

from live import SOON
from mulligan import App
from mulligan.cli.demo import guarded
from mulligan.cli.demo.faults import ManualFaults, Phase
from mulligan.cli.demo.page import demo_pages
from mulligan.web.server import asgi

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


@contextmanager
def held_back(page: Page) -> Iterator[None]:
    """Until the page would have read itself again."""
    page.evaluate("window.addEventListener('htmx:beforeRequest', () => console.log('held'))")
    with page.expect_event("console", lambda message: message.text == "held"):
        yield


def test_what_changed_while_a_question_was_open_is_shown_when_it_is_closed(app: App, visit: Visit) -> None:
    job = app.tasks["count"].options(delay="1h").enqueue()
    page = open_live(visit, f"/jobs/{job.id}")
    page.click("summary:has-text('Snooze…')")
    with held_back(page):
        app.cancel(job.id, actor="bob")
    expect(page.locator("h1")).to_have_text("It was enqueued for later.")
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text("It was cancelled by bob.")
    visit.check()


def test_what_changed_while_rows_were_selected_is_shown_when_none_is_any_more(app: App, visit: Visit) -> None:
    enqueue(app)
    page = open_live(visit, "/jobs?state=waiting")
    page.locator("input[name=job]").first.check()
    with held_back(page):
        job = enqueue(app)
    assert page.locator(job).count() == 0
    page.click(".bulk button:has-text('Clear')")
    expect(page.locator(job)).to_be_visible()
    visit.check()


def test_rows_do_not_run_away_from_the_pointer(app: App, visit: Visit) -> None:
    enqueue(app)
    page = open_live(visit, "/jobs?state=waiting")
    note = page.locator("#held-back")
    page.hover("[data-row] a.what")
    with held_back(page):
        job = enqueue(app)
    expect(note).to_have_text("There are changes. They are shown when you leave the list.")
    assert page.locator(job).count() == 0
    page.hover("h1")
    expect(page.locator(job)).to_be_visible()
    expect(note).to_be_hidden()
    # A person who moves by keys stays on the line, too.
    page.keyboard.press("j")
    with held_back(page):
        job = enqueue(app)
    expect(note).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(job)).to_be_visible()
    visit.check()


def test_a_page_that_cannot_be_read_again_says_so(app: App, visit: Visit) -> None:
    page = open_live(visit, "/jobs?state=waiting")
    note = page.locator("#unread")
    for refuse in (lambda route: route.fulfill(status=503, body="x"), lambda route: route.abort()):

        def answer(route: Route) -> None:
            refuse(route) if "hx-request" in route.request.headers else route.continue_()  # noqa: B023

        page.route("**/jobs?*", answer)
        job = enqueue(app)
        expect(note).to_have_text(
            re.compile(r"This page could not be read again: what is shown is of \d\d:\d\d:\d\d UTC\.\s*Try again")
        )
        expect(page.locator("html")).to_have_class(re.compile("is-stale"))
        page.unroute("**/jobs?*")
        # By script: another change may have had the page read at this moment, which hides the button.
        page.locator("#read-again").evaluate("button => button.click()")
        expect(page.locator(job)).to_be_visible()
        expect(note).to_be_hidden()
        expect(page.locator("html")).not_to_have_class(re.compile("is-stale"))


def test_the_counts_below_a_phone_change_too(app: App, visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 844})
    page = open_live(visit, "/jobs?state=waiting")
    page.evaluate("document.querySelector('.bar a').textContent = 'old'")
    page.click(".bar summary")
    enqueue(app)
    expect(page.locator(".bar a").first).to_contain_text("Failures")
    expect(page.locator(".bar .sheet-up")).to_be_visible()
    visit.check()


def test_times_are_right_where_the_clock_of_the_browser_is_wrong(app: App, visit: Visit) -> None:
    behind = """const RightDate = Date;
        window.Date = class extends RightDate {
          constructor(...given) { given.length ? super(...given) : super(RightDate.now() - 7200000); }
          static now() { return RightDate.now() - 7200000; }
        }"""
    visit.context.add_init_script(behind)
    job = enqueue(app)
    page = open_live(visit, "/jobs?state=waiting")
    # The script has counted once, and the page has been read again.
    shown = page.locator("#live-at").inner_text()
    while f"{datetime.now(UTC):%H:%M:%S}" == shown:
        page.wait_for_timeout(50)
    enqueue(app)
    expect(page.locator("#live-at")).not_to_have_text(shown)
    assert re.fullmatch(r"in (1 h|59 min|58 min)", page.locator(f"{job} time").inner_text())
    now, read = datetime.now(UTC), page.locator("#live-at").inner_text()
    assert read in [f"{now - timedelta(seconds=each):%H:%M:%S}" for each in range(60)]


def test_keys_work_where_nothing_is_typed_and_act_on_the_line_that_is_marked(app: App, visit: Visit) -> None:
    for _ in range(2):
        enqueue(app)
    page = visit.open("/jobs?state=waiting")
    # A box is no field of text.
    page.locator("input[name=job]").first.click()
    page.keyboard.press("j")
    expect(page.locator("[data-row].is-current")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("input[name=job]:checked")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator("input[name=job]:checked")).to_have_count(0)
    expect(page.locator(".bulk")).to_be_hidden()
    # Without a line that is marked, or a selection, there is nothing to act on.
    app.task(name="fail")(lambda: 1 / 0)
    shop = app.tasks["fail"].options(max_attempts=1)
    for _ in range(2):
        shop.enqueue()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(app.run_until_idle).result()
    app.run_duty("project")
    for path in ("/", "/jobs?state=failed"):
        page = visit.open(path)
        expect(page.locator("[data-row]").first).to_be_visible()
        for key in ("r", "i", "e"):
            page.keyboard.press(key)
        page.keyboard.press("j")
        expect(page.locator("[data-row].is-current")).to_have_count(1)
        assert page.url == f"{visit.site.base}{path}"
    visit.check()


def test_values_stay_in_the_form_in_which_they_stand(app: App, visit: Visit) -> None:
    job = app.tasks["count"].options(delay="1h").enqueue()
    page = open_live(visit, f"/jobs/{job.id}")
    fields = """() => [...document.querySelectorAll("details.asking form")].map(form =>
      form.getAttribute("action").split("/").pop() + [...form.querySelectorAll("input[type=text]")].map(input =>
        ` ${input.name}=${input.value}`).join(""))"""
    right = {"snooze delay=1h reason=", *(f"{verb} reason=" for verb in ("run-now", "retry", "cancel"))}
    assert set(page.evaluate(fields)) == right
    app.cancel(job.id, actor="bob")
    expect(page.locator("h1")).to_have_text("It was cancelled by bob.")
    assert set(page.evaluate(fields)) < right
    app.pause(kind="count", actor="bob")
    app.retry(job.id, actor="bob")
    expect(page.locator("form[action$='/snooze']")).to_have_count(1)
    shown = set(page.evaluate(fields))
    app.resume(kind="count", actor="bob")
    assert "snooze delay=1h reason=" in shown and shown <= right


def test_a_button_of_the_demo_does_what_it_says_after_another_tab_broke_the_gateway(
    context: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(guarded.app.settings, database_url=f"sqlite:///{tmp_path}/demo.db")
    monkeypatch.setattr(guarded.app, "settings", settings)
    faults = ManualFaults()
    with guarded.app as app, serve(app, asgi(app, pages=[demo_pages(faults)])) as site:
        visit = Visit(context, site, site.admin.token)
        page = open_live(visit, "/demo")
        assert find_violations(page) == []
        faults.phase = Phase.DOWN
        app.pause("1h", kind="preview")
        expect(page.locator("#faults button:disabled")).to_have_text("Break it")
        page.click("#faults button:has-text('Heal it')")
        expect(page.locator("#answer")).to_contain_text("The gateway is healthy: it answers at once.")
        assert faults.phase is Phase.HEALTHY
        visit.check()
        page.goto("about:blank")
