"""litequeue: a queue in SQLite without a worker. The loop is ours, one message at a time."""

import time

from litequeue import LiteQueue

from bench.lineup import Entry
from bench.marks import Boom, given
from bench.peer import Peer
from bench.peers import worker_of_ours
from bench.place import SqliteFile

IDLE_SECONDS = 0.002
READY, LOCKED = 0, 1


class LitequeuePeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._file = SqliteFile(entry.name)

    async def create(self) -> None:
        self._file.create()
        self._queue = _open(self._entry)

    async def close(self) -> None:
        self._queue.close()

    async def enqueue(self, kind: str, number: int) -> None:
        self._queue.put(f"{kind}:{number}")

    async def has_jobs_left(self) -> bool:
        query = f"SELECT EXISTS (SELECT 1 FROM {self._queue.table} WHERE status IN ({READY}, {LOCKED}))"
        return bool(self._queue.conn.execute(query).fetchone()[0])

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


def _open(entry: Entry) -> LiteQueue:
    return LiteQueue(str(SqliteFile(entry.name).path), timeout=30)


def adapt(entry: Entry) -> Peer:
    return LitequeuePeer(entry)


def work(entry: Entry) -> None:
    marks, queue = given(), _open(entry)
    bodies = {"succeed": marks.succeed, "fail_twice": marks.fail_twice}
    while True:
        message = queue.pop()
        if message is None:
            time.sleep(IDLE_SECONDS)
            continue
        kind, number = message.data.split(":")
        try:
            bodies[kind](int(number))
            queue.done(message.message_id)
        except Boom:
            queue.retry(message.message_id)
