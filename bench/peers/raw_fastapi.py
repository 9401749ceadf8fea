"""What FastAPI and PostgreSQL take without an engine: a route that inserts one row and commits, through asyncpg."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.lineup import Entry
from bench.peer import Peer
from bench.peers import worker_of_ours
from bench.peers.raw_postgres import TABLE
from bench.place import Postgres

INSERT = "INSERT INTO jobs (kind, arguments) VALUES ($1, $2) RETURNING id"


class RawFastAPI:
    path = "/jobs"

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._database = Postgres(entry.name)

    async def create(self) -> None:
        import psycopg

        self._database.create()
        with psycopg.connect(self._database.url, autocommit=True) as connection:
            connection.execute(TABLE)

    async def close(self) -> None:
        self._database.close()

    async def enqueue(self, kind: str, number: int) -> None:
        raise NotImplementedError

    async def has_jobs_left(self) -> bool:
        return False

    def worker(self) -> list[str]:
        raise NotImplementedError

    def server(self, port: int) -> list[str]:
        return worker_of_ours(self._entry, str(port))

    def tokens(self, clients: int) -> list[str]:
        return ["none"] * clients

    def reader(self) -> str:
        raise NotImplementedError

    def count_jobs(self) -> int:
        return int(self._database.value("SELECT count(*) FROM jobs"))


def application(url: str) -> Any:
    import asyncpg
    from fastapi import FastAPI
    from pydantic import BaseModel

    class NewJob(BaseModel):
        kind: str
        arguments: dict[str, Any]

    pools: list[Any] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with asyncpg.create_pool(url) as pool:
            pools.append(pool)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/jobs", status_code=201)
    async def enqueue(job: NewJob) -> dict[str, int]:
        return {"id": await pools[0].fetchval(INSERT, job.kind, json.dumps(job.arguments))}

    return app


def adapt(entry: Entry) -> Peer:
    return RawFastAPI(entry)


def work(entry: Entry, port: str) -> None:
    import uvicorn

    url = Postgres(entry.name).url
    uvicorn.run(
        application(url), port=int(port), http="httptools", loop="uvloop", access_log=False, log_level="warning"
    )
