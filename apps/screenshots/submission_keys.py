"""The Idempotency-Keys of owners: each is for one capture, of either kind, for as long as that is stored."""

from typing import Any

from sqlalchemy import Column, Connection, Table, Text, select
from sqlalchemy.dialects import postgresql, sqlite

from apps.pages.database import Database


class SubmissionKeys:
    def __init__(self, database: Database) -> None:
        self.table = Table(
            "submission_keys",
            database.metadata,
            Column("owner", Text, primary_key=True),
            Column("key", Text, primary_key=True),
            Column("job", Text),
        )

    def take(self, connection: Connection, owner: str, key: str) -> str | None:
        """None: the key is the caller's, who names its job in the same transaction. Else the job that has it already,
        that of a request which came at the same time included."""
        insert: Any = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        made = insert(self.table).values(owner=owner, key=key).on_conflict_do_nothing()
        if connection.execute(made.returning(self.table.c.owner)).first() is not None:
            return None
        return connection.scalar(select(self.table.c.job).where(self._is(owner, key)))

    def name(self, connection: Connection, owner: str, key: str, job: str) -> None:
        connection.execute(self.table.update().where(self._is(owner, key)).values(job=job))

    def free(self, connection: Connection, owner: str, key: str, job: str) -> None:
        """When the job is gone."""
        connection.execute(self.table.delete().where(self._is(owner, key) & (self.table.c.job == job)))

    def _is(self, owner: str, key: str) -> Any:
        return (self.table.c.owner == owner) & (self.table.c.key == key)
