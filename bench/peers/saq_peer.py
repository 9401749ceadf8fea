"""saq on PostgreSQL or on Redis."""

import asyncio
from typing import Any

import uvloop
from saq import Queue, Worker

from bench.lineup import Entry
from bench.marks import given
from bench.peer import FAIL_TWICE, Peer
from bench.peers import worker_of_ours
from bench.place import Place, Postgres, Redis

CONCURRENCY = 20
MARKS = given()


async def succeed(_: Any, *, number: int) -> None:
    MARKS.succeed(number)


async def fail_twice(_: Any, *, number: int) -> None:
    MARKS.fail_twice(number)


class SaqPeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._store = Postgres(entry.name) if entry.store == "postgres" else Redis()

    async def create(self) -> None:
        self._store.create()
        self._queue = Queue.from_url(self._store.url)
        await self._queue.connect()

    async def close(self) -> None:
        await self._queue.disconnect()
        self._store.close()

    async def enqueue(self, kind: str, number: int) -> None:
        retried: dict[str, Any] = {"retries": 5, "retry_delay": 0.0} if kind == FAIL_TWICE else {}
        await self._queue.enqueue(kind, number=number, **retried)

    async def preload(self, kind: str, jobs: int) -> None:
        """It has no bulk call, but takes calls at the same time."""
        for first in range(0, jobs, 100):
            numbers = range(first, min(jobs, first + 100))
            await asyncio.gather(*[self.enqueue(kind, number) for number in numbers])

    async def has_jobs_left(self) -> bool:
        return bool(await self._queue.count("incomplete"))

    async def vacuum(self) -> None:
        if isinstance(self._store, Postgres):
            self._store.vacuum()

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


def adapt(entry: Entry) -> Peer:
    return SaqPeer(entry)


def work(entry: Entry) -> None:
    uvloop.run(_work(Postgres(entry.name).url if entry.store == "postgres" else Place.given().redis))


async def _work(url: str) -> None:
    queue = Queue.from_url(url)
    await queue.connect()
    await Worker(queue, [succeed, fail_twice], concurrency=CONCURRENCY).start()
