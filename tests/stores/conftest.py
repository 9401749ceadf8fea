from collections import defaultdict
from collections.abc import Iterator
from random import Random
from urllib.parse import urlsplit, urlunsplit

import pytest
from pgbouncer import pgbouncer, proxy
from postgres_server import PostgresServer, postgres_server
from postgres_suite import Sessions

from mulligan.store.postgres import PostgresStore

# Of the cases of a rule, where not every case is run.
ONE_IN = 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not getattr(getattr(item, "cls", None), "every_case", True):
            cases[item.nodeid.partition("[")[0]].append(item)
    dropped = [item for rule, found in cases.items() for item in drop_cases(rule, found)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        left_out = set(dropped)
        items[:] = [item for item in items if item not in left_out]


def drop_cases(rule: str, cases: list[pytest.Item]) -> list[pytest.Item]:
    """Drop the same two thirds in every run, and others in each variant. They are drawn: every third case of a table
    with three columns would always be of the same column."""
    return Random(rule).sample(cases, len(cases) * (ONE_IN - 1) // ONE_IN)


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
    """The same without saying so in the URL, through a pgbouncer of its own: prepared statements are left behind."""
    if pgbouncer() is None:
        pytest.skip("pgbouncer is not installed: 'apt-get install pgbouncer'")
    with proxy(server) as port:
        yield urlunsplit(urlsplit(database)._replace(netloc=f"postgres@127.0.0.1:{port}"))


@pytest.fixture(scope="session")
def sessions(server: PostgresServer) -> Iterator[Sessions]:
    left = Sessions()
    yield left
    left.close()
