"""Jobs in one SQLite file: for one machine, with any number of processes."""

from mulligan.store.sqlite.backend import SqliteStore

__all__ = ["SqliteStore"]
