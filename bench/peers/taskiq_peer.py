"""taskiq on Redis streams, which acknowledge."""

import sys

from taskiq import SimpleRetryMiddleware
from taskiq_redis import RedisStreamBroker

from bench.lineup import Entry
from bench.marks import given
from bench.peer import FAIL_TWICE, SUCCEED, Peer
from bench.place import Place, Redis

QUEUE = "bench"
MARKS = given()
broker = RedisStreamBroker(url=Place.given().redis, queue_name=QUEUE, consumer_id="0").with_middlewares(
    SimpleRetryMiddleware(default_retry_count=5)
)


@broker.task(task_name=SUCCEED)
async def succeed(number: int) -> None:
    MARKS.succeed(number)


@broker.task(task_name=FAIL_TWICE, retry_on_error=True, max_retries=5)
async def fail_twice(number: int) -> None:
    MARKS.fail_twice(number)


BODIES = {SUCCEED: succeed, FAIL_TWICE: fail_twice}


class TaskiqPeer:
    def __init__(self) -> None:
        self._redis = Redis()

    async def create(self) -> None:
        self._redis.create()
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()
        self._redis.close()

    async def enqueue(self, kind: str, number: int) -> None:
        await BODIES[kind].kiq(number)

    async def has_jobs_left(self) -> bool:
        group = self._redis.client.xinfo_groups(QUEUE)[0]
        return bool(group["pending"] + (group["lag"] or 0))

    def worker(self) -> list[str]:
        options = ["-w", "1", "--max-async-tasks", "100", "--log-level", "CRITICAL"]
        return [sys.executable, "-m", "taskiq", "worker", f"{__name__}:broker", *options]


def adapt(_: Entry) -> Peer:
    return TaskiqPeer()
