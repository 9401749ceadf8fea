"""arq on Redis. It has an environment of its own, because it needs an older redis-py."""

import asyncio
from typing import Any

import uvloop
from arq import Retry, Worker, create_pool
from arq.connections import RedisSettings

from bench.lineup import Entry
from bench.marks import Boom, given
from bench.peer import Peer
from bench.peers import worker_of_ours
from bench.place import Place

AT_ONCE, POLLING_SECONDS = 500, 0.01
MARKS = given()


async def succeed(_: Any, number: int) -> None:
    MARKS.succeed(number)


async def fail_twice(_: Any, number: int) -> None:
    try:
        MARKS.fail_twice(number)
    except Boom as error:
        raise Retry(defer=0) from error


class ArqPeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    async def create(self) -> None:
        self._pool = await create_pool(_settings())
        await self._pool.flushall()

    async def close(self) -> None:
        await self._pool.aclose()

    async def enqueue(self, kind: str, number: int) -> None:
        await self._pool.enqueue_job(kind, number)

    async def has_jobs_left(self) -> bool:
        return bool(await self._pool.zcard("arq:queue"))

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


def _settings() -> RedisSettings:
    return RedisSettings.from_dsn(Place.given().redis)


def adapt(entry: Entry) -> Peer:
    return ArqPeer(entry)


def work(_: Entry) -> None:
    asyncio.set_event_loop(uvloop.new_event_loop())
    Worker(
        functions=[succeed, fail_twice],
        redis_settings=_settings(),
        max_jobs=AT_ONCE,
        poll_delay=POLLING_SECONDS,
        keep_result=0,
        max_tries=6,
    ).run()
