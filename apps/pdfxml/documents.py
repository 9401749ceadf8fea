"""What was uploaded: one row for each document, beside its job in the engine's database."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, MetaData, Row, String, Table, delete, insert, select, update


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """`id` names the files and never leaves the server; people know a document by the id of its job."""

    id: str
    job: str
    owner: str
    name: str
    mapping: str
    bytes: int
    sha256: str
    uploaded_at: datetime
    removed_at: datetime | None = None
    """When retention removed its files."""


class Documents:
    """The table of documents. Every method is part of the caller's transaction."""

    def __init__(self, metadata: MetaData) -> None:
        self.table = Table(
            "pdfxml_documents",
            metadata,
            Column("id", String(32), primary_key=True),
            Column("job", String(36), nullable=False, unique=True),
            Column("owner", String(200), nullable=False, index=True),
            Column("name", String(200), nullable=False),
            Column("mapping", String(50), nullable=False),
            Column("bytes", BigInteger, nullable=False),
            Column("sha256", String(64), nullable=False),
            # Microseconds since 1970, as in the engine's own tables.
            Column("uploaded_at", BigInteger, nullable=False),
            Column("removed_at", BigInteger, index=True),
        )

    def add(self, connection: Connection, document: Document) -> None:
        row = {name: getattr(document, name) for name in self.table.columns.keys()}  # noqa: SIM118
        connection.execute(insert(self.table).values(row | {"uploaded_at": _number(document.uploaded_at)}))

    def find(self, connection: Connection, job: str) -> Document | None:
        row = connection.execute(select(self.table).where(self.table.c.job == job)).one_or_none()
        return None if row is None else _document(row)

    def lock(self, connection: Connection, owner: str) -> None:
        """Until the end of the transaction, nothing else that locks this owner goes on."""
        # On SQLite the transaction is the lock.
        query = select(self.table.c.id).where(self.table.c.owner == owner).order_by(self.table.c.job).limit(1)
        connection.execute(query.with_for_update())

    def list_newest(
        self, connection: Connection, owner: str, *, limit: int, before: str | None = None
    ) -> list[Document]:
        """One page, newest first: ids of jobs rise with time. `before` is the job of the last document seen."""
        query = select(self.table).where(self.table.c.owner == owner)
        if before is not None:
            query = query.where(self.table.c.job < before)
        return [_document(row) for row in connection.execute(query.order_by(self.table.c.job.desc()).limit(limit))]

    def list_old(
        self, connection: Connection, until: datetime, *, limit: int, after: str | None = None
    ) -> list[Document]:
        """Documents that were uploaded by then and still have files, in the order of their jobs."""
        table = self.table
        query = select(table).where(table.c.removed_at.is_(None), table.c.uploaded_at <= _number(until))
        if after is not None:
            query = query.where(table.c.job > after)
        return [_document(row) for row in connection.execute(query.order_by(table.c.job).limit(limit))]

    def mark_removed(self, connection: Connection, document: Document, now: datetime) -> None:
        row = update(self.table).where(self.table.c.id == document.id)
        connection.execute(row.values(removed_at=_number(now)))

    def forget_removed(self, connection: Connection, until: datetime) -> int:
        """Delete the rows of documents whose files were removed by then."""
        return connection.execute(delete(self.table).where(self.table.c.removed_at <= _number(until))).rowcount

    def known(self, connection: Connection, ids: Collection[str]) -> set[str]:
        """Which of these documents have a row, and files by right."""
        table = self.table
        query = select(table.c.id).where(table.c.id.in_(ids), table.c.removed_at.is_(None))
        return set(connection.scalars(query))


def _number(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)


def _moment(number: int | None) -> datetime | None:
    return None if number is None else datetime.fromtimestamp(number / 1_000_000, UTC)


def _document(row: Row[Any]) -> Document:
    values: dict[str, Any] = dict(row._mapping)
    return Document(**values | {name: _moment(values[name]) for name in ("uploaded_at", "removed_at")})
