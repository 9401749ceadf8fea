"""New SQLite databases of the tests are copies of one that was migrated.

The migrations of a new database take longer than most tests. Programs that the tests start make their databases
themselves, and `stores/test_store_migrations.py` compares a copy with a database that was migrated.
"""

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import get_ident
from typing import Any

from mulligan.store.sqlite import schema
from mulligan.store.sqlite.database import Database
from mulligan.store.sqlite.session import sqlite3

MIGRATIONS = schema.MIGRATIONS
_open = Database.__init__


def use_copies() -> None:
    Database.__init__ = _open_copy  # type: ignore[method-assign]


@contextlib.contextmanager
def every_migration() -> Iterator[None]:
    """Make new databases as users do."""
    Database.__init__ = _open  # type: ignore[method-assign]
    try:
        yield
    finally:
        use_copies()


def _open_copy(self: Database, path: Path | None, **options: Any) -> None:
    # Some tests have migrations of their own.
    is_copy = schema.MIGRATIONS is MIGRATIONS
    if is_copy and path is not None:
        _copy_to(path)
    _open(self, path, **options)
    if is_copy and path is None:
        _migrated().backup(self._connection)


def _copy_to(path: Path) -> None:
    """Unless there is a file. The copy appears with all its contents: another thread may open it at the same time."""
    new = path.with_name(f"{path.name}-{get_ident()}")
    # What is wrong with the path is said when it is opened.
    with contextlib.suppress(OSError):
        if not path.exists():
            new.write_bytes(_migrated().serialize())
            os.link(new, path)
            new.unlink()


@cache
def _migrated() -> "sqlite3.Connection":
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    schema.migrate(connection)
    return connection
