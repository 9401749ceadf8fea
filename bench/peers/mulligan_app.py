"""mulligan with its defaults, on either store. Nothing here knows a table: backlogs are made through the engine."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from bench.lineup import Entry
from bench.marks import given
from bench.peer import SUCCEED, Peer
from bench.peers import worker_of_ours
from bench.place import Postgres, SqliteFile
from mulligan import App, Batch, FinalError, Fixed, JobFilter, Queue, RetryPolicy, State

AT_ONCE = RetryPolicy(max_attempts=5, backoff=Fixed(0))
FAIR, SERVICE = "fair", "gateway"
LIVE = [State.WAITING, State.QUEUED, State.RUNNING]
CALL = 1_000


def build(url: str) -> App:
    app = App(url, queues=[Queue(FAIR, fair=True)])

    @app.task(public=True)
    async def succeed(number: int) -> None:
        marks.succeed(number)

    @app.task(retry=AT_ONCE)
    async def fail_twice(number: int) -> None:
        marks.fail_twice(number)

    @app.task(queue=FAIR)
    async def succeed_fairly(number: int) -> None:
        marks.succeed(number)

    @app.task(service=SERVICE)
    async def call(number: int) -> None: ...

    @app.task
    async def finished(number: int) -> None: ...

    @app.task
    async def ended(number: int) -> None:
        """One of ten fails: half of those in one way, the others in a hundred ways."""
        if number % 20 == 0:
            raise FinalError("it failed", code="COMMON")
        if number % 10 == 0:
            raise FinalError("it failed", code=f"RARE_{number // 10 % 100}")

    marks = given()
    return app


class Mulligan:
    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._place = location(entry)
        self.url = url_of(self._place)
        self._batch: Batch | None = None

    @property
    def channel(self) -> str:
        # Here, because a worker on SQLite does not have psycopg in its memory.
        from mulligan.store.postgres.notify import CHANNEL

        return CHANNEL

    async def create(self) -> None:
        self._place.create()
        self.app = build(self.url)
        self.app.migrate()

    async def close(self) -> None:
        self.app.close()

    async def enqueue(self, kind: str, number: int) -> None:
        await self.app.tasks[kind].enqueue_async(number)

    def enqueue_blocking(self, kind: str, number: int) -> None:
        self.app.tasks[kind].enqueue(number)

    async def enqueue_many(self, kind: str, numbers: range) -> None:
        task = self.app.tasks[kind]
        bound = task if self._batch is None else task.options(batch=self._batch)
        await self.app.enqueue_many_async([bound.bind(number) for number in numbers])

    async def enqueue_later(self, numbers: range, *, seconds: float) -> None:
        later = self.app.tasks[SUCCEED].options(delay=timedelta(seconds=seconds))
        await self.app.enqueue_many_async([later.bind(number) for number in numbers])

    async def enqueue_owned(self, numbers: range, *, owners: int) -> None:
        task = self.app.tasks["succeed_fairly"]
        await self.app.enqueue_many_async([task.options(owner=f"owner-{n % owners}").bind(n) for n in numbers])

    async def has_jobs_left(self) -> bool:
        if self._batch is not None:
            return self.app.find_batch(self._batch.id).state in {"draft", "processing"}
        return bool(self.app.jobs(JobFilter(state=LIVE), limit=1).jobs)

    async def has_jobs_waiting(self) -> bool:
        return bool(self.app.jobs(JobFilter(state=State.WAITING), limit=1).jobs)

    async def vacuum(self) -> None:
        if isinstance(self._place, Postgres):
            self._place.vacuum()

    def worker(self) -> list[str]:
        return worker_of_ours(self._entry)

    # HTTP

    path = "/api/v1/jobs"

    def server(self, port: int) -> list[str]:
        return worker_of_ours(self._entry, str(port))

    def tokens(self, clients: int) -> list[str]:
        """Each of another owner, so that no client reaches the rate of its key."""
        self._owners = [f"owner-{number}" for number in range(clients)]
        return [self.app.create_key(owner=owner, name="bench").token for owner in self._owners]

    def reader(self) -> str:
        return self.app.create_key(owner=None, name="bench").token

    def count_jobs(self) -> int:
        # Counts are exact up to 10,000 jobs of a state.
        return sum(self.app.counts(JobFilter(owner=owner)).total for owner in self._owners)

    # A batch

    async def draft(self) -> None:
        self._batch = self.app.batch("bench")

    async def publish(self) -> None:
        assert self._batch is not None
        self._batch.publish()

    # Backlogs

    async def fill(self, backlog: str, jobs: int) -> None:
        calls = [range(first, min(jobs, first + CALL)) for first in range(0, jobs, CALL)]
        match backlog:
            case "future":
                for numbers in calls:
                    await self.enqueue_later(numbers, seconds=30 * 86_400)
            case "held":
                self.app.service(SERVICE).open(actor="bench")
                await self._fill("call", calls)
            case "unhandled":
                await self._fill_unhandled(calls)
            case "finished" | "ended":
                await self._fill(backlog, calls)
                await asyncio.to_thread(self.app.run_until_idle)

    async def _fill(self, kind: str, calls: Iterable[range]) -> None:
        for numbers in calls:
            await self.enqueue_many(kind, numbers)

    async def _fill_unhandled(self, calls: Iterable[range]) -> None:
        with App(self.url) as stranger:

            @stranger.task
            async def unhandled(number: int) -> None: ...

            for numbers in calls:
                await stranger.enqueue_many_async([unhandled.bind(number) for number in numbers])

    # Reading

    def queries(self) -> dict[str, Any]:
        """What people and pages ask. The store holds jobs of the backlog `ended`."""
        app = self.app
        failed = app.jobs(JobFilter(code="COMMON"), limit=1).jobs[0]
        return {
            "counts by state": lambda: app.counts(JobFilter()),
            "counts by kind": lambda: app.counts(JobFilter(), by="kind"),
            "counts by state of a kind": lambda: app.counts(JobFilter(kind="ended")),
            "counts by code of a group": lambda: app.counts(JobFilter(group=failed.group), by="code"),
            "page of a group": lambda: app.jobs(JobFilter(group=failed.group)),
            "page of failed jobs": lambda: app.jobs(JobFilter(state=State.FAILED)),
            "page of a rare code": lambda: app.jobs(JobFilter(code="RARE_7")),
        }


def location(entry: Entry) -> Postgres | SqliteFile:
    return Postgres(entry.name) if entry.store == "postgres" else SqliteFile(entry.name)


def url_of(place: Postgres | SqliteFile) -> str:
    return place.url if isinstance(place, Postgres) else f"sqlite:///{place.path}"


def adapt(entry: Entry) -> Peer:
    return Mulligan(entry)


def work(entry: Entry, port: str | None = None) -> None:
    """Run a worker, or serve the API on a port."""
    app = build(url_of(location(entry)))
    if port is None:
        app.run()
    else:
        app.serve(port=int(port))
