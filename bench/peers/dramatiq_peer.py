"""dramatiq on Redis."""

import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.lineup import Entry
from bench.marks import given
from bench.peer import FAIL_TWICE, SUCCEED, Peer
from bench.place import Place, Redis

QUEUE = "bench"
MARKS = given()
dramatiq.set_broker(RedisBroker(url=Place.given().redis))


@dramatiq.actor(queue_name=QUEUE, actor_name=SUCCEED)
def succeed(number: int) -> None:
    MARKS.succeed(number)


@dramatiq.actor(queue_name=QUEUE, actor_name=FAIL_TWICE, max_retries=5, min_backoff=1, max_backoff=1)
def fail_twice(number: int) -> None:
    MARKS.fail_twice(number)


BODIES = {SUCCEED: succeed, FAIL_TWICE: fail_twice}


class DramatiqPeer:
    def __init__(self) -> None:
        self._redis = Redis()

    async def create(self) -> None:
        self._redis.create()

    async def close(self) -> None:
        self._redis.close()

    async def enqueue(self, kind: str, number: int) -> None:
        BODIES[kind].send(number)

    async def has_jobs_left(self) -> bool:
        return any(self._redis.client.hlen(f"dramatiq:{queue}.msgs") for queue in (QUEUE, f"{QUEUE}.DQ"))

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "dramatiq", __name__, "-p", "1", "-t", "8", "--skip-logging"]


def adapt(_: Entry) -> Peer:
    return DramatiqPeer()
