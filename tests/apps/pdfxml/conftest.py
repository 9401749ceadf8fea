"""The converter on each store, with delays divided by a hundred."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from apps.pdfxml.app import create
from apps.pdfxml.settings import Settings
from apps.pdfxml.site import build_site
from pdfxml_world import Gateway, World, started_gateway
from postgres_server import PostgresServer
from site_server import serve

from mulligan import App

POLICIES = """
kinds:
  convert: {backoff: {type: exponential, base: 50ms, factor: 3, jitter: 0.2}}
services:
  gateway: {cooldown: 300ms}
"""


@pytest.fixture(scope="session")
def template(server: PostgresServer) -> str:
    """A database with the tables of the engine, to be copied: to migrate one takes longer than most tests."""
    with App(server.fresh_database("pdfxml_template")) as app:
        app.migrate()
    return "pdfxml_template"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/app.db"
    server: PostgresServer = request.getfixturevalue("server")
    template: str = request.getfixturevalue("template")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS pdfxml WITH (FORCE)")
        connection.execute(f"CREATE DATABASE pdfxml TEMPLATE {template}".encode())
    return server.url("pdfxml")


@pytest.fixture(scope="session")
def gateway_process() -> Iterator[Gateway]:
    with started_gateway() as gateway:
        yield gateway


@pytest.fixture
def gateway(gateway_process: Gateway) -> Gateway:
    """Of the whole run, in good health."""
    gateway_process.heal()
    return gateway_process


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, which is full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here: run the tests as root")
    try:
        with suppress(OSError), (folder / "filling").open("wb", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def make_world(store_url: str, tmp_path: Path, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Starts the site with other settings: `with make_world(circuit_mode="fail_fast") as world`."""

    @contextmanager
    def make(**settings: Any) -> Iterator[World]:
        policies = tmp_path / "policies.yaml"
        policies.write_text(POLICIES)
        monkeypatch.setenv("MULLIGAN_POLICIES_FILE", str(policies))
        given: dict[str, Any] = {
            "database_url": store_url,
            "gateway_url": gateway.url,
            "uploads": tmp_path / "uploads",
            "results": tmp_path / "results",
            # A busy machine may take its time; tests of timeouts set a short one.
            "gateway_timeout": timedelta(seconds=20),
        }
        converter = create(Settings(**given | settings))
        site = build_site(converter)
        # Closed in any case: what a failed test leaves open would fail the tests after it.
        with site.app, serve(site.app, site.asgi()) as served:
            world = World(converter, served.base, gateway)
            try:
                yield world
            finally:
                world.close()

    return make


@pytest.fixture
def world(make_world: Callable[..., Any]) -> Iterator[World]:
    with make_world() as found:
        yield found
