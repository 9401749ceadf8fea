"""What is true: durable jobs, their events, and who may change them."""

from mulligan.errors import BadUrl
from mulligan.store.protocols import Store

__all__ = ["open_store"]


def open_store(url: str) -> Store:
    """The store a URL names."""
    if not isinstance(url, str) or not url.startswith("sqlite:"):
        raise BadUrl(url, "this version keeps jobs in SQLite")
    from mulligan.store.sqlite import SqliteStore

    return SqliteStore(url)
