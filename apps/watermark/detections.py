"""Videos in which people look for a mark."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from apps.pages.database import Database
from apps.watermark.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """`campaign` is the one whose recipients are compared; None: all of the account's."""

    id: str
    account: str
    campaign: str | None
    video_name: str
    job: str
    created_at: datetime


class Detections:
    def __init__(self, database: Database, tables: Tables) -> None:
        self._database, self._table = database, tables.detections

    def create(
        self, detection_id: str, *, account: str, campaign: str | None, video_name: str, enqueue: Callable[[Any], str]
    ) -> Detection:
        """Store it with its job, or neither. `enqueue` gets the connection and returns the id of the job."""
        with self._database.transaction() as connection:
            values: dict[str, Any] = {
                "id": detection_id,
                "account": account,
                "campaign": campaign,
                "video_name": video_name,
                "job": enqueue(connection),
                "created_at": datetime.now(UTC),
            }
            connection.execute(self._table.insert().values(values))
        return Detection(**values)

    def get(self, detection_id: str) -> Detection | None:
        with self._database.read() as connection:
            return _one(connection, self._table.c.id == detection_id, self._table)

    def find(self, detection_id: str, account: str) -> Detection | None:
        wanted = (self._table.c.id == detection_id) & (self._table.c.account == account)
        with self._database.read() as connection:
            return _one(connection, wanted, self._table)

    def of_account(self, account: str, *, limit: int = 50) -> list[Detection]:
        table = self._table
        query = select(table).where(table.c.account == account).order_by(table.c.created_at.desc()).limit(limit)
        with self._database.read() as connection:
            return [Detection(**row._mapping) for row in connection.execute(query)]


def new_id() -> str:
    return secrets.token_hex(16)


def _one(connection: Connection, wanted: Any, table: Any) -> Detection | None:
    row = connection.execute(select(table).where(wanted)).first()
    return None if row is None else Detection(**row._mapping)
