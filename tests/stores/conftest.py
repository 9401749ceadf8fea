from collections.abc import Iterator

import pytest
from postgres_server import PostgresServer, binaries, postgres_server

from mulligan.store.postgres import PostgresStore


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: 'apt-get install postgresql', or run 'make test' as root")
    # The tests that pull the plug start servers of their own, with fsync as it should be.
    with postgres_server(fsync="off", full_page_writes="off") as server:
        yield server


@pytest.fixture(scope="session")
def database(server: PostgresServer) -> str:
    url = server.fresh_database("suite")
    store = PostgresStore(url)
    store.migrate()
    store.close()
    return url
