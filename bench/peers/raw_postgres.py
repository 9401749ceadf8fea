"""What PostgreSQL takes without an engine: one row a commit, and 1,000 rows a statement, through psycopg."""

import psycopg

from bench.lineup import Entry
from bench.peer import Peer
from bench.place import Postgres

TABLE = "CREATE TABLE jobs (id bigserial PRIMARY KEY, kind text NOT NULL, arguments jsonb NOT NULL)"
ONE = "INSERT INTO jobs (kind, arguments) VALUES (%s, %s)"
MANY = "INSERT INTO jobs (kind, arguments) SELECT %s, arguments FROM unnest(%s::jsonb[]) AS arguments"


class RawPostgres:
    def __init__(self, entry: Entry) -> None:
        self._database = Postgres(entry.name)

    async def create(self) -> None:
        self._database.create()
        self._connection = psycopg.connect(self._database.url, autocommit=True)
        self._connection.execute(TABLE)

    async def close(self) -> None:
        self._connection.close()

    async def enqueue(self, kind: str, number: int) -> None:
        self._connection.execute(ONE, (kind, f"[{number}]"), prepare=True)

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        self._connection.execute(MANY, (kind, [f"[{number}]" for number in numbers]), prepare=True)

    async def has_jobs_left(self) -> bool:
        return False

    def worker(self) -> list[str]:
        raise NotImplementedError


def adapt(entry: Entry) -> Peer:
    return RawPostgres(entry)
