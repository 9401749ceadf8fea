"""The PostgreSQL store against the model of a store."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from postgres_server import emptied

from mulligan.store.postgres import PostgresStore
from mulligan.testing.suite import machine

_urls: list[str] = []


def open_emptied(now: Callable[[], datetime], _folder: Path) -> PostgresStore:
    return PostgresStore(emptied(_urls[-1]) + "?notify=off", now=now)


_PostgresIsTheModel: Any = machine(open_emptied, examples=10)


class TestPostgresIsTheModel(_PostgresIsTheModel):
    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        _urls.append(database)


del _PostgresIsTheModel
