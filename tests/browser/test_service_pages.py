"""The pages of services: each form over HTTP on both stores, families with many members, and the page in a browser."""

import html
import re
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from seed_services import Shop, open_shop
from site_server import Site, hidden_fields, serve

from mulligan.records.key import Scope
from mulligan.service.records import ServiceRequest
from mulligan.web.pages import services

STORES = ("sqlite", "postgres")
STRANGE = "site:a/b?c#d&e <i>'\"%"


@pytest.fixture(scope="module", params=STORES)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    url = f"sqlite:///{tmp_path_factory.mktemp('services')}/jobs.db?synchronous=normal"
    if request.param == "postgres":
        url = request.getfixturevalue("server").fresh_database("service_pages")
    found = open_shop(url)
    found.app.migrate()
    yield found
    found.app.close()


@pytest.fixture(scope="module")
def site(shop: Shop) -> Iterator[Site]:
    with serve(shop.app) as found:
        yield found


@pytest.fixture(scope="module")
def client(site: Site) -> httpx.Client:
    return site.client()


def title(text: str) -> str:
    (found,) = re.findall(r"<h1>(.*?)</h1>", text, re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", found))


def answer(response: httpx.Response) -> str:
    (found,) = re.findall(r'id="answer".*?<p>(.*?)</p>(?:<p class="quiet">(.*?)</p>)?', response.text, re.DOTALL)
    return html.unescape(" ".join(found).strip())


def test_a_service_is_kept_open_and_closed_and_set_back(site: Site, shop: Shop, client: httpx.Client) -> None:
    page = "/services/gateway"
    assert title(client.get(page).text) == "gateway is well."
    shop.tasks["convert"].enqueue(1)
    done = site.post(client, page, f"{page}/open", reason="maintenance")
    assert answer(done).startswith("gateway is kept open.")
    assert re.fullmatch(r"gateway has been kept open since [\d:]+\. 1 job waits for it\.", title(done.text))
    assert "“maintenance”" in done.text and "Kept open by on-call" in done.text
    done = site.post(client, page, f"{page}/close")
    assert answer(done).startswith("gateway is kept closed.")
    assert shop.app.service("gateway").status.forced == "closed"
    done = site.post(client, page, f"{page}/auto", reason="enough")
    assert answer(done) == "gateway is automatic again: its calls decide."
    assert shop.app.service("gateway").status.forced is None
    site.post(client, page, f"{page}/open")
    done = site.post(client, page, f"{page}/auto")
    assert answer(done).endswith("A probe comes first.")
    assert title(done.text) == "gateway is being probed. 1 job waits for it."
    shop.run()
    assert shop.app.service("gateway").status.state == "closed"


def test_a_form_that_is_sent_twice_is_carried_out_once(site: Site, shop: Shop, client: httpx.Client) -> None:
    fields = {**hidden_fields(client.get("/services/smtp").text), "reason": "once"}
    for _ in range(2):
        assert answer(client.post("/services/smtp/open", data=fields)).startswith("smtp is kept open.")
    assert [event.data["to"] for event in shop.app.history(service="smtp")] == ["open"]


def test_a_service_is_paused_for_a_time_and_resumed(site: Site, shop: Shop, client: httpx.Client) -> None:
    page = "/services/maps"
    done = site.post(client, page, f"{page}/pause", duration="30m", reason="moving")
    assert answer(done) == "maps is paused for 30m."
    assert (
        title(done.text).startswith("maps is paused until ") and "By on-call" in done.text and "“moving”" in done.text
    )
    assert "Paused by on-call" in done.text and "for 30 min" in done.text
    assert answer(site.post(client, page, f"{page}/resume")) == "maps is resumed."
    assert answer(site.post(client, page, f"{page}/resume")) == "maps was not paused."
    assert answer(site.post(client, page, f"{page}/pause")) == "maps is paused until it is resumed."
    site.post(client, page, f"{page}/resume")
    refused = site.post(client, page, f"{page}/pause", duration="soon")
    assert "is-failed" in refused.text and "soon" in answer(refused) and title(refused.text) == "maps is well."


def test_a_strange_name_is_escaped_and_its_forms_work(site: Site, shop: Shop, client: httpx.Client) -> None:
    page = f"/services/{quote(STRANGE, safe='/')}"
    done = site.post(client, page, f"{page}/open", reason="<script>alert(1)</script>")
    assert title(done.text).startswith(f"{STRANGE} has been kept open")
    assert "<i>" not in done.text.partition("<main")[2] and "<script>alert" not in done.text
    assert shop.app.service(STRANGE).status.forced == "open"
    listed = client.get("/services", params={"q": "A/B?"}).text
    (link,) = re.findall(r'data-open href="([^"]+)"', listed)
    assert title(client.get(html.unescape(link)).text).startswith(STRANGE)
    site.post(client, page, f"{page}/auto")


def test_an_unknown_service_is_not_found_and_a_pattern_cannot_be_forced(site: Site, client: httpx.Client) -> None:
    assert client.get("/services/gatway").status_code == 404
    shown = client.get("/services/site:*").text
    assert title(shown) == "site:* is a pattern." and "Keep open…" not in shown and "/services?q=site%3A" in shown
    assert client.get("/services/gateway", params={"range": "9y"}).status_code == 400
    for time in ("3h", "24h", "7d"):
        assert client.get("/services/gateway", params={"range": time}).status_code == 200


def test_the_list_shows_what_calls_for_attention_first_and_says_what_is_left_out(
    site: Site, shop: Shop, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        request = ServiceRequest(id=f"crowd-{number}", name=f"site:crowd-{number}.example", to="open")
        shop.app.store.force(request)
    monkeypatch.setattr(services, "SIZE", 3)
    shown = client.get("/services", params={"q": "crowd"}).text
    assert len(re.findall("data-row", shown)) == 3
    assert "7 services of" in shown and "4 more on the next pages" in shown and "<b>site:</b>" in shown
    seen = []
    following: str | None = "/services?q=crowd"
    while following:
        shown = client.get(following).text
        seen += re.findall(r'id="service-([^"]+)"', shown)
        found = re.findall(r'rel="next" href="([^"]+)"', shown)
        following = html.unescape(found[0]) if found else None
    assert seen == [f"site:crowd-{number}.example" for number in range(7)]
    assert "No service matches" in client.get("/services", params={"q": "none such"}).text
    # A cursor of somewhere else begins at the beginning.
    assert client.get("/services", params={"cursor": "odd"}).status_code == 200
    assert client.get("/services").text.index("kept open") >= 0


def test_services_are_for_administrators(site: Site) -> None:
    owner = site.client(site.key("acme"))
    assert owner.get("/services").status_code == owner.get("/services/gateway").status_code == 403
    reader = site.client(site.key(None, Scope.JOBS_READ))
    shown = reader.get("/services/gateway")
    assert shown.status_code == 200 and "Keep open…" not in shown.text and "Pause…" not in shown.text
    fields = hidden_fields(reader.get("/help").text)
    for action in ("open", "close", "auto", "pause", "resume"):
        assert reader.post(f"/services/gateway/{action}", data=fields).status_code == 403


def test_without_services_the_page_says_what_a_service_is(tmp_path_factory: pytest.TempPathFactory) -> None:
    from mulligan import App

    app = App(f"sqlite:///{tmp_path_factory.mktemp('none')}/jobs.db?synchronous=normal")
    with serve(app) as site:
        shown = site.client().get("/services").text
    app.close()
    assert title(shown) == "No task has a service yet." and "@app.task(service=" in shown
