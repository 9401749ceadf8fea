"""persist-queue's SQLiteAckQueue: a queue in SQLite without a worker. The loop is ours, one message at a time."""

import contextlib
import sqlite3

from persistqueue import SQLiteAckQueue

from bench.lineup import Entry
from bench.marks import Boom, given
from bench.peer import Peer
from bench.peers import worker_of_ours
from bench.place import SqliteFile

# inited, ready, unack; acked is 5.
LIVE = "SELECT EXISTS (SELECT 1 FROM ack_queue_default WHERE status < 5)"


class PersistQueuePeer:
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
        with contextlib.closing(sqlite3.connect(self._file.folder / "data.db")) as connection:
            return bool(connection.execute(LIVE).fetchone()[0])

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


def _open(entry: Entry) -> SQLiteAckQueue:
    folder = SqliteFile(entry.name).folder
    return SQLiteAckQueue(str(folder), auto_commit=True, multithreading=True, auto_resume=False)


def adapt(entry: Entry) -> Peer:
    return PersistQueuePeer(entry)


def work(entry: Entry) -> None:
    marks, queue = given(), _open(entry)
    bodies = {"succeed": marks.succeed, "fail_twice": marks.fail_twice}
    while True:
        message = queue.get(block=True, raw=True)
        kind, number = message["data"].split(":")
        try:
            bodies[kind](int(number))
            queue.ack(id=message["pqid"])
        except Boom:
            queue.nack(id=message["pqid"])
