"""The pages of operators in Chromium: each loads without errors, its main action works by click, axe finds nothing
serious in light and dark, and nothing is wider than a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from seed_operate import POLICIES, TRUNCATED, Worker, enqueue, make_shop, seed_all, seed_failures
from site_server import Site, serve
from visit import Visit, find_violations

PATHS = (
    *("/workers", "/queues", "/duties", "/schedules", "/policies", "/policies/kinds/convert?owner=acme"),
    *("/policies/reclassify", "/notifications", "/notifications/deliveries", "/notifications/new"),
    *("/alerts", "/alerts/jobs.depth", "/keys", "/keys/new", "/audit", "/doctor"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("operate")
    url = f"sqlite:///{folder}/jobs.db"
    seed_failures(url)
    (folder / "policies.yaml").write_text(POLICIES)
    app = make_shop(url, policies=folder / "policies.yaml", rules=(TRUNCATED,))
    seed_all(app)
    with serve(app) as found:
        yield found
    app.close()


@pytest.fixture(scope="module")
def tab(browser: Browser, site: Site) -> Iterator[Visit]:
    """Signed in once."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = Visit(context, site, site.admin.token)
    # The page after the sign-in is not of this subject.
    found.open("/help")
    yield found
    context.close()


@pytest.fixture
def visit(tab: Visit) -> Iterator[Visit]:
    tab.errors.clear()
    yield tab
    tab.check()


CONTRAST = {"runOnly": ["color-contrast"]}


def check_accessible(page: Page) -> None:
    """In dark, only the colours are different."""
    page.emulate_media(color_scheme="dark")
    assert Axe().run(page, options=CONTRAST).response["violations"] == []
    page.emulate_media(color_scheme="light")
    assert find_violations(page) == []


def test_workers(visit: Visit) -> None:
    app = visit.site.app
    worker = Worker(app, "eu-1", 16)
    page = visit.open("/workers")
    expect(page.locator("h1")).to_contain_text("2 jobs are stuck")
    expect(page.locator("[id='worker-eu-3/4711/1'] .slots i.s")).to_have_count(2)
    check_accessible(page)
    # Live: another job is taken.
    busy = page.locator("[id='worker-eu-1/4711/1'] .slots i.b")
    before = busy.count()
    enqueue(app, "charge", 1)
    worker.run("charge", number=1)
    expect(busy).to_have_count(before + 1)
    page.click("text=Take 2 back…")
    page.fill("details[open] input[name=reason]", "the disk is full")
    page.click("button:has-text('Take back')")
    expect(page.locator("#answer")).to_contain_text("2 jobs were taken back and settled as TIMEOUT.")
    expect(page.locator("h1")).not_to_contain_text("stuck")


def test_queues(visit: Visit) -> None:
    page = visit.open("/queues")
    expect(page.locator("h1")).to_contain_text("Queue mail is paused")
    check_accessible(page)
    row = page.locator("#queue-media")
    row.locator("summary:has-text('Pause…')").click()
    row.locator("input[name=duration]").fill("45m")
    row.locator("input[name=reason]").fill("new disks")
    row.locator("button:has-text('Pause')").click()
    expect(page.locator("#answer")).to_contain_text("Queue media is paused for 45 min.")
    expect(row).to_contain_text("“new disks”")
    row.locator("button:has-text('Resume')").click()
    expect(page.locator("#answer")).to_contain_text("Queue media is resumed.")


def test_a_form_that_is_being_filled_in_is_not_taken_away(visit: Visit) -> None:
    page = visit.open("/queues")
    page.click(".says summary")
    page.fill("details[open] input[name=name]", "med")
    visit.site.app.pause("1h", kind="render")
    # What the stream says when something changed.
    page.evaluate("htmx.trigger('#content', 'refresh')")
    assert page.input_value("details[open] input[name=name]") == "med"
    page.keyboard.press("Escape")
    expect(page.locator("#pause-kind-render")).to_have_count(1)
    visit.site.app.resume(kind="render")


def test_duties(visit: Visit) -> None:
    Worker(visit.site.app, "eu-1", 16)
    page = visit.open("/duties")
    check_accessible(page)
    row = page.locator("#duty-expire")
    row.locator("button:has-text('Run now')").click()
    expect(page.locator("#answer")).to_contain_text("Duty expire ran here: nothing to do.")
    expect(row).to_contain_text("manually by on-call")


def test_schedules(visit: Visit) -> None:
    page = visit.open("/schedules")
    expect(page.locator("#schedule-nightly-report")).to_contain_text("at 02:30 from Monday to Friday")
    check_accessible(page)
    page.locator("#schedule-old-export summary").click()
    page.locator("#schedule-old-export button").click()
    expect(page.locator("#answer")).to_contain_text("Schedule old-export was removed.")
    page.locator("#schedule-nightly-report button:has-text('Resume')").click()
    expect(page.locator("#answer")).to_contain_text("Schedule nightly-report is resumed.")


def test_policies(visit: Visit) -> None:
    page = visit.open("/policies")
    page.locator("#pack-http summary").click()
    expect(page.locator("#pack-http table")).to_be_visible()
    check_accessible(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("convert is tried at most 5 times.")
    expect(page.locator("svg.attempts circle")).to_have_count(5)
    check_accessible(page)
    page.goto(f"{visit.site.base}/policies/reclassify?kind=import_feed")
    expect(page.locator("h1")).to_contain_text("6 of 6 failed jobs would be retried")
    check_accessible(page)
    page.click("text=Retry 6…")
    page.click("button:has-text('Retry them')")
    expect(page.locator("#answer")).to_contain_text("6 jobs are retried.")


def test_alerts(visit: Visit) -> None:
    page = visit.open("/alerts")
    expect(page.locator("h1")).to_contain_text("jobs.stuck")
    expect(page.locator("[id='rule-duties.paused']")).to_contain_text("“it is planned”")
    check_accessible(page)
    page.click("#usual summary")
    page.click("[id='rule-jobs.depth'] a")
    check_accessible(page)
    page.fill("input[name=threshold]", "5000")
    page.click("button:has-text('Set the rule')")
    expect(page.locator("#answer")).to_contain_text("The rule of jobs.depth is set")
    expect(page.locator("p:has-text('Its threshold is 5,000 jobs.')")).to_be_visible()
    page.click("text=Silence…")
    page.fill("details[open] input[name=duration]", "1h")
    page.click("details[open] button:has-text('Silence')")
    expect(page.locator("#answer")).to_contain_text("Alert jobs.depth is silenced")


def test_notifications(visit: Visit) -> None:
    page = visit.open("/notifications")
    check_accessible(page)
    page.click("text=Subscribe…")
    page.fill("input[name=name]", "by click")
    page.check("input[value='batch.settled']")
    page.fill("input[name=to]", "https://hooks.example/click")
    check_accessible(page)
    page.click("button:has-text('Subscribe')")
    expect(page.locator("#token")).to_contain_text("whsec_")
    check_accessible(page)
    page.click("text=I have copied it")
    page.click("text=by click")
    expect(page.locator("h1")).to_have_text("by click sends job.failed and batch.settled to a webhook.")
    page.click("button:has-text('Test')")
    expect(page.locator("#answer")).to_contain_text("A sample is on its way.")
    check_accessible(page)


def test_pages_beside_the_way_can_be_used_by_all(visit: Visit) -> None:
    delivery = visit.site.app.deliveries(limit=1)[0].id
    for path in (
        *("/notifications/deliveries", f"/notifications/deliveries/{delivery}", "/notifications/hooks/new", "/help"),
        *("/setup?token=x", "/sign-in", "/sign-in?link=x"),
    ):
        assert find_violations(visit.open(path)) == [], path


def test_keys(visit: Visit) -> None:
    page = visit.open("/keys")
    check_accessible(page)
    page.click("text=Create a key…")
    page.fill("input[name=name]", "by click")
    page.fill("input[name=owner]", "acme")
    check_accessible(page)
    page.click("button:has-text('Create the key')")
    token = page.inner_text("#token")
    key = visit.site.app.find_key(token)
    assert (key.owner, key.name) == ("acme", "by click")
    page.click("text=I have copied it")
    row = page.locator(f"#key-{key.id}")
    row.locator("summary:has-text('Sign-in link…')").click()
    row.locator("button:has-text('Make the link')").click()
    expect(page.locator("#token")).to_contain_text("/sign-in?link=")
    assert find_violations(page) == []
    page.click("text=I have copied it")
    row.locator("summary:has-text('Revoke…')").click()
    row.locator("button:has-text('Revoke')").click()
    expect(page.locator("#answer")).to_contain_text("is revoked")
    expect(row).to_contain_text("revoked")


def test_audit(visit: Visit) -> None:
    page = visit.open("/audit")
    expect(page.locator("h1")).to_contain_text("made the last change")
    check_accessible(page)
    page.fill("#owner", "acme")
    page.click("#content button:has-text('Show')")
    assert page.locator("#audit tbody tr").count() >= 1


def test_doctor(visit: Visit) -> None:
    page = visit.open("/doctor")
    expect(page.locator("#fine li").first).not_to_be_visible()
    page.click("#fine summary")
    expect(page.locator("#fine li").first).to_be_visible()
    check_accessible(page)


def test_nothing_is_wider_than_a_phone(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    for path in PATHS:
        width = visit.open(path).evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide[path] = width
    visit.page.set_viewport_size({"width": 1280, "height": 900})
    assert wide == {}


def test_an_owner_is_refused_on_a_page_that_says_why(browser: Browser, site: Site) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    owner = Visit(context, site, site.key("acme").token)
    owner.page.goto(f"{site.base}/workers")
    expect(owner.page.locator("h1")).to_have_text("Only an administrator's key allows this.")
    assert owner.page.locator("#menu a:has-text('Workers')").count() == 0
    assert find_violations(owner.page) == []
    context.close()
