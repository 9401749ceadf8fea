"""pgqueuer through asyncpg and uvloop."""

import asyncio
import sys
from collections.abc import Iterable

import asyncpg
import uvloop
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.place import Looking, Place


class PgQueuer:
    name, store = "pgqueuer", "postgres"
    parts = frozenset({"one", "bulk", "drain", "fail-twice", "latency"})
    drained, failing = 30_000, 1_500

    def __init__(self, place: Place) -> None:
        self._place = place

    def open(self) -> None:
        self._url = self._place.fresh_database("bench_pgqueuer")
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._runner.run(self._connect())
        self._left = Looking(self._url, "SELECT EXISTS (SELECT 1 FROM pgqueuer)")

    async def _connect(self) -> None:
        self._connection = await asyncpg.connect(self._url)
        self._queries = Queries(AsyncpgDriver(self._connection))
        await self._queries.install()

    def close(self) -> None:
        self._left.close()
        self._runner.run(self._connection.close())
        self._runner.close()

    def enqueue(self, kind: str, number: int) -> None:
        self._runner.get_loop().run_until_complete(self._queries.enqueue(kind, b"%d" % number))

    def enqueue_singly(self, numbers: Iterable[int]) -> None:
        async def enqueue() -> None:
            for number in numbers:
                await self._queries.enqueue("succeed", b"%d" % number)

        self._runner.run(enqueue())

    def enqueue_many(self, kind: str, numbers: range) -> None:
        size = len(numbers)
        self._runner.run(self._queries.enqueue([kind] * size, [b"%d" % number for number in numbers], [0] * size))

    def after_preload(self) -> None:
        self._place.execute(self._url, "VACUUM ANALYZE")

    def has_jobs_left(self) -> bool:
        return self._left()

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "bench.workers.pgqueuer_peer", self._url]
