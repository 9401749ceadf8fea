"""The pages of failures: the list, a group, the preview of a retry, redrives and the search, on both stores, and the
way from 500 failed jobs to retried ones in a browser."""

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from seed_failures import Shop, a_day, add_history
from site_server import Site, hidden_fields, serve
from visit import Visit, find_violations

from live import SOON, eventually, working
from mulligan import JobFilter
from mulligan.records.key import Scope
from mulligan.records.redrive import RedriveState
from mulligan.web.pages.retry import has_grown

STORES = ("sqlite", "postgres")


def open_shop(request: pytest.FixtureRequest, store: str, name: str) -> Shop:
    if store == "sqlite":
        folder = request.getfixturevalue("tmp_path_factory").mktemp(name)
        return Shop(f"sqlite:///{folder}/jobs.db")
    return Shop(request.getfixturevalue("server").fresh_database(name))


@pytest.fixture(scope="module", params=STORES)
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A day of history, and a failure of each sort."""
    found = open_shop(request, request.param, "failure_pages")
    found.app.migrate()
    found.fail("hello", 0)
    add_history(found.app, a_day(found.app.store.now()))
    found.fail("charge", 12, tags=["order"])
    found.fail("watermark", 3)
    yield found
    found.app.close()


@pytest.fixture(scope="module")
def site(shop: Shop) -> Iterator[Site]:
    with serve(shop.app) as found:
        yield found


@pytest.fixture(scope="module")
def client(site: Site) -> httpx.Client:
    return site.client()


def text_of(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def title(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    (found,) = re.findall(r"<h1[^>]*>(.*?)</h1>", response.text, re.DOTALL)
    return text_of(found)


def answer(response: httpx.Response) -> str:
    (found,) = re.findall(r'id="answer".*?<p>(.*?)</p>', response.text, re.DOTALL)
    return html.unescape(found)


def listed(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return re.findall(r'id="group-(\w+)"', response.text)


def group_of(shop: Shop, kind: str) -> Any:
    (found,) = shop.app.failures(kind=kind).groups
    return found


# The list


def test_the_first_page_lists_groups_by_impact(shop: Shop, client: httpx.Client) -> None:
    page = client.get("/")
    assert title(page) == "12 of 15 failed jobs have one cause."
    groups = [group.id for group in shop.app.failures().groups if group.kind != "sync_stock"]
    assert listed(page) == [*groups, group_of(shop, "sync_stock").id], "what retries cope with comes last"
    assert "Retries cope with these" in page.text and "401 Unauthorized: the API key is not valid" in page.text
    assert 'href="/failures/{}/retry"'.format(group_of(shop, "charge").id) in page.text
    assert len(page.content) < 150_000


def test_filters_are_in_the_address(shop: Shop, client: httpx.Client) -> None:
    charge, watermark = group_of(shop, "charge"), group_of(shop, "watermark")
    assert listed(client.get("/?kind=charge")) == [charge.id]
    assert listed(client.get("/?code=PROGRAM_FAILED&order=failures&range=7d")) == [watermark.id]
    page = client.get("/?kind=charge&code=NONE")
    assert "No group matches." in page.text and listed(page) == []
    assert "Nothing is ignored." in client.get("/?state=ignored").text
    assert "Nothing is resolved." in client.get("/?state=resolved").text
    by_failures = [shop.app.failure(each).failures for each in listed(client.get("/?state=all&order=failures"))]
    assert by_failures[0] == max(by_failures)


@pytest.mark.parametrize("chosen", ["1h", "24h", "7d", "30d"])
def test_the_chart_covers_the_chosen_time(client: httpx.Client, chosen: str) -> None:
    page = client.get("/", params={"range": chosen})
    assert re.search(r'class="chart wide".*?class="f-failed"', page.text, re.DOTALL)


@pytest.mark.parametrize(
    "query", ["state=lost", "range=2h", "order=x", "cursor=x", "cursor=-1", "kind=a&kind=b", "x=1"]
)
def test_terms_that_do_not_fit_are_refused(client: httpx.Client, query: str) -> None:
    refused = client.get(f"/?{query}")
    assert refused.status_code == 400 and "VALIDATION_ERROR" in refused.text


def test_pages_of_groups_are_a_full_scan(shop: Shop, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mulligan.web.pages.failures.PAGE_SIZE", 2)
    found, address = [], "/?state=all"
    while address:
        page = client.get(address)
        found += listed(page)
        more = re.search(r'rel="next" href="([^"]+)"', page.text)
        address = html.unescape(more[1]) if more else ""
    assert sorted(found) == sorted(group.id for group in shop.app.failures().groups)
    assert len(found) == len(set(found)) > 3


# One group


def test_a_group_shows_what_it_is(shop: Shop, client: httpx.Client) -> None:
    group = group_of(shop, "charge")
    page = client.get(f"/failures/{group.id}")
    assert title(page) == "401 Unauthorized: the API key is not valid"
    shown = text_of(page.text)
    for expected in ("12 jobs failed for good", "Only version 1.8.2 has it", "began here", "Retry 12 jobs", "payments"):
        assert expected in shown
    assert "HTTP_4XX is final: a retry cannot help." in shown and "Rule raised" in shown
    assert '<span class="mine">' in page.text and "mulligan/worker" not in page.text
    assert page.text.count('id="job-') == 10
    for by in ("minute", "hour", "day"):
        assert "chart wide" in client.get(f"/failures/{group.id}?by={by}").text


def test_a_group_that_does_not_exist_is_not_found(site: Site, client: httpx.Client) -> None:
    assert client.get("/failures/0123456789ab").status_code == 404
    assert client.get("/failures/0123456789ab/retry").status_code == 404
    fields = hidden_fields(client.get("/").text) or hidden_fields(client.get("/help").text)
    assert client.post("/failures/0123456789ab/resolve", data={**fields, "back": ""}).status_code == 404


def test_a_group_is_ignored_resolved_and_reopened(site: Site, shop: Shop, client: httpx.Client) -> None:
    group = group_of(shop, "watermark").id
    page = f"/failures/{group}"
    done = site.post(client, page, f"{page}/ignore", duration="7d", growth="10", reason="the customer knows")
    assert answer(done) == "The group is ignored."
    found = shop.app.failure(group)
    assert (found.state, found.ignored_below, found.reason) == ("ignored", 30, "the customer knows")
    assert found.decided_by is not None and "on-call" in found.decided_by
    assert "Ignored by on-call" in text_of(done.text) and "Reopen" in done.text
    assert listed(client.get("/?state=ignored")) == [group] and group not in listed(client.get("/"))
    assert answer(site.post(client, page, f"{page}/reopen")) == "The group is open again."
    done = site.post(client, page, f"{page}/resolve", reason="fixed in 1.8.3")
    assert answer(done) == "The group is resolved." and done.url.path == "/"
    assert listed(client.get("/?state=resolved")) == [group]
    assert "Resolved by on-call" in text_of(client.get(page).text)
    site.post(client, page, f"{page}/reopen")
    assert shop.app.failure(group).state == "open"


@pytest.mark.parametrize("fields", [{"growth": "1"}, {"growth": "x"}, {"duration": "soon"}, {"duration": "0s"}])
def test_a_wrong_term_changes_nothing(site: Site, shop: Shop, client: httpx.Client, fields: dict[str, str]) -> None:
    group = group_of(shop, "watermark").id
    refused = site.post(client, f"/failures/{group}", f"/failures/{group}/ignore", **fields)
    assert refused.status_code == 400 or "is-failed" in refused.text.split('id="answer"')[0][-60:]
    assert shop.app.failure(group).state == "open"


# Retry


def test_a_preview_counts_and_changes_nothing(shop: Shop, client: httpx.Client) -> None:
    group = group_of(shop, "charge").id
    before, redrives = shop.app.last_position(), shop.app.redrives()
    page = client.get(f"/failures/{group}/retry")
    assert title(page) == "Retry 12 failed jobs, 5 first."
    assert 'name="seen" value="12"' in page.text
    page = client.get("/retry?kind=charge&state=failed")
    assert title(page) == "Retry 12 failed jobs, 5 first."
    assert 'name="kind" value="charge"' in page.text
    assert title(client.get("/retry?kind=none")) == "There is nothing to retry."
    assert client.get("/retry?state=running").status_code == 400
    assert shop.app.last_position() == before and shop.app.redrives() == redrives


def test_a_preview_of_more_jobs_than_can_be_counted_says_so(
    shop: Shop, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.store.counts.MOST_READ", 5)
    for path in ("/retry?kind=charge", f"/failures/{group_of(shop, 'charge').id}/retry"):
        page = client.get(path)
        assert re.fullmatch(r"Retry \d or more failed jobs\.", title(page)), title(page)
        assert 'name="seen"' not in page.text
        counted = re.search(r'href="([^"]+count=all)"', page.text)
        assert counted is not None
        assert title(client.get(html.unescape(counted[1]))) == "Retry 12 failed jobs, 5 first."
    # The one job that is counted is of one kind: for the other, all are counted.
    monkeypatch.setattr("mulligan.store.counts.MOST_READ", 1)
    titles = [title(client.get(f"/retry?kind={kind}")) for kind in ("charge", "watermark")]
    assert not [each for each in titles if "Retry 0" in each], titles


def test_a_retry_begins_once_and_is_followed(site: Site, shop: Shop, client: httpx.Client) -> None:
    group = group_of(shop, "charge").id
    page = f"/failures/{group}/retry"
    fields = hidden_fields(client.get(page).text) | {"seen": "12", "reason": "the key is right", "rate": "20/s"}
    begun = [client.post(page, data=fields | {"canary": "3", "stop_above": "40"}) for _ in range(2)]
    redrive, *older = shop.app.redrives()
    assert {each.url.path for each in begun} == {f"/redrives/{redrive.id}"}
    assert all(each.state.is_over for each in older)
    assert (redrive.canary, redrive.abort_above, redrive.rate.text, redrive.matched) == (3, 0.4, "20/s", 12)
    assert redrive.reason == "the key is right" and "on-call" in str(redrive.actor)
    assert answer(begun[0]) == "It has begun."
    assert title(client.get(f"/redrives/{redrive.id}")) == "3 canaries go first."
    shown = client.get("/redrives")
    assert title(shown) == "1 redrive is going on." and "Retry charge, HTTP_4XX" in shown.text
    stopped = site.post(client, f"/redrives/{redrive.id}", f"/redrives/{redrive.id}/stop", reason="wrong group")
    assert answer(stopped) == "It is stopped." and title(stopped) == "It was stopped after 0 of 12 jobs."
    assert shop.app.redrive_status(redrive.id).state is RedriveState.CANCELLED
    assert title(client.get("/redrives")) == "No redrive is going on."


def test_a_filter_is_retried(site: Site, shop: Shop, client: httpx.Client) -> None:
    done = site.post(
        client, "/retry?kind=watermark", "/retry/begin", kind="watermark", state="failed", seen="3", rate="9/s"
    )
    redrive = shop.app.redrives()[0]
    assert done.url.path == f"/redrives/{redrive.id}" and redrive.filter.kind == "watermark"
    shop.app.cancel_redrive(redrive.id)
    refused = site.post(client, "/retry?kind=watermark", "/retry/begin", kind="watermark", rate="often")
    assert "is not a rate" in text_of(refused.text) and shop.app.redrives()[0].id == redrive.id
    done = site.post(client, "/retry?kind=none", "/retry/begin", kind="none")
    assert answer(done) == "Nothing has begun: no job matches any more."


def test_many_more_jobs_than_were_shown_are_not_retried(site: Site, shop: Shop, client: httpx.Client) -> None:
    page = f"/failures/{group_of(shop, 'charge').id}/retry"
    before = len(shop.app.redrives())
    done = site.post(client, page, page, seen="2")
    assert answer(done) == "Nothing has begun: 12 jobs match now, and 2 did when you looked."
    assert done.url.path == page and len(shop.app.redrives()) == before
    assert [has_grown(*each) for each in ((560, 498), (552, 498), (7, 2), (8, 2), (9, None))] == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_a_redrive_that_does_not_exist_is_not_found(client: httpx.Client) -> None:
    assert client.get("/redrives/none").status_code == 404


# Who may do what


def test_an_owner_sees_its_own_failures_without_people_and_machines(site: Site, shop: Shop) -> None:
    owner = shop.app.jobs().jobs[0].owner
    client = site.client(site.key(owner))
    group = group_of(shop, "charge")
    page = client.get("/")
    own = shop.app.failure(group.id, owner=owner).failed
    assert f"Retry {own}…" in page.text and "Service " not in text_of(page.text).replace("Services", "")
    shown = client.get(f"/failures/{group.id}").text
    assert "Traceback" not in shown and "Technical detail is shown to administrators." in shown
    assert "Resolve" not in shown and "Ignore" not in shown and "seed_failures.py" not in shown
    others = {job.owner for job in shop.app.jobs(limit=1_000).jobs} - {owner, ""}
    assert not [name for name in others if f">{name}<" in shown]
    fields = hidden_fields(client.get(f"/failures/{group.id}/retry").text)
    assert client.post(f"/failures/{group.id}/resolve", data=fields).status_code == 403
    assert title(client.get("/redrives")) == "No redrives yet."
    for redrive in shop.app.redrives():
        assert client.get(f"/redrives/{redrive.id}").status_code == 404


def test_a_key_that_only_reads_is_offered_no_action(site: Site, shop: Shop) -> None:
    client = site.client(site.key(None, Scope.JOBS_READ))
    group = group_of(shop, "charge").id
    shown = client.get("/").text + client.get(f"/failures/{group}").text
    assert "/retry" not in shown.replace("/retries", "") and "/resolve" not in shown and "/ignore" not in shown
    assert client.get(f"/failures/{group}/retry").status_code == 403


# Find


def test_the_search_finds_ids_codes_kinds_owners_and_groups(shop: Shop, client: httpx.Client) -> None:
    group = group_of(shop, "charge")
    job = shop.app.jobs().jobs[0]
    redrive = shop.app.redrive(JobFilter(kind="watermark")).id
    shop.app.cancel_redrive(redrive)
    plain = httpx.Client(base_url=client.base_url, cookies=client.cookies, follow_redirects=False, timeout=SOON)

    def find(wanted: str) -> str:
        found = plain.get("/find", params={"q": wanted})
        return found.headers.get("location", title(found) if found.status_code == 200 else str(found.status_code))

    expected = {
        job.id: f"/jobs/{job.id}",
        job.id[-8:]: f"/jobs/{job.id}",
        job.id[-8:].upper(): f"/jobs/{job.id}",
        redrive: f"/redrives/{redrive}",
        group.id: f"/failures/{group.id}",
        "http_4xx": "/?code=HTTP_4XX&state=all",
        "charge": "/jobs?kind=charge",
        "acme": "/jobs?owner=acme",
        "payments": "/services/payments",
        "01a1ed99-1699-7e2a-afc4-000000000000": "Nothing is called that.",
        "nothing at all": "Nothing is called that.",
        "": "What are you looking for?",
        " ": "What are you looking for?",
    }
    with plain:
        assert {wanted: find(wanted) for wanted in expected} == expected
    # The beginning of an id is its time: several jobs have it.
    several = client.get("/find", params={"q": job.id[:8]})
    assert re.fullmatch(r"\d+ things are called that.", title(several)) and several.text.count("data-row") >= 5
    assert client.get("/find", params={"q": "x" * 201}).status_code == 400


def test_a_search_of_an_owner_finds_nothing_of_others(site: Site, shop: Shop) -> None:
    client = site.client(site.key("stranger"))
    job = shop.app.jobs().jobs[0]
    for wanted in (job.id, job.id[-8:], "HTTP_4XX", "charge", "acme", "payments", group_of(shop, "charge").id):
        assert title(client.get("/find", params={"q": wanted})) == "Nothing is called that.", wanted


# First run, notices, and the rest that needs a shop of its own


def test_the_first_run_teaches_three_steps(tmp_path: Any) -> None:
    shop = Shop(f"sqlite:///{tmp_path}/jobs.db")
    with serve(shop.app) as site:
        page = site.client().get("/")
        assert (
            title(page) == "No jobs yet." and "None has been seen." in page.text and page.text.count('class="n"') == 3
        )
        shop.task("hello").enqueue("you")
        page = site.client().get("/")
        assert title(page) == "Nothing needs you." and "What would stand here" in page.text
        shop.fail("convert", 12)
        shop.app.enqueue_many([shop.task("convert").bind(1)])
        page = text_of(site.client().get("/").text)
        assert "Service gateway has been down since" in page and "13 jobs are held , none has lost an attempt" in page
        shop.app.service("gateway").open(actor="ann", reason="maintenance")
        page = text_of(site.client().get("/").text)
        assert "has been kept open by ann since" in page and "maintenance" in page
        owner = site.client(site.key("acme"))
        assert "gateway has been" not in text_of(owner.get("/").text)
    shop.app.close()


# In a browser


@pytest.fixture(scope="module")
def incident(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    found = Shop(f"sqlite:///{tmp_path_factory.mktemp('incident')}/jobs.db")
    found.app.migrate()
    found.fail("watermark", 5)
    found.fail("charge", 500, began=timedelta(minutes=33))
    yield found
    found.app.close()


def test_an_incident_is_found_and_retried_in_four_clicks(incident: Shop, context: BrowserContext) -> None:
    """Five hundred jobs failed. A person finds the cause, retries them safely, and resolves it."""
    fixed = Shop(incident.app.settings.database_url, version="1.8.3")
    fixed.is_fixed = True
    with serve(incident.app) as site:
        visit = Visit(context, site, site.admin.token)
        page = visit.open("/")
        expect(page.locator("h1")).to_have_text("500 of 505 failed jobs have one cause.")
        page.click("text=401 Unauthorized: the API key is not valid")
        expect(page.locator("main")).to_contain_text("Only version 1.8.2 has it.")
        page.click("text=Retry 500 jobs…")
        expect(page.locator("h1")).to_have_text("Retry 500 failed jobs, 5 first.")
        page.fill("input[name=reason]", "the key is right in 1.8.3")
        page.fill("input[name=rate]", "2000/s")
        page.click("text=Begin: 500 jobs")
        expect(page.locator("h1")).to_have_text("5 canaries go first.")
        with working(fixed.app, concurrency=20):
            # Nothing is reloaded: the page follows.
            expect(page.locator("h1")).to_have_text("All 500 jobs were retried.", timeout=60_000)
            eventually(lambda: incident.app.counts().groups["succeeded"] == 500)
        page.click("text=Resolve the group")
        expect(page.locator("#answer")).to_contain_text("The group is resolved.")
        visit.check()
    assert incident.app.failures(kind="charge").groups[0].state == "resolved"
    (redrive,) = incident.app.redrives()
    assert (redrive.reason, redrive.retried) == ("the key is right in 1.8.3", 500)
    fixed.app.close()


def test_the_list_changes_while_it_is_looked_at_and_is_driven_by_keys(incident: Shop, context: BrowserContext) -> None:
    with serve(incident.app) as site:
        visit = Visit(context, site, site.admin.token)
        with visit.page.expect_response("**/live?*"):
            page = visit.open("/")
        before = page.locator("[data-row]").count()
        incident.fail("import_feed", 2)
        expect(page.locator("[data-row]")).to_have_count(before + 1)
        page.keyboard.press("j")
        expect(page.locator("[data-row].is-current")).to_have_count(1)
        page.keyboard.press("i")
        expect(page.locator("#ignore form")).to_be_visible()
        expect(page.locator("#ignore select")).to_be_focused()
        page.click("#ignore button:has-text('Ignore')")
        expect(page.locator("#answer")).to_contain_text("The group is ignored.")
        page.fill("#find", "watermark")
        page.keyboard.press("Enter")
        page.wait_for_url("**/jobs?kind=watermark")
        visit.errors.clear()
        visit.open("/")
        page.keyboard.press("j")
        page.keyboard.press("r")
        page.wait_for_url("**/retry")
        visit.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_can_be_read_by_everyone(incident: Shop, browser: Browser, scheme: Any) -> None:
    """In light colours on a desk, in dark ones on a phone."""
    width = 390 if scheme == "dark" else 1280
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    group = incident.app.failures().groups[0].id
    with serve(incident.app) as site:
        visit = Visit(context, site, site.admin.token)
        redrive = incident.app.redrive(JobFilter(kind="watermark")).id
        incident.app.cancel_redrive(redrive)
        paths = ["/", f"/failures/{group}", f"/redrives/{redrive}", f"/failures/{group}/retry", "/redrives", "/find"]
        for path in paths[: 3 if scheme == "dark" else None]:
            page = visit.open(path)
            assert find_violations(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        visit.check()
    context.close()
