"""procrastinate through psycopg's pool. It claims and finishes job by job."""

import asyncio

import procrastinate

from bench.lineup import Entry
from bench.marks import given
from bench.peer import Peer
from bench.peers import worker_of_ours
from bench.place import Postgres

CONCURRENCY = 20
QUEUE = "bench"


def build(url: str) -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=2, max_size=CONCURRENCY + 2)
    app = procrastinate.App(connector=connector)
    marks = given()

    @app.task(name="succeed", queue=QUEUE)
    async def succeed(number: int) -> None:
        marks.succeed(number)

    @app.task(name="fail_twice", queue=QUEUE, retry=procrastinate.RetryStrategy(max_attempts=5, wait=0))
    async def fail_twice(number: int) -> None:
        marks.fail_twice(number)

    return app


class ProcrastinatePeer:
    channel = "procrastinate_any_queue_v1"

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._database = Postgres(entry.name)
        self.url = self._database.url

    async def create(self) -> None:
        self._database.create()
        self._app = build(self.url)
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def close(self) -> None:
        self._database.close()
        await self._app.close_async()

    async def enqueue(self, kind: str, number: int) -> None:
        await self._app.tasks[kind].defer_async(number=number)

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        await self._app.tasks[kind].batch_defer_async(*[{"number": number} for number in numbers])

    async def has_jobs_left(self) -> bool:
        return self._database.has("procrastinate_jobs WHERE status IN ('todo', 'doing')")

    async def vacuum(self) -> None:
        self._database.vacuum()

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


def adapt(entry: Entry) -> Peer:
    return ProcrastinatePeer(entry)


def work(entry: Entry) -> None:
    asyncio.run(_work(build(Postgres(entry.name).url)))


async def _work(app: procrastinate.App) -> None:
    async with app.open_async():
        await app.run_worker_async(queues=[QUEUE], concurrency=CONCURRENCY, install_signal_handlers=True)
