"""Jobs in PostgreSQL: for many machines."""

from mulligan.store.postgres.backend import PostgresStore

__all__ = ["PostgresStore"]
