"""The PostgreSQL store: the whole suite, and once more without NOTIFY and through a proxy that pools transactions."""

import pytest
from postgres_suite import PostgresSuite


class TestPostgres(PostgresSuite):
    @pytest.fixture
    def address(self, database: str) -> str:
        return database


class TestPostgresWithoutNotify(PostgresSuite):
    gives_hints = False

    @pytest.fixture
    def address(self, database: str) -> str:
        return database + "?notify=off"


class TestPostgresThroughPgbouncer(PostgresSuite):
    gives_hints = False

    @pytest.fixture
    def address(self, proxied: str) -> str:
        return proxied
