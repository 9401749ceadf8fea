"""pgqueuer as its authors advise: asyncpg, uvloop, a large batch, its durable default."""

from datetime import timedelta

import asyncpg
import pgqueuer
import uvloop
from pgqueuer.db import AsyncpgDriver
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.lineup import Entry
from bench.marks import Boom, given
from bench.peer import FAIL_TWICE, SUCCEED, Peer
from bench.peers import worker_of_ours
from bench.place import Postgres

BATCH = 500


class PgQueuerPeer:
    channel = "ch_pgqueuer"

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._database = Postgres(entry.name)
        self.url = self._database.url

    async def create(self) -> None:
        self._database.create()
        self._connection = await asyncpg.connect(self.url)
        self._queries = Queries(AsyncpgDriver(self._connection))
        await self._queries.install()

    async def close(self) -> None:
        self._database.close()
        await self._connection.close()

    async def enqueue(self, kind: str, number: int) -> None:
        await self._queries.enqueue(kind, b"%d" % number)

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        size = len(numbers)
        await self._queries.enqueue([kind] * size, [b"%d" % number for number in numbers], [0] * size)

    async def fill(self, backlog: str, jobs: int) -> None:
        assert backlog in {"empty", "future"}
        delay = [timedelta(days=30)]
        for first in range(0, jobs, 1_000):
            size = min(1_000, jobs - first)
            await self._queries.enqueue([SUCCEED] * size, [b"0"] * size, [0] * size, delay * size)

    async def has_jobs_left(self) -> bool:
        return self._database.has("pgqueuer")

    async def vacuum(self) -> None:
        self._database.vacuum()

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


def adapt(entry: Entry) -> Peer:
    return PgQueuerPeer(entry)


def work(entry: Entry) -> None:
    uvloop.run(_work(Postgres(entry.name).url))


async def _work(url: str) -> None:
    marks = given()
    queue = pgqueuer.PgQueuer.from_asyncpg_connection(await asyncpg.connect(url))

    @queue.entrypoint(SUCCEED)
    async def succeed(job: Job) -> None:
        marks.succeed(int(job.payload or b""))

    @queue.entrypoint(FAIL_TWICE)
    async def fail_twice(job: Job) -> None:
        try:
            marks.fail_twice(int(job.payload or b""))
        except Boom as error:
            raise RetryRequested(delay=timedelta(0)) from error

    await queue.run(batch_size=BATCH)
