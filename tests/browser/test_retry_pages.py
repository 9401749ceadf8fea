"""The page about retries: over HTTP on both stores, and in a browser."""

import html
import re
from collections.abc import Iterator

import pytest
from seed_services import Shop, open_shop
from site_server import Site, serve

STORES = ("sqlite", "postgres")


@pytest.fixture(scope="module", params=STORES)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    url = f"sqlite:///{tmp_path_factory.mktemp('retries')}/jobs.db?synchronous=normal"
    if request.param == "postgres":
        url = request.getfixturevalue("server").fresh_database("retry_pages")
    found = open_shop(url)
    found.app.migrate()
    yield found
    found.app.close()


@pytest.fixture(scope="module")
def site(shop: Shop) -> Iterator[Site]:
    with serve(shop.app) as found:
        yield found


def title(text: str) -> str:
    (found,) = re.findall(r"<h1>(.*?)</h1>", text, re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", found)).replace("\N{NO-BREAK SPACE}", " ")


def retry_by_hand(shop: Shop, kind: str, number: int, owner: str) -> None:
    """A job that fails, waits, and is run again without waiting."""
    job = shop.tasks[kind].options(owner=owner).enqueue(number)
    for _ in range(3):
        shop.run()
        if not shop.app.job(job.id).state.is_final:
            shop.app.run_now(job.id)
    shop.run()


def test_the_page_follows_the_statistics(site: Site, shop: Shop) -> None:
    client, acme = site.client(), site.client(site.key("acme"))
    empty = client.get("/retries").text
    assert title(empty) == "No attempt ended in the last 24 hours." and "limits={" in empty
    shop.tasks["watermark"].options(owner="other").enqueue(1)
    shop.run()
    late = client.get("/retries").text
    shop.app.run_duty("project")
    calm = client.get("/retries").text
    assert title(late) == "No attempt ended in the last 24 hours." and "Nothing to judge." in calm
    assert title(calm) == "No job had to be retried in the last 24 hours."
    for _ in range(6):
        retry_by_hand(shop, "charge", 9, "other")
    shop.weather.down = {"smtp"}
    job = shop.tasks["send_mail"].options(owner="acme").enqueue(1)
    shop.run()
    shop.weather.down = set()
    shop.app.run_now(job.id)
    shop.run()
    shop.app.run_duty("project")

    shown = client.get("/retries").text
    assert title(shown) == "Retries recovered 14 % of 7 retried jobs."
    assert "Retries of NO_FUNDS never helped: 12 attempts" in shown and "Make it final." in shown
    assert 'href="/policies/kinds/charge"' in shown
    for part in ("<code>charge</code> NO_FUNDS", "<code>send_mail</code> SMTP_4XX", "Which attempt succeeds?", "Trend"):
        assert part in shown
    for time in ("7d", "30d"):
        assert title(client.get("/retries", params={"range": time}).text) == title(shown)
    one = client.get("/retries", params={"kind": "send_mail"}).text
    assert title(one) == "Retries recovered the one retried job." and "NO_FUNDS" not in one
    assert client.get("/retries", params={"range": "9y"}).status_code == 400

    # An owner sees its own, and no way to the policies.
    own = acme.get("/retries").text
    assert title(own) == "Retries recovered the one retried job." and "NO_FUNDS" not in own
    assert "/policies" not in own.partition("<main")[2]
