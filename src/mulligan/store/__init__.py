"""What is true: durable jobs, their events, and who may change them."""

from mulligan.errors import BadUrl
from mulligan.store.protocols import Store

__all__ = ["has_database", "open_store"]


def open_store(url: str) -> Store:
    """The store a URL names."""
    if not isinstance(url, str) or not url.startswith("sqlite:"):
        raise BadUrl(url, "this version keeps jobs in SQLite")
    from mulligan.store.sqlite import SqliteStore

    return SqliteStore(url)


def has_database(url: str) -> bool:
    """Whether the database is there already. Opening a file that is not makes it."""
    if not isinstance(url, str) or not url.startswith("sqlite:"):
        return True
    from mulligan.store.sqlite.url import parse_url

    path, _ = parse_url(url)
    return path is None or path.exists()
