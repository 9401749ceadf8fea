"""What SQLite takes without an engine: one row a commit, and 1,000 rows a transaction, synchronous = FULL."""

import itertools
import sqlite3

from bench.lineup import Entry
from bench.peer import Peer
from bench.place import SqliteFile

TABLE = "CREATE TABLE jobs (id TEXT PRIMARY KEY, kind TEXT NOT NULL, arguments TEXT NOT NULL) WITHOUT ROWID"
INSERT = "INSERT INTO jobs (id, kind, arguments) VALUES (?, ?, ?)"


class RawSqlite:
    def __init__(self, entry: Entry) -> None:
        self._file = SqliteFile(entry.name)
        self._ids = itertools.count()

    async def create(self) -> None:
        self._file.create()
        self._connection = sqlite3.connect(self._file.path, isolation_level=None)
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", TABLE):
            self._connection.execute(statement)

    async def close(self) -> None:
        self._connection.close()

    async def enqueue(self, kind: str, number: int) -> None:
        self._connection.execute(INSERT, self._row(kind, number))

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany(INSERT, [self._row(kind, number) for number in numbers])
        self._connection.execute("COMMIT")

    async def has_jobs_left(self) -> bool:
        return False

    def worker(self) -> list[str]:
        raise NotImplementedError

    def _row(self, kind: str, number: int) -> tuple[str, str, str]:
        """An id as long as those of an engine."""
        return f"01900000-0000-7000-8000-{next(self._ids):012d}", kind, f"[{number}]"


def adapt(entry: Entry) -> Peer:
    return RawSqlite(entry)
