"""Jobs in PostgreSQL: for many machines."""

from mulligan.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
