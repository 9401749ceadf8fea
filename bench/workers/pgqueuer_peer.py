"""pgqueuer as its authors advise: asyncpg, uvloop, a large batch, its durable default."""

import sys
from datetime import timedelta

import asyncpg
import pgqueuer
import uvloop
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job

from bench.marks import Boom, given

BATCH = 500


async def work(url: str) -> None:
    marks = given()
    queue = pgqueuer.PgQueuer.from_asyncpg_connection(await asyncpg.connect(url))

    @queue.entrypoint("succeed")
    async def succeed(job: Job) -> None:
        marks.succeed(int(job.payload or b""))

    @queue.entrypoint("fail_twice")
    async def fail_twice(job: Job) -> None:
        try:
            marks.fail_twice(int(job.payload or b""))
        except Boom as error:
            raise RetryRequested(delay=timedelta(0)) from error

    await queue.run(batch_size=BATCH)


if __name__ == "__main__":
    uvloop.run(work(sys.argv[1]))
