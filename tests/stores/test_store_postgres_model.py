"""The PostgreSQL store against the model of a store."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from postgres_server import emptied

from conformance.service_machine import service_machine
from conformance.suite import machine
from mulligan.service.config import ServiceBook
from mulligan.store.postgres import PostgresStore

_urls: list[str] = []


def open_emptied(now: Callable[[], datetime], _folder: Path) -> PostgresStore:
    return PostgresStore(emptied(_urls[-1]) + "?notify=off", now=now)


_PostgresIsTheModel: Any = machine(open_emptied, examples=10)


class TestPostgresIsTheModel(_PostgresIsTheModel):
    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        _urls.append(database)


del _PostgresIsTheModel


def open_served(now: Callable[[], datetime], services: Callable[[], ServiceBook], _folder: Path) -> PostgresStore:
    return PostgresStore(emptied(_urls[-1]) + "?notify=off", now=now, services=services)


_Services: Any = service_machine(open_served, examples=6)


class TestPostgresServices(_Services):
    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        _urls.append(database)


del _Services
