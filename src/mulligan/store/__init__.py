"""What is true: durable jobs, their events, and who may change them."""

from collections.abc import Callable
from datetime import timedelta

from mulligan.errors import BadUrl
from mulligan.service import ServiceBook
from mulligan.store.messages import TIMEOUT
from mulligan.store.store import Store

__all__ = ["has_database", "open_store"]


def open_store(url: str, services: Callable[[], ServiceBook] = ServiceBook, timeout: timedelta = TIMEOUT) -> Store:
    """The store a URL names. `services` are those in force; no call waits for others longer than `timeout`."""
    scheme = url.partition(":")[0] if isinstance(url, str) else ""
    if scheme == "sqlite":
        from mulligan.store.sqlite import SqliteStore

        return SqliteStore(url, services=services, timeout=timeout)
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, services, timeout)
    raise BadUrl(url, "jobs are kept in SQLite or in PostgreSQL")


def _open_postgres(url: str, services: Callable[[], ServiceBook], timeout: timedelta) -> Store:
    try:
        from mulligan.store.postgres import PostgresStore
    except ImportError as error:
        raise BadUrl(url, "psycopg is not installed: pip install 'mulligan[postgres]'") from error
    return PostgresStore(url, services=services, timeout=timeout)


def has_database(url: str) -> bool:
    """Whether the database is there already. Opening a file that is not makes it."""
    if not isinstance(url, str) or not url.startswith("sqlite:"):
        return True
    from mulligan.store.sqlite.url import parse_url

    path, _ = parse_url(url)
    return path is None or path.exists()
