from collections.abc import Iterator

import pytest
from postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def chaos_server() -> Iterator[PostgresServer]:
    """One that may be crashed: with fsync as it should be, and apart from the suite's."""
    with postgres_server() as server:
        yield server
