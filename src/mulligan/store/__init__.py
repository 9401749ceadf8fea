"""The durable state of the engine: jobs, their events, and everything that may change them."""

from collections.abc import Callable
from datetime import timedelta

from mulligan.errors import BadUrl
from mulligan.service.config import ServiceBook
from mulligan.store.messages import TIMEOUT
from mulligan.store.store import Store

__all__ = ["has_database", "open_store"]


def open_store(url: str, services: Callable[[], ServiceBook] = ServiceBook, timeout: timedelta = TIMEOUT) -> Store:
    """Open the store that a URL names. `services` returns those in force; no call waits for others longer than
    `timeout`."""
    scheme = url.partition(":")[0] if isinstance(url, str) else ""
    if scheme == "sqlite":
        from mulligan.store.sqlite import SqliteStore

        return SqliteStore(url, services=services, timeout=timeout)
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, services, timeout)
    raise BadUrl(url, "only SQLite and PostgreSQL are supported")


def _open_postgres(url: str, services: Callable[[], ServiceBook], timeout: timedelta) -> Store:
    try:
        from mulligan.store.postgres import PostgresStore
    except ImportError as error:
        raise BadUrl(url, "psycopg is not installed: pip install 'mulligan[postgres]'") from error
    return PostgresStore(url, services=services, timeout=timeout)


def has_database(url: str) -> bool:
    """Whether the database exists. Opening a SQLite file that does not exist creates it."""
    if not isinstance(url, str) or not url.startswith("sqlite:"):
        return True
    from mulligan.store.sqlite.url import parse_url

    path, _ = parse_url(url)
    return path is None or path.exists()
