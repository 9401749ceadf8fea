"""huey on SQLite or on Redis. It removes a job from the store before it runs it."""

import os
import sys
from pathlib import Path
from typing import Any

from huey import Huey, RedisHuey, SqliteHuey

from bench.lineup import BY_NAME, Entry
from bench.marks import given
from bench.peer import Peer
from bench.place import Place, SqliteFile

VARIABLE = "MULLIGAN_BENCH_HUEY"
MARKS = given()


def build(entry: Entry) -> Huey:
    if entry.store == "redis":
        huey = RedisHuey("bench", url=Place.given().redis, results=False)
    else:
        huey = SqliteHuey("bench", filename=str(SqliteFile(entry.name).path), results=False, fsync=True)

    @huey.task(name="succeed")
    def succeed(number: int) -> None:
        MARKS.succeed(number)

    @huey.task(name="fail_twice", retries=5, retry_delay=0)
    def fail_twice(number: int) -> None:
        MARKS.fail_twice(number)

    huey.bodies = {"succeed": succeed, "fail_twice": fail_twice}
    return huey


class HueyPeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    async def create(self) -> None:
        if self._entry.store == "sqlite":
            SqliteFile(self._entry.name).create()
        os.environ[VARIABLE] = self._entry.name
        self._huey: Any = build(self._entry)
        self._huey.flush()

    async def close(self) -> None:
        self._huey.storage.close()

    async def enqueue(self, kind: str, number: int) -> None:
        self._huey.bodies[kind](number)

    async def has_jobs_left(self) -> bool:
        return bool(self._huey.pending_count() + self._huey.scheduled_count())

    def worker(self) -> list[str]:
        workers = ["-k", "process", "-w", "2"] if self._entry.store == "redis" else ["-k", "thread", "-w", "1"]
        consumer = Path(sys.executable).with_name("huey_consumer")
        return [str(consumer), f"{__name__}.consumed", *workers, "-q", "-n", "-d", "0.01", "-m", "0.1"]


def adapt(entry: Entry) -> Peer:
    return HueyPeer(entry)


# The consumer finds its queue by the name of a module's variable.
if VARIABLE in os.environ:
    consumed = build(BY_NAME[os.environ[VARIABLE]])
