"""rq on Redis: one process for all jobs, or one for each."""

import sys
from pathlib import Path
from typing import Any

from rq import Queue, Retry

from bench.lineup import Entry
from bench.marks import given
from bench.peer import FAIL_TWICE, SUCCEED, Peer
from bench.place import Redis

QUEUE = "bench"
WORKERS = {"rq-simple": "rq.worker.SimpleWorker", "rq-fork": "rq.worker.Worker"}
MARKS = given()


def succeed(number: int) -> None:
    MARKS.succeed(number)


def fail_twice(number: int) -> None:
    MARKS.fail_twice(number)


BODIES = {SUCCEED: succeed, FAIL_TWICE: fail_twice}


class RqPeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._redis = Redis()
        self._queue = Queue(QUEUE, connection=self._redis.client)

    async def create(self) -> None:
        self._redis.create()

    async def close(self) -> None:
        self._redis.close()

    async def enqueue(self, kind: str, number: int) -> None:
        self._queue.enqueue(BODIES[kind], number, **_retried(kind))

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        body, retried = BODIES[kind], _retried(kind)
        self._queue.enqueue_many([Queue.prepare_data(body, (number,), **retried) for number in numbers])

    async def has_jobs_left(self) -> bool:
        return bool(self._queue.count + self._queue.started_job_registry.get_job_count(cleanup=False))

    def worker(self) -> list[str]:
        command = [str(Path(sys.executable).with_name("rq")), "worker", "-u", self._redis.url]
        return [*command, "--worker-class", WORKERS[self._entry.name], "--quiet", QUEUE]


def _retried(kind: str) -> dict[str, Any]:
    return {"retry": Retry(max=4)} if kind == FAIL_TWICE else {}


def adapt(entry: Entry) -> Peer:
    return RqPeer(entry)
