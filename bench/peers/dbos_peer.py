"""dbos: a job is a workflow; one that fails is a step, retried in its process."""

import subprocess
import threading

import sqlalchemy
from dbos import DBOS, DBOSClient, EnqueueOptions

from bench.lineup import Entry
from bench.marks import given
from bench.peer import Peer
from bench.peers import worker_of_ours
from bench.place import Postgres

QUEUE, POLLING_SECONDS = "bench", 0.05


class DbosPeer:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._database = Postgres(entry.name)

    async def create(self) -> None:
        self._database.create()
        self._migrate()
        self._client = DBOSClient(system_database_url=self._database.url)

    def _migrate(self) -> None:
        """Only an application makes its tables."""
        subprocess.run(worker_of_ours(self._entry, "migrate"), check=True, capture_output=True)

    async def close(self) -> None:
        self._database.close()
        self._client.destroy()

    async def enqueue(self, kind: str, number: int) -> None:
        self._client.enqueue(_options(kind), number)

    async def preload(self, kind: str, jobs: int) -> None:
        """It has no bulk call, but takes many calls in a transaction."""
        engine = sqlalchemy.create_engine(self._database.url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            for number in range(jobs):
                self._client.enqueue_in_transaction(connection, _options(kind), number)
        engine.dispose()

    async def has_jobs_left(self) -> bool:
        return self._database.has("dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')")

    async def vacuum(self) -> None:
        self._database.vacuum()

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)


def _options(kind: str) -> EnqueueOptions:
    return {"workflow_name": kind, "queue_name": QUEUE, "app_version": "1", "application_name": "bench"}


def adapt(entry: Entry) -> Peer:
    return DbosPeer(entry)


def work(entry: Entry, *options: str) -> None:
    marks = given()
    url = Postgres(entry.name).url
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "application_version": "1"})

    @DBOS.workflow(name="succeed")
    def succeed(number: int) -> None:
        marks.succeed(number)

    @DBOS.step(name="step", retries_allowed=True, max_attempts=6, interval_seconds=0.0)
    def step(number: int) -> None:
        marks.fail_twice(number)

    @DBOS.workflow(name="fail_twice")
    def fail_twice(number: int) -> None:
        step(number)

    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLLING_SECONDS, on_conflict="always_update")
    if options:
        DBOS.destroy()
    else:
        threading.Event().wait()
