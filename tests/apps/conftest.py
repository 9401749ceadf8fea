"""Stores for the tests of applications."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server(fsync="off", full_page_writes="off") as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/app.db"
    server: PostgresServer = request.getfixturevalue("server")
    return server.fresh_database("app")
