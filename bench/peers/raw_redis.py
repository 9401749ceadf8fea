"""What Redis takes without an engine: one SET a round trip."""

from bench.lineup import Entry
from bench.peer import Peer
from bench.place import Redis


class RawRedis:
    async def create(self) -> None:
        self._redis = Redis()
        self._redis.create()

    async def close(self) -> None:
        self._redis.close()

    async def enqueue(self, kind: str, number: int) -> None:
        self._redis.client.set(kind, number)

    async def has_jobs_left(self) -> bool:
        return False

    def worker(self) -> list[str]:
        raise NotImplementedError


def adapt(_: Entry) -> Peer:
    return RawRedis()
