"""Metrics need a key, unless the settings name the network of the caller."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from access_client import Web

from mulligan import App
from mulligan.settings import load


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with App(f"sqlite:///{tmp_path}/web.db") as app:
        app.settings = replace(
            app.settings, **_networks("127.0.0.0/8, 10.1.0.0/16, ::1"), metrics_prefix="", trusted_proxies=()
        )
        yield Web(app)


def _networks(text: str) -> dict[str, tuple[str, ...]]:
    settings = load(environment={"MULLIGAN_METRICS_NETWORKS": text})
    return {"metrics_networks": settings.metrics_networks}


def status(web: Web, address: str, path: str = "/metrics", **headers: str) -> int:
    return web.run(lambda client: client.get(path, headers=headers), address).status_code


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::1", "::ffff:10.1.2.3"])
def test_an_address_in_the_settings_needs_no_key(web: Web, address: str) -> None:
    answer = web.run(lambda client: client.get("/metrics"), address)
    assert answer.status_code == 200
    assert answer.text.startswith("# HELP jobs_created_total "), "without the prefix, as the settings say"


@pytest.mark.parametrize("address", ["10.2.0.1", "192.0.2.1", "::2", "unknown", ""])
def test_any_other_address_needs_one(web: Web, address: str) -> None:
    assert status(web, address) == 401


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_what_comes_through_a_proxy_needs_a_key(web: Web, header: str) -> None:
    assert status(web, "127.0.0.1", **{header: "127.0.0.1"}) == 401


def test_a_key_that_is_given_must_be_valid(web: Web) -> None:
    assert status(web, "127.0.0.1", Authorization="Bearer mk_nothing") == 401
    assert status(web, "127.0.0.1", Authorization=f"Bearer {web.key('acme')}") == 403
    assert status(web, "192.0.2.1", Authorization=f"Bearer {web.key()}") == 200


def test_nothing_else_is_open_there(web: Web) -> None:
    for path in ("/api/v1/metrics", "/api/v1/jobs", "/api/v1/doctor"):
        assert status(web, "127.0.0.1", path) == 401


def test_by_default_every_address_needs_a_key(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/web.db") as app:
        assert status(Web(app), "127.0.0.1") == 401
