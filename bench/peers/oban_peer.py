"""oban for Python, which needs Python 3.12. It acknowledges row by row."""

import asyncio
from typing import Any

import uvloop
from oban import Oban, worker
from oban.schema import install

from bench.lineup import Entry
from bench.marks import given
from bench.peer import FAIL_TWICE, SUCCEED, Peer
from bench.peers import worker_of_ours
from bench.place import Postgres

QUEUE, LIMIT = "bench", 500
LIVE = "oban_jobs WHERE state IN ('available', 'executing', 'scheduled', 'retryable')"
# A retry is staged before it runs again, by default once a second.
STAGER = {"interval": 0.05}
MARKS = given()


@worker(queue=QUEUE)
class Succeed:
    async def process(self, job: Any) -> None:
        MARKS.succeed(job.args["number"])


@worker(queue=QUEUE, max_attempts=10)
class FailTwice:
    async def process(self, job: Any) -> None:
        MARKS.fail_twice(job.args["number"])

    def backoff(self, _: Any) -> int:
        return 0


WORKERS: dict[str, Any] = {SUCCEED: Succeed, FAIL_TWICE: FailTwice}


class ObanPeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._database = Postgres(entry.name)
        self._stages_often = False

    async def create(self) -> None:
        self._database.create()
        self._pool = await Oban.create_pool(self._database.url, min_size=1, max_size=4)
        await install(self._pool)
        # A client only: it is not started.
        self._oban = Oban(pool=self._pool)

    async def close(self) -> None:
        self._database.close()
        await self._pool.close()

    async def enqueue(self, kind: str, number: int) -> None:
        await self._oban.enqueue(WORKERS[kind].new({"number": number}))

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        self._stages_often = kind == FAIL_TWICE
        await self._oban.enqueue_many([WORKERS[kind].new({"number": number}) for number in numbers])

    async def has_jobs_left(self) -> bool:
        return self._database.has(LIVE)

    async def vacuum(self) -> None:
        self._database.vacuum()

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry, *(["often"] if self._stages_often else []))


def adapt(entry: Entry) -> Peer:
    return ObanPeer(entry)


def work(entry: Entry, *options: str) -> None:
    uvloop.run(_work(Postgres(entry.name).url, STAGER if options else {}))


async def _work(url: str, stager: dict[str, float]) -> None:
    pool = await Oban.create_pool(url, min_size=1, max_size=10)
    async with Oban(pool=pool, queues={QUEUE: LIMIT}, stager=stager):
        await asyncio.Event().wait()
