"""chancy with its asyncio executor. It writes results in batches, after the bodies have ended."""

import asyncio
import logging
from typing import Any

from chancy import Chancy, Job, Queue, Worker
from chancy.plugins.retry import RetryPlugin

from bench.lineup import Entry
from bench.marks import given
from bench.peer import FAIL_TWICE, Peer
from bench.peers import worker_of_ours
from bench.place import Postgres

QUEUE = Queue("bench", concurrency=500, executor=Chancy.Executor.Async, polling_interval=1, eager_polling=True)
AT_ONCE = {"retry_settings": {"backoff": 0, "backoff_factor": 1, "backoff_jitter": [0, 0]}}
LIVE = "chancy_jobs WHERE state IN ('pending', 'running', 'retrying')"
MARKS = given()


async def succeed(*, number: int) -> None:
    MARKS.succeed(number)


async def fail_twice(*, number: int) -> None:
    MARKS.fail_twice(number)


class ChancyPeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._database = Postgres(entry.name)

    async def create(self) -> None:
        self._database.create()
        self._chancy = Chancy(self._database.url, plugins=[RetryPlugin()])
        await self._chancy.pool.open()
        await self._chancy.migrate()
        await self._chancy.declare(QUEUE)

    async def close(self) -> None:
        self._database.close()
        await self._chancy.pool.close()

    async def enqueue(self, kind: str, number: int) -> None:
        await self._chancy.push(_job(kind, number))

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        async for _ in self._chancy.push_many([_job(kind, number) for number in numbers]):
            pass

    async def has_jobs_left(self) -> bool:
        return self._database.has(LIVE)

    async def vacuum(self) -> None:
        self._database.vacuum()

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


def _job(kind: str, number: int) -> Job:
    retried: dict[str, Any] = {"max_attempts": 6, "meta": AT_ONCE} if kind == FAIL_TWICE else {}
    return Job(func=f"{__name__}.{kind}", queue=QUEUE.name, kwargs={"number": number}, **retried)


def adapt(entry: Entry) -> Peer:
    return ChancyPeer(entry)


def work(entry: Entry) -> None:
    asyncio.run(_work(Postgres(entry.name).url))


async def _work(url: str) -> None:
    async with Chancy(url, plugins=[RetryPlugin()]) as chancy:
        logging.getLogger("chancy").setLevel(logging.CRITICAL)
        async with Worker(chancy) as worker:
            await worker.wait_for_shutdown()
