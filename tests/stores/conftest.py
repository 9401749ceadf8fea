from collections.abc import Iterator

import psycopg
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


def emptied(url: str) -> str:
    """The same database without a row."""
    with psycopg.connect(url, autocommit=True) as connection:
        # Faster than TRUNCATE for the few rows of a test.
        connection.execute("DELETE FROM mulligan_jobs; DELETE FROM mulligan_events; DELETE FROM mulligan_workers")
    return url
