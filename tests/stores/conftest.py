from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest
from pgbouncer import pgbouncer, proxy
from postgres_server import PostgresServer, postgres_server
from postgres_suite import Sessions

from mulligan.store.postgres import PostgresStore


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    # The tests that pull the plug start servers of their own, with fsync as it should be, and a log written as late.
    with postgres_server(fsync="off", full_page_writes="off", wal_writer_delay="1ms") as server:
        yield server


@pytest.fixture(scope="session")
def database(server: PostgresServer) -> str:
    url = server.fresh_database("suite")
    store = PostgresStore(url)
    store.migrate()
    store.close()
    return url


@pytest.fixture(scope="session")
def proxied(server: PostgresServer, database: str) -> Iterator[str]:
    """The suite's database, seen through pgbouncer."""
    if pgbouncer() is None:
        pytest.skip("pgbouncer is not installed: 'apt-get install pgbouncer'")
    with proxy(server) as port:
        parts = urlsplit(database)
        yield urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{port}", query="proxy=transaction"))


@pytest.fixture
def undeclared(server: PostgresServer, database: str) -> Iterator[str]:
    """The same without the URL telling of it, through a pgbouncer of its own: prepared statements are left behind."""
    if pgbouncer() is None:
        pytest.skip("pgbouncer is not installed: 'apt-get install pgbouncer'")
    with proxy(server) as port:
        yield urlunsplit(urlsplit(database)._replace(netloc=f"postgres@127.0.0.1:{port}"))


@pytest.fixture(scope="session")
def sessions(server: PostgresServer) -> Iterator[Sessions]:
    left = Sessions()
    yield left
    left.close()
