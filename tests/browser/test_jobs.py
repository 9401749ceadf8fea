"""The pages of jobs in Chromium: they load, change by themselves, act by click and by key, and run nothing that is
stored."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from seed_jobs import Shop
from site_server import Site, serve
from visit import Visit, find_violations

from chromium import close_page
from mulligan import FinalError, State
from mulligan.lifecycle import State as JobState
from mulligan.store.messages import Beat, WorkerRecord

NASTY = '"><script>window.__pwned=1</script><img src=x onerror="window.__pwned=1">{{1337*3}}${1337*3}\'-alert(1)-\''


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    found = Shop(f"sqlite:///{tmp_path_factory.mktemp('jobs')}/jobs.db").seed()
    yield found
    found.app.close()


@pytest.fixture(scope="module")
def site(shop: Shop) -> Iterator[Site]:
    with serve(shop.app) as found:
        yield found


def forget_errors(visit: Visit) -> None:
    """Those of a page that is not tested here. They have come when another page is there."""
    visit.open("/help")
    visit.errors.clear()


@pytest.fixture(scope="module")
def visit(browser: Browser, site: Site) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = Visit(context, site, site.admin.token)
    forget_errors(found)
    yield found
    context.close()


@pytest.fixture(autouse=True)
def _nothing_went_wrong(visit: Visit) -> Iterator[None]:
    yield
    visit.check()


PAGES = {
    "all": "/jobs",
    "failed": "/jobs?state=failed&kind=charge",
    "running": "/jobs?state=running",
    "held": "/jobs?view=held",
    "stuck": "/jobs?view=stuck",
    "nothing": "/jobs?kind=nothing",
    "preview": "/jobs/bulk/run-now?state=failed",
    **{f"a job: {name}": f"/jobs/{{{name}}}" for name in ("held", "retrying", "running", "recovered", "bill", "lost")},
    "events": "/jobs/{retrying}/events",
}


@pytest.mark.parametrize(
    ("scheme", "names"),
    # Each takes seconds. The colours of both schemes come from the same list.
    [
        ("light", ("all", "held", "stuck", "a job: held", "a job: recovered", "preview")),
        ("dark", ("failed", "a job: retrying", "events")),
    ],
)
def test_pages_can_be_used_by_all(visit: Visit, shop: Shop, scheme: Any, names: tuple[str, ...]) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    for name in names:
        page = visit.open(PAGES[name].format(**shop.jobs))
        assert find_violations(page) == [], name


def test_every_page_loads_and_none_is_wider_than_a_phone(visit: Visit, shop: Shop) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 800})
    for name, path in PAGES.items():
        page = visit.open(path.format(**shop.jobs))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    visit.page.set_viewport_size({"width": 1280, "height": 900})


def test_a_list_changes_by_itself_and_keeps_its_filter(visit: Visit, shop: Shop) -> None:
    page = visit.open("/jobs?state=waiting&owner=live")
    expect(page.locator("h1")).to_have_text("No waiting job matches.")
    shop.add("live", "archive", "2026-01", options={"owner": "live", "delay": "1h"})
    expect(page.locator("h1")).to_have_text("1 waiting job matches.")
    expect(page.locator(f"#j-{shop.jobs['live']}")).to_be_visible()


def test_a_job_changes_by_itself_and_what_is_open_stays_open(visit: Visit, shop: Shop) -> None:
    job = shop.add("changing", "archive", "2026-02", options={"delay": "1h"})
    page = visit.open(f"/jobs/{job.id}")
    expect(page.locator("h1")).to_have_text("It was enqueued for later.")
    expect(page.locator("h1 + p time.countdown")).to_have_text(re.compile(r"\d+ (min|s)"))
    page.click("summary:has-text('In the words of')")
    shop.app.cancel(job.id, actor="ann", reason="not needed")
    expect(page.locator("h1")).to_have_text("It was cancelled by ann.")
    assert page.locator("details.engine").get_attribute("open") is not None


def test_a_job_is_moved_by_click(visit: Visit, shop: Shop) -> None:
    job = shop.add("moved", "archive", "2026-03", options={"delay": "1h"})
    page = visit.open(f"/jobs/{job.id}")
    page.click("summary:has-text('Snooze…')")
    page.fill("details[open] input[name=delay]", "2h")
    page.fill("details[open] input[name=reason]", "the archive is full")
    page.click("details[open] button:has-text('Snooze')")
    expect(page.locator("#answer")).to_contain_text("The job is snoozed until")
    expect(page.locator(".story")).to_contain_text("the archive is full")
    assert shop.app.job(job.id).due_at > job.due_at


def test_jobs_are_chosen_by_key_and_the_list_stands_still_meanwhile(visit: Visit, shop: Shop) -> None:
    page = visit.open("/jobs?state=failed&kind=charge&owner=globex")
    expect(page.locator(".bulk")).to_be_hidden()
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.locator(".bulk strong")).to_have_text("2 selected.")
    chosen = page.locator("input[name=job]:checked").evaluate_all("boxes => boxes.map(box => box.value)")
    page.keyboard.press("r")
    expect(page.locator("h1")).to_have_text("Retry 2 jobs.")
    page.fill("input[name=reason]", "the key was renewed")
    page.click("button:has-text('Begin: 2 jobs')")
    page.wait_for_url("**/redrives/*")
    (operation,) = shop.app.redrives(limit=1)
    assert set(operation.filter.ids or ()) == set(chosen) and operation.reason == "the key was renewed"
    # That page is tested elsewhere.
    forget_errors(visit)


def test_the_filter_is_typed_and_taken_away(visit: Visit) -> None:
    page = visit.open("/jobs?state=failed")
    page.fill("#jobs-filter", "kind:charge owner:acme")
    page.keyboard.press("Enter")
    expect(page.locator(".token")).to_have_count(2)
    assert page.url.endswith("/jobs?state=failed&kind=charge&owner=acme")
    page.click("a[aria-label='Remove kind charge']")
    assert page.url.endswith("/jobs?state=failed&owner=acme")
    page.click("summary:has-text('Fields…')")
    page.fill(".fields input[name=code]", "HTTP_4XX")
    page.click("button:has-text('Show these jobs')")
    assert page.url.endswith("/jobs?state=failed&owner=acme&code=HTTP_4XX")


def test_secrets_are_shown_by_a_click_that_is_recorded(visit: Visit, shop: Shop) -> None:
    page = visit.open(f"/jobs/{shop.jobs['held']}")
    assert "tok-secret-value" not in page.content()
    page.click("button:has-text('Show secrets')")
    expect(page.locator("h1")).to_have_text("Arguments and result, as they are stored.")
    assert "tok-secret-value" in page.content()
    with page.expect_download() as download:
        page.click("section:has(#arguments) button:has-text('Download')")
    assert download.value.suggested_filename.endswith("-arguments.json.txt")
    assert [entry.action for entry in shop.app.audit(limit=2)] == [
        "POST /jobs/{job_id}/download",
        "POST /jobs/{job_id}/reveal",
    ]


def test_without_scripts_everything_can_be_read_and_used(browser: Browser, site: Site, shop: Shop) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        plain = Visit(context, site, site.admin.token)
        job = shop.add("plain", "archive", "2026-04", options={"delay": "1h", "owner": "plain"})
        page = plain.open("/jobs?owner=plain")
        expect(page.locator(".bulk")).to_be_visible()
        page.check(f"input[value='{job.id}']")
        page.click("button:has-text('Cancel…')")
        expect(page.locator("h1")).to_have_text("1 job can be cancelled.")
        page = plain.open(f"/jobs/{job.id}")
        page.click("summary:has-text('Cancel…')")
        page.click("button:has-text('Cancel the job')")
        expect(page.locator("h1")).to_contain_text("It was cancelled by on-call")
        assert shop.app.job(job.id).state is State.CANCELLED
    finally:
        context.close()


# What is stored is shown as it is written, and never runs.


def seed_nasty(shop: Shop) -> list[str]:
    """A job with the string in every field that can hold it, and its pages."""
    app = shop.app

    @app.task(name="nasty")
    def nasty(text: str, more: dict[str, str]) -> None:
        raise FinalError(NASTY, code="NASTY")

    batch = app.batch(NASTY, owner=NASTY)
    failed = nasty.options(owner=NASTY, tags=[NASTY], queue=NASTY, dedupe=NASTY, batch=batch).enqueue(
        NASTY, {NASTY: NASTY}
    )
    batch.publish()
    shop.run()
    app.release_key(failed.id, actor=NASTY, reason=NASTY)
    app.retry(failed.id, actor=NASTY, reason=NASTY)
    shop.run()
    waiting = nasty.options(owner=NASTY, tags=[NASTY], queue=NASTY, delay="1h").enqueue(NASTY, {NASTY: NASTY})
    app.pause(queue=NASTY, actor=NASTY, reason=NASTY)
    held = nasty.options(owner=NASTY, queue=NASTY).enqueue(NASTY, {NASTY: NASTY})
    worker = WorkerRecord(incarnation=NASTY, host=NASTY, pid=1, queues=None, kinds=("nasty",), concurrency=1)
    app.store.beat(Beat(worker=worker, lease=app.settings.worker_lease_ttl))
    assert app.job(failed.id).state is JobState.FAILED
    paths = [f"/jobs/{job.id}{more}" for job in (failed, waiting, held) for more in ("", "/events")]
    return [*paths, "/jobs?state=failed", "/jobs?state=waiting", "/jobs?view=held", "/jobs/bulk/run-now?state=failed"]


def check_inert(page: Page) -> None:
    assert page.evaluate("window.__pwned") is None
    assert page.locator("img[src=x], main script").count() == 0
    assert "4011" not in page.content()


def test_stored_markup_is_text_on_every_page(visit: Visit, shop: Shop) -> None:
    paths = seed_nasty(shop)
    for path in paths:
        page = visit.open(path)
        for details in page.locator("main details").all():
            details.evaluate("each => { each.open = true }")
        check_inert(page)
        if "bulk" not in path:
            assert "<script>window.__pwned=1</script>" in page.locator("main").inner_text(), path
    filtered = visit.page.goto(visit.site.base + "/jobs?state=failed&owner=" + NASTY.replace("&", "%26"))
    assert filtered is not None and filtered.status == 200
    check_inert(visit.page)
    expect(visit.page.locator(".token")).to_contain_text("<script>window.__pwned=1</script>")


def test_a_refusal_shows_what_was_typed_as_text(visit: Visit) -> None:
    visit.page.goto(visit.site.base + "/jobs")
    visit.page.fill("#jobs-filter", NASTY)
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#jobs-filter-problem")).to_contain_text("must be")
    check_inert(visit.page)
    # The browser notes the status of the page.
    forget_errors(visit)


def test_an_empty_dashboard_teaches_how_to_begin(context: BrowserContext, tmp_path: object) -> None:
    shop = Shop(f"sqlite:///{tmp_path}/empty.db")
    with serve(shop.app) as site:
        visit = Visit(context, site, site.admin.token)
        page = visit.open("/jobs")
        expect(page.locator("h1")).to_have_text("No job is stored.")
        expect(page.locator("main")).to_contain_text("convert.enqueue(")
        assert find_violations(visit.open("/")) == []
        close_page(page)
    shop.app.close()
