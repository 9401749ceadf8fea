from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer, postgres_server
from world import World

STORES = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server(fsync="off", full_page_writes="off") as server:
        yield server


def open_world(request: pytest.FixtureRequest, store: str, name: str) -> World:
    if store == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path_factory").mktemp(name)
        return World(f"sqlite:///{folder}/jobs.db")
    server: PostgresServer = request.getfixturevalue("server")
    return World(server.fresh_database(name))


@pytest.fixture(scope="module", params=STORES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """One for all tests of a module: each makes the jobs that it needs."""
    found = open_world(request, request.param, request.module.__name__)
    yield found
    found.app.close()


@pytest.fixture(scope="module")
def sqlite_world(request: pytest.FixtureRequest) -> Iterator[World]:
    found = open_world(request, "sqlite", request.module.__name__)
    yield found
    found.app.close()
