"""S7: the page of a user, and that of operators, in Chromium and without it."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from apps.screenshots.access import Caller
from apps.screenshots.captures import Captures, Order
from apps.screenshots.options import Options, find_chromium
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from screenshots_make import make_screenshots
from screenshots_pictures import PASSWORD, sign_up
from screenshots_sites import Sites
from screenshots_world import NOWHERE, PRIVATE, World, serving
from visit import ARGUMENTS, find_violations

from chromium import close_page
from live import eventually, working

ANN = "ann@example.org"
DUTIES = ("STUCK_JOBS", "FAILED_JOBS", "DELAYED_JOBS")
HOSTILE = "http://a.test/?<img src=x onerror=window.__pwned=1>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=find_chromium(Options()), args=list(ARGUMENTS))
        yield found
        found.close()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, sites: Sites) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("shown")
    screenshots = make_screenshots(f"sqlite:///{folder}/app.db", folder, sites, delay="1h")
    with serving(screenshots, sites) as world:
        yield world


@pytest.fixture(scope="module")
def context(browser: Browser, shown: World) -> Iterator[BrowserContext]:
    """Ann's browser, signed in."""
    found = browser.new_context(viewport={"width": 1280, "height": 900})
    page = found.new_page()
    sign_up(page, shown.base, ANN)
    close_page(page)
    yield found
    found.close()


class Visit:
    """A page, and what went wrong in it."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.page: Page = context.new_page()
        self.base, self.errors = base, []  # type: str, list[str]
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, path: str = "/") -> Page:
        self.page.goto(self.base + path)
        return self.page

    def check(self) -> None:
        assert find_violations(self.page) == []
        assert self.errors == []
        width = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert width <= 0


@pytest.fixture
def visit(context: BrowserContext, shown: World) -> Iterator[Visit]:
    found = Visit(context, shown.base)
    yield found
    close_page(found.page)


@pytest.fixture
def ann(shown: World, context: BrowserContext) -> Caller:
    return caller_of(shown, ANN)


def caller_of(shown: World, email: str) -> Caller:
    with shown.all.database.read() as connection:
        owner = connection.exec_driver_sql(f"SELECT id FROM accounts WHERE email = '{email}'").scalar()
    return Caller(str(owner), email)


@pytest.fixture
def newcomer(browser: Browser, shown: World) -> Iterator[tuple[Visit, Caller]]:
    """Someone who has captured nothing yet, and what others do does not change the credits."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    visit, email = Visit(context, shown.base), f"new-{uuid4()}@example.org"
    sign_up(visit.page, shown.base, email)
    yield visit, caller_of(shown, email)
    context.close()


def test_s7_an_empty_page_teaches(newcomer: tuple[Visit, Caller]) -> None:
    visit, _ = newcomer
    page = visit.open()
    assert page.locator(".empty h2").inner_text() == "No captures yet."
    assert page.locator("#balance").inner_text() == "100 credits left"
    visit.check()


def test_s7_a_user_captures_a_page_and_sees_it_without_reloading(visit: Visit, shown: World, sites: Sites) -> None:
    page = visit.open()
    page.fill("input[name=url]", sites.url())
    page.click("button:has-text('Capture')")
    row = page.locator("tr[data-job]").first
    assert row.get_attribute("data-status") == "QUEUED"
    with working(shown.app, concurrency=1):
        page.wait_for_selector("tr[data-status=COMPLETED]")
    row.locator("a.what").click()
    picture = page.locator(".shot img")
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") == 1280
    visit.check()


def test_s7_a_failed_capture_shows_why_and_is_retried_by_a_click(newcomer: tuple[Visit, Caller], shown: World) -> None:
    """Scenario 2 of the document, from the page."""
    visit, caller = newcomer
    job = Captures(shown.all).submit(caller, Order(url=PRIVATE))
    page = visit.open()
    row = page.locator(f"#c-{job.id}")
    with working(shown.app, concurrency=1):
        page.wait_for_selector(f"#c-{job.id}[data-status=FAILED]")
        assert row.locator(".failure").inner_text() == "This page leads to an address that may not be opened."
        expect(page.locator("#balance")).to_have_text("100 credits left", timeout=30_000)
        row.locator("button:has-text('Retry')").click()
        assert page.locator(".flash").inner_text() == f"Retry queued for {PRIVATE}."
        page.wait_for_selector("text=Retried manually")
    assert shown.app.job(job.id).manual_retries == 1


def test_s7_a_waiting_capture_counts_down_and_can_be_retried_at_once(visit: Visit, shown: World, ann: Caller) -> None:
    job = Captures(shown.all).submit(ann, Order(url="http://waiting.nowhere.test/"))
    page = visit.open()
    row = page.locator(f"#c-{job.id}")
    with working(shown.app, concurrency=1):
        row.locator(".countdown").wait_for()
        assert row.locator(".num").inner_text() == "1 of 3"
        assert "be reached" in row.locator(".failure").inner_text()
        visit.check()
    row.locator("button:has-text('Retry now')").click()
    page.wait_for_selector(".flash")
    told = shown.app.job(job.id)
    assert (told.manual_retries, told.failures) == (1, 0)
    page.locator("button:has-text('Cancel')").click()
    page.wait_for_selector("text=CANCELLED")


def test_s7_a_refused_order_says_why_and_keeps_what_was_typed(visit: Visit, shown: World, ann: Caller) -> None:
    page = visit.open()
    page.fill("input[name=url]", "file:///etc/passwd")
    page.click("button:has-text('Capture')")
    said = page.locator(".flash", has_text="the URL must begin with https:// or http://")
    expect(said).to_be_visible()
    # Also when the page reads itself again, because another capture has changed.
    job = Captures(shown.all).submit(ann, Order(url=NOWHERE))
    expect(page.locator(f"#c-{job.id}")).to_be_visible(timeout=30_000)
    expect(said).to_be_visible()
    assert page.input_value("input[name=url]") == "file:///etc/passwd"


def test_s7_a_site_that_is_down_is_named(visit: Visit, shown: World, ann: Caller) -> None:
    job = Captures(shown.all).submit(ann, Order(url="http://down.nowhere.test/"))
    shown.app.service("site:down.nowhere.test").open(actor="test")
    page = visit.open(f"/captures/{job.id}")
    assert page.locator(".banner").inner_text() == "down.nowhere.test is not answering. This waits until it does."
    visit.check()
    shown.app.service("site:down.nowhere.test").auto()


def test_s7_pages_are_accessible_dark_and_on_a_phone(
    newcomer: tuple[Visit, Caller], shown: World, sites: Sites
) -> None:
    """With captures of every kind: done, failed, waiting for a retry, held, and of an address without an end."""
    visit, caller = newcomer
    captures = Captures(shown.all)
    urls = [sites.url(), PRIVATE, NOWHERE, "http://private.test/" + "a" * 1_900]
    jobs = [captures.submit(caller, Order(url=url)).id for url in urls]
    with working(shown.app, concurrency=2):
        eventually(lambda: all(shown.app.job(job).state.is_final or shown.app.job(job).failures for job in jobs))
    shown.app.service("site:held.test").open(actor="operator")
    jobs.append(captures.submit(caller, Order(url="http://held.test/")).id)
    assert [captures.find(caller, job).state for job in jobs[:4]] == ["succeeded", "failed", "waiting", "failed"]
    assert shown.app.blocked_by([captures.find(caller, jobs[4])])
    shown.app.create_key(owner=caller.owner, name="n" * 100, actor=caller.actor)
    page = visit.open("/admin")
    page.fill("input[name=key]", shown.key(None))
    page.click("button:has-text('Sign in')")
    for scheme, width in (("dark", 1_280), ("light", 390), ("dark", 320)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 844})
        for path in ("/", "/keys", "/admin", *(f"/captures/{job}" for job in jobs)):
            visit.open(path)
            visit.check()
    captures.cancel(caller, jobs[2])
    captures.cancel(caller, jobs[4])
    shown.app.service("site:held.test").auto()


def test_s7_a_hostile_address_is_text(visit: Visit, shown: World, ann: Caller) -> None:
    job = shown.all.screenshot.options(owner=ann.owner, tags=["capture"]).enqueue(HOSTILE)
    for path in ("/", f"/captures/{job.id}"):
        page = visit.open(path)
        assert HOSTILE in page.locator("#content").inner_text()
        assert page.evaluate("window.__pwned") is None
    assert visit.errors == []
    shown.app.cancel(job.id)


def test_s7_keys_are_made_and_revoked_on_their_page(visit: Visit, shown: World, ann: Caller) -> None:
    page = visit.open("/keys")
    page.fill("input[name=name]", "nightly")
    page.click("button:has-text('Create a key')")
    token = page.locator("#token").inner_text()
    headers = {"authorization": f"Bearer {token}"}
    assert httpx.get(f"{shown.base}/api/v1/credits", headers=headers).json()["availableCredits"] <= 100
    visit.check()
    page.click("button:has-text('Revoke')")
    page.wait_for_selector("text=The key is revoked.")
    assert httpx.get(f"{shown.base}/api/v1/credits", headers=headers).status_code == 401


def test_s5_an_operator_pauses_a_scheduler_for_a_while(visit: Visit, shown: World) -> None:
    visit.open("/admin")
    visit.page.fill("input[name=key]", shown.key(None))
    visit.page.click("button:has-text('Sign in')")
    row = visit.page.locator("tr[data-scheduler=FAILED_JOBS]")
    row.locator("select").select_option("30m")
    row.locator("button:has-text('Pause')").click()
    visit.page.wait_for_selector("tr[data-scheduler=FAILED_JOBS] >> text=paused")
    [pause] = shown.app.pauses()
    assert (pause.name, pause.until is not None) == ("retry", True)
    row.locator("button:has-text('Resume')").click()
    visit.page.wait_for_selector("text=Failed jobs: resumed.")
    assert shown.app.pauses() == []
    visit.page.fill("input[name=email]", ANN)
    visit.page.fill("input[name=amount]", "50")
    visit.page.click("button:has-text('Grant')")
    visit.page.wait_for_selector(f"text={ANN} has")
    runs = [visit.page.locator(f"tr[data-scheduler={name}] td >> nth=1").inner_text() for name in DUTIES]
    assert runs == ["lost workers every second, stuck jobs every 5 minutes", "every 30 seconds", "every 10 seconds"]
    visit.check()


@pytest.mark.parametrize("amount", ["0", "1000001", "00000001" + "0" * 8, "9" * 5_000, "-5", "\N{SUPERSCRIPT TWO}"])
def test_s5_a_grant_beyond_the_bound_is_refused(shown: World, person: httpx.Client, ann: Caller, amount: str) -> None:
    token = csrf_of(person.get("/admin/sign-in").text)
    person.post("/admin/sign-in", data={"csrf": token, "key": shown.key(None)})
    with shown.all.database.read() as connection:
        before = shown.all.credits.balance(connection, ann.owner)
    form = {"csrf": csrf_of(person.get("/admin").text), "email": ANN, "amount": amount}
    assert "an amount from 1 to 1,000,000" in person.post("/admin/credits", data=form).text
    with shown.all.database.read() as connection:
        assert shown.all.credits.balance(connection, ann.owner) == before


# Without scripts


@pytest.fixture
def person(shown: World) -> Iterator[httpx.Client]:
    """A browser without scripts, of someone else."""
    with httpx.Client(base_url=shown.base, follow_redirects=True, headers={"accept": "text/html"}) as client:
        form = {"name": "Bob", "email": f"bob-{uuid4()}@example.org", "password": PASSWORD, "next": "/"}
        answer = client.post("/sign-up", data={**form, "csrf": csrf_of(client.get("/sign-up").text)})
        assert answer.status_code == 200
        yield client


def csrf_of(html: str) -> str:
    found = re.search(r'name="csrf" value="([^"]*)"', html)
    assert found is not None
    return unescape(found[1])


def test_s7_everything_works_without_scripts(shown: World, person: httpx.Client) -> None:
    token = csrf_of(person.get("/").text)
    order = {"csrf": token, "url": PRIVATE, "format": "PNG", "width": "800", "height": "600"}
    listed = person.post("/", data=order)
    assert PRIVATE in listed.text and "QUEUED" in listed.text
    [job_id] = re.findall(r'data-job="([^"]+)"', listed.text)
    assert "CANCELLED" in person.post(f"/captures/{job_id}/cancel", data={"csrf": token}).text
    assert "Job must be in FAILED status" in person.post(f"/captures/{job_id}/retry", data={"csrf": token}).text


def test_s7_foreign_captures_and_foreign_forms_are_refused(shown: World, person: httpx.Client, ann: Caller) -> None:
    job = Captures(shown.all).submit(ann, Order(url=PRIVATE))
    token = csrf_of(person.get("/").text)
    assert person.get(f"/captures/{job.id}").status_code == 404
    assert person.post(f"/captures/{job.id}/retry", data={"csrf": token}).status_code == 404
    assert person.post(f"/captures/{job.id}/cancel", data={"csrf": token}).status_code == 404
    assert person.get(f"/api/v1/screenshots/{job.id}").status_code == 404
    assert person.post("/", data={"url": PRIVATE, "width": "800", "height": "600"}).status_code == 403
    evil = {"origin": "https://evil.example"}
    assert person.post(f"/api/v1/screenshots/{job.id}/retry", headers=evil).status_code == 403
    assert person.get("/admin", follow_redirects=False).status_code == 303
    assert person.post("/admin/process-stuck", data={"csrf": token}).status_code == 401
    assert person.post("/admin/credits", data={"csrf": token, "email": ANN, "amount": "5"}).status_code == 401
    assert person.post("/keys/unknown/revoke", data={"csrf": token}).status_code == 404


def test_s3_a_user_retries_over_the_api_with_the_session(shown: World, person: httpx.Client) -> None:
    answer = person.post("/api/v1/screenshots", json={"url": PRIVATE})
    assert answer.status_code == 202
    listed = person.get("/api/v1/screenshots").json()["screenshots"]
    assert [each["jobId"] for each in listed] == [answer.json()["jobId"]]
    assert person.post(f"/api/v1/screenshots/{listed[0]['jobId']}/retry").json()["error"] == "VALIDATION_ERROR"


def test_no_path_of_the_server_is_shown(shown: World, person: httpx.Client, tmp_path: Path) -> None:
    person.post("/api/v1/screenshots", json={"url": PRIVATE})
    for path in ("/", "/keys", "/api/v1/screenshots", "/api/v1/credits"):
        assert str(shown.all.options.results.parent) not in person.get(path).text
