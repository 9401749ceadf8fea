"""pgmq, installed as plain SQL: a message queue without a worker. The loop is ours; a failed message is shown again."""

from typing import Any

import uvloop
from pgmq.async_queue import PGMQueue
from pgmq.install import install_pgmq_from_sql

from bench.lineup import Entry
from bench.marks import Boom, given
from bench.peer import Peer
from bench.peers import worker_of_ours
from bench.place import Postgres

QUEUE, BATCH, INVISIBLE_SECONDS = "bench", 500, 30


class PgmqPeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._database = Postgres(entry.name)

    async def create(self) -> None:
        self._database.create()
        install_pgmq_from_sql(dsn=self._database.url)
        self._queue = await _connect(self._database.url)
        await self._queue.create_queue(QUEUE)

    async def close(self) -> None:
        self._database.close()
        await self._queue.close()

    async def enqueue(self, kind: str, number: int) -> None:
        await self._queue.send(QUEUE, {"kind": kind, "number": number})

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        await self._queue.send_batch(QUEUE, [{"kind": kind, "number": number} for number in numbers])

    async def has_jobs_left(self) -> bool:
        return self._database.has(f"pgmq.q_{QUEUE}")

    async def vacuum(self) -> None:
        self._database.vacuum()

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


async def _connect(url: str) -> PGMQueue:
    queue = PGMQueue(conn_string=url, init_extension=False)
    await queue.init()
    return queue


def adapt(entry: Entry) -> Peer:
    return PgmqPeer(entry)


def work(entry: Entry) -> None:
    uvloop.run(_work(Postgres(entry.name).url))


async def _work(url: str) -> None:
    marks, queue = given(), await _connect(url)
    bodies = {"succeed": marks.succeed, "fail_twice": marks.fail_twice}
    while True:
        messages: list[Any] = (
            await queue.read_with_poll(QUEUE, vt=INVISIBLE_SECONDS, qty=BATCH, max_poll_seconds=5, poll_interval_ms=10)
            or []
        )
        done, failed = [], []
        for message in messages:
            try:
                bodies[message.message["kind"]](message.message["number"])
                done.append(message.msg_id)
            except Boom:
                failed.append(message.msg_id)
        if done:
            await queue.delete_batch(QUEUE, done)
        if failed:
            await queue.set_vt(QUEUE, failed, 0)
