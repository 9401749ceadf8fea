from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def database_server() -> Iterator[PostgresServer]:
    with postgres_server(fsync="off", full_page_writes="off", wal_writer_delay="1ms") as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    server: PostgresServer = request.getfixturevalue("database_server")
    return server.fresh_database("notify")
