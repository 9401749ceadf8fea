"""celery on Redis: a pool of processes, a pool of threads, or neither. It acknowledges a job before it runs it."""

import sys
from typing import Any

from celery import Celery

from bench.lineup import Entry
from bench.marks import Boom, given
from bench.peer import Peer
from bench.place import Place, Redis

QUEUE = "bench"
SIZES = {"prefork": "2", "threads": "8", "solo": "1"}
QUIET = ["-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
MARKS = given()

app = Celery("bench", broker=Place.given().redis)
app.conf.update(
    task_ignore_result=True,
    task_default_queue=QUEUE,
    worker_send_task_events=False,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(name="succeed")
def succeed(number: int) -> None:
    MARKS.succeed(number)


@app.task(name="fail_twice", bind=True, max_retries=5)
def fail_twice(task: Any, number: int) -> None:
    try:
        MARKS.fail_twice(number)
    except Boom as error:
        raise task.retry(exc=error, countdown=0) from error


class CeleryPeer:
    def __init__(self, entry: Entry) -> None:
        self._pool = entry.name.removeprefix("celery-")
        self._redis = Redis()
        self._workers = 0

    async def create(self) -> None:
        self._redis.create()

    async def close(self) -> None:
        self._redis.close()

    async def enqueue(self, kind: str, number: int) -> None:
        app.tasks[kind].apply_async((number,))

    async def has_jobs_left(self) -> bool:
        return bool(self._redis.client.llen(QUEUE) + self._redis.client.hlen("unacked"))

    def worker(self) -> list[str]:
        self._workers += 1
        pool = ["-P", self._pool, "-c", SIZES[self._pool], "-n", f"worker{self._workers}@%h"]
        return [sys.executable, "-m", "celery", "-A", __name__, "worker", *pool, *QUIET]


def adapt(entry: Entry) -> Peer:
    return CeleryPeer(entry)
