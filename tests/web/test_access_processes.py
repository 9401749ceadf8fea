"""Several servers on one database share rates, marks and revocations."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from access_client import bearer, servers
from postgres_server import postgres_server

from live import SOON
from mulligan import App, FinalError, RetryPolicy
from mulligan.errors import SetupRefused

BUDGET = 30


@pytest.fixture(scope="module")
def server() -> Iterator[Callable[[str], str]]:
    with postgres_server(fsync="off", full_page_writes="off") as found:
        yield found.fresh_database


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    in_file = f"sqlite:///{tmp_path}/web.db"
    url = in_file if request.param == "sqlite" else request.getfixturevalue("server")("web")
    with App(url) as app:
        app.migrate()
        yield app


def test_a_budget_holds_for_both_servers_together(app: App) -> None:
    keys = [app.create_key(owner=owner, name="a").token for owner in ("acme", "other")]
    with servers(2, app.settings.database_url, rate=f"{BUDGET}/d") as addresses, httpx.Client(timeout=SOON) as client:

        def get(number: int) -> tuple[str, int]:
            key = keys[number % 2]
            address = addresses[number // 2 % 2]
            return key, client.get(f"{address}/jobs", headers=bearer(key), timeout=30).status_code

        with ThreadPoolExecutor(8) as threads:
            found = Counter(threads.map(get, range(6 * BUDGET)))
    for key in keys:
        # Within a day one more is refilled only after 48 minutes.
        assert found[key, 200] == BUDGET
        assert found[key, 429] == 2 * BUDGET


def test_a_revoked_key_is_refused_by_both_servers_within_a_second(app: App) -> None:
    created = app.create_key(owner="acme", name="a")
    with (
        servers(2, app.settings.database_url) as addresses,
        httpx.Client(headers=bearer(created.token), timeout=SOON) as client,
    ):
        for address in addresses:
            assert client.get(f"{address}/jobs", timeout=30).status_code == 200
        app.revoke_key(created.key.id)
        revoked, last_accepted = time.monotonic(), 0.0
        while time.monotonic() < revoked + 1.2:
            for address in addresses:
                asked = time.monotonic()
                if client.get(f"{address}/jobs", timeout=30).status_code == 200:
                    last_accepted = asked - revoked
        assert last_accepted < 1.0


def test_a_change_in_flight_is_known_to_the_other_server(app: App) -> None:
    @app.task("slow", retry=RetryPolicy(1))
    def slow() -> None:
        raise FinalError("no")

    job = slow.options(owner="acme").enqueue()
    app.run_until_idle(timeout="30s")
    key = app.create_key(owner="acme", name="a").token
    headers = bearer(key) | {"Idempotency-Key": "once"}
    with servers(2, app.settings.database_url) as addresses, httpx.Client(headers=headers, timeout=SOON) as client:
        for address in addresses:
            assert client.get(f"{address}/jobs", timeout=30).status_code == 200

        def retry(address: str) -> httpx.Response:
            return client.post(f"{address}/jobs/{job.id}/retry", json={}, timeout=30)

        with ThreadPoolExecutor(2) as threads:
            answers = sorted(threads.map(retry, addresses), key=lambda answer: answer.status_code)
        assert [answer.status_code for answer in answers] == [200, 409]
        assert answers[1].json()["code"] == "REQUEST_IN_FLIGHT"
        assert [retry(address).status_code for address in addresses] == [200, 200]
    assert app.job(job.id).manual_retries == 1


def test_of_links_that_are_used_at_the_same_time_one_makes_a_key(app: App) -> None:
    tokens = [app.wiring.keys.offer_setup() or "" for _ in range(2)]

    def use(number: int) -> bool:
        try:
            app.wiring.keys.set_up(tokens[number % 2], name="first")
        except SetupRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(use, range(16)))
    assert made.count(True) == 1
    assert len(app.keys()) == 1
