"""The PostgreSQL store: the whole suite, then what only PostgreSQL can get wrong."""

from collections.abc import Callable
from datetime import datetime

import pytest
from postgres_server import emptied

from mulligan.store.postgres import PostgresStore
from mulligan.testing.suite import StoreSuite


class TestPostgres(StoreSuite):
    url: str

    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        self.url = emptied(database)

    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return PostgresStore(self.url, now=now)

    open_twin = open_store
