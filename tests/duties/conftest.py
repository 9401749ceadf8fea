"""Every store that a test opens is closed after it: Python 3.13 and newer report databases left open."""

from collections.abc import Iterator
from typing import Any

import pytest

from mulligan.store.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def _closed_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[SqliteStore] = []
    open_store = SqliteStore.__init__

    def remember(self: SqliteStore, *arguments: Any, **options: Any) -> None:
        open_store(self, *arguments, **options)
        opened.append(self)

    monkeypatch.setattr(SqliteStore, "__init__", remember)
    yield
    for store in opened:
        store.close()
