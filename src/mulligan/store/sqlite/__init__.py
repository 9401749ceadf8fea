"""Jobs in one SQLite file: for one machine, any number of processes."""

from mulligan.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
