"""The pages of batches: each state and each form over HTTP on both stores, and the page in a browser."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from seed_services import Shop, open_shop
from site_server import Site, hidden_fields, serve

from mulligan.records.key import Scope
from mulligan.web.pages import batches

STORES = ("sqlite", "postgres")
# Fails for good, succeeds.
BAD, GOOD = 3, 1


@pytest.fixture(scope="module", params=STORES)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    url = f"sqlite:///{tmp_path_factory.mktemp('batches')}/jobs.db?synchronous=normal"
    if request.param == "postgres":
        url = request.getfixturevalue("server").fresh_database("batch_pages")
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


def make(shop: Shop, name: str, *numbers: int, owner: str = "globex", is_published: bool = True, **options: Any) -> str:
    """A batch whose members have run."""
    batch = shop.app.batch(name, owner=owner, **options)
    batch.add(*(shop.tasks["watermark"].bind(number) for number in numbers))
    if is_published:
        batch.publish()
        shop.run()
        shop.app.run_duty("project")
    return batch.id


def title(html: str) -> str:
    (found,) = re.findall(r"<h1>(.*?)</h1>", html, re.DOTALL)
    return re.sub(r"<[^>]+>", "", found)


def answer(response: httpx.Response) -> str:
    (found,) = re.findall(r'id="answer".*?<p>(.*?)</p>(?:<p class="quiet">(.*?)</p>)?', response.text, re.DOTALL)
    return " ".join(found).strip()


def test_without_batches_the_page_says_what_a_batch_is(site: Site) -> None:
    shown = site.client(site.key("nobody-yet")).get("/batches")
    assert title(shown.text) == "There are no batches yet." and "batch.publish()" in shown.text


def test_the_list_shows_states_and_counts_and_filters(site: Site, shop: Shop, client: httpx.Client) -> None:
    partial, ready = make(shop, "some of it", GOOD, BAD), make(shop, "all of it", GOOD)
    draft = make(shop, "not yet", GOOD, owner="acme", is_published=False)
    shown = client.get("/batches").text
    assert "succeeded in part" in title(shown)
    for batch_id in (partial, ready, draft):
        assert f'id="batch-{batch_id}"' in shown
    assert "1 succeeded, 1 failed of 2" in shown
    only = client.get("/batches", params={"state": "partial", "owner": "globex"}).text
    assert f'id="batch-{partial}"' in only and f'id="batch-{ready}"' not in only
    assert "No batch matches." in client.get("/batches", params={"state": "expired"}).text
    assert client.get("/batches", params={"state": "odd"}).status_code == 400


def test_an_owner_sees_its_own_batches_only(site: Site, shop: Shop) -> None:
    theirs, ours = make(shop, "theirs", GOOD), make(shop, "ours", BAD, owner="acme")
    acme = site.client(site.key("acme"))
    shown = acme.get("/batches", params={"owner": "globex"}).text
    assert f'id="batch-{ours}"' in shown and f'id="batch-{theirs}"' not in shown
    assert acme.get(f"/batches/{ours}").status_code == 200
    assert acme.get(f"/batches/{theirs}").status_code == 404
    assert "https://" not in shown and site.client().get("/batches/none").status_code == 404


def test_older_batches_are_on_the_next_page(
    site: Site, shop: Shop, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [make(shop, f"number {number}", GOOD, owner="pages") for number in range(3)]
    monkeypatch.setattr(batches, "SIZE", 2)
    first = client.get("/batches", params={"owner": "pages"}).text
    assert ids[2] in first and ids[1] in first and f'id="batch-{ids[0]}"' not in first
    (following,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = client.get(following.replace("&amp;", "&")).text
    assert f'id="batch-{ids[0]}"' in second and 'rel="next"' not in second


def test_a_partial_batch_says_why_members_failed(shop: Shop, client: httpx.Client) -> None:
    batch_id = make(shop, "spring <b>campaign</b>", GOOD, BAD, expires_in="7d", abort_above=0.9)
    shown = client.get(f"/batches/{batch_id}").text
    assert title(shown) == "1 of 2 succeeded, 1 failed."
    assert "spring &lt;b&gt;campaign&lt;/b&gt;" in shown and "<b>campaign" not in shown
    assert "Mailbox full" in shown and "MAILBOX_FULL" in shown and "1 cause" in shown
    assert "Generation 1 settled, partial: 1 of 2 succeeded." in shown and "Published with 2 members." in shown
    assert (
        f"/jobs?batch={batch_id}" in shown and f"/jobs/export?format=csv&amp;state=failed&amp;batch={batch_id}" in shown
    )
    assert "90 % failed" in shown and re.search("in [67] d<", shown)
    assert re.search(rf'sse-connect="/live\?after=\d+&amp;batch={batch_id}"|/live\?after=\d+&batch={batch_id}"', shown)


def test_failed_members_are_retried_once(site: Site, shop: Shop, client: httpx.Client) -> None:
    batch_id = make(shop, "again", GOOD, BAD)
    page = f"/batches/{batch_id}"
    fields = {**hidden_fields(client.get(page).text), "reason": "the mailbox is empty"}
    assert answer(client.post(f"{page}/retry", data=fields)) == "1 member starts again."
    shop.run()
    # The same form once more is the same request.
    assert answer(client.post(f"{page}/retry", data=fields)) == "1 member starts again."
    shown = client.get(page).text
    assert "generation 2" in shown and "generation 3" in shown and "“the mailbox is empty”" in shown
    assert "1 member retried by on-call" in shown
    assert shop.app.find_batch(batch_id).generation == 2


def test_a_draft_is_published_and_a_batch_is_cancelled(site: Site, shop: Shop, client: httpx.Client) -> None:
    batch_id = make(shop, "draft", GOOD, GOOD, is_published=False)
    page = f"/batches/{batch_id}"
    assert "It has not been published." in client.get(page).text
    done = site.post(client, page, f"{page}/publish")
    assert answer(done) == "The batch is published: 2 members may run."
    done = site.post(client, page, f"{page}/cancel", reason="wrong list")
    assert answer(done) == "The batch is cancelled: 2 members in all."
    assert title(done.text) == "None of 2 members succeeded, 2 were cancelled."
    assert "Retry cancelled…" in done.text and "Cancel…" not in done.text
    done = site.post(client, page, f"{page}/retry")
    assert answer(done) == "No member was retried. None has failed."
    done = site.post(client, page, f"{page}/retry", cancelled="true")
    assert answer(done) == "2 members start again."
    shop.run()
    assert title(client.get(page).text) == "All 2 members succeeded."


def test_what_the_engine_refuses_is_an_answer_on_the_page(site: Site, shop: Shop, client: httpx.Client) -> None:
    # Over before it is settled.
    batch_id = make(shop, "old", BAD, expires_in="1ms")
    page = f"/batches/{batch_id}"
    shown = client.get(page).text
    assert "so its members cannot be retried" in shown and f'action="{page}/retry"' not in shown
    done = client.post(f"{page}/retry", data=hidden_fields(client.get("/help").text) | {"back": page})
    assert done.url.path == page and "has expired" in answer(done) and "answer is-failed" in done.text


def test_a_key_without_the_scope_is_offered_nothing(site: Site, shop: Shop) -> None:
    batch_id = make(shop, "look only", BAD, owner="acme")
    reader = site.client(site.key("acme", Scope.JOBS_READ))
    shown = reader.get(f"/batches/{batch_id}")
    assert "Retry 1 failed…" not in shown.text and '<form class="ask"' not in shown.text
    fields = hidden_fields(reader.get("/help").text)
    assert reader.post(f"/batches/{batch_id}/retry", data=fields).status_code == 403
