from collections.abc import Iterator

import pytest
from postgres_server import PostgresServer, binaries, postgres_server


@pytest.fixture(scope="session")
def chaos_server() -> Iterator[PostgresServer]:
    """One that may be crashed: with fsync as it should be, and apart from the suite's."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: 'apt-get install postgresql', or run 'make test' as root")
    with postgres_server() as server:
        yield server
