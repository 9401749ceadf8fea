"""The event stream of the HTTP API, served by a real uvicorn: nothing is skipped, repeated or shown to others."""

import asyncio
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import httpx
import jsonschema_rs
import pytest
from sse_reader import Message, Reader
from stream_server import PlainAccess, WebServer, make_app, web_server
from world import World

from live import SOON
from mulligan import App, JobFilter
from mulligan.failure.decision import Succeed
from mulligan.records.document import document_of
from mulligan.store.messages import Beat, Claim, Outcome, ReportedProgress, Settled, WorkerRecord
from mulligan.web.server import asgi
from mulligan.web.stream.hub import PROGRESS_EVERY
from mulligan.web.stream.stream import HEARTBEAT


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('web')}/jobs.db"


@pytest.fixture(scope="module")
def server(url: str) -> Iterator[WebServer]:
    with web_server(url) as server:
        yield server


@pytest.fixture
def shop(url: str) -> Iterator[App]:
    with make_app(url) as app:
        yield app


def enqueue(app: App, number: int = 1, **options: Any) -> list[str]:
    bindings = [app.tasks["greet"].options(**options).bind(f"n{each}") for each in range(number)]
    return [job.id for job in app.enqueue_many(bindings)]


def listen(server: WebServer, query: str = "", **options: Any) -> Reader:
    """A stream that is live: it has told its position."""
    reader = Reader(server.base, path=f"/api/v1/events/stream{query}", **options)
    with reader.closed_on_error():
        while reader.last_id is None:
            reader.read()
    return reader


def positions(messages: list[Message]) -> list[int]:
    return [message.data["position"] for message in messages]


def test_events_come_as_they_happen_with_their_positions(server: WebServer, shop: App) -> None:
    with listen(server) as reader:
        assert "content-type: text/event-stream" in reader.head.lower()
        assert "cache-control: no-store" in reader.head.lower()
        (job,) = enqueue(shop)
        (message,) = reader.events(1)
    assert (message.event, message.data["job"], message.id) == ("job.enqueued", job, str(message.data["position"]))
    assert message.data == document_of(shop.events(job)[0])


def test_a_stream_goes_on_where_it_was_cut_off(server: WebServer, shop: App) -> None:
    with listen(server) as reader:
        enqueue(shop, 3)
        first = reader.events(2)
    enqueue(shop, 200)
    with Reader(server.base, after=first[-1].id) as reader:
        found = reader.events(100)
        enqueue(shop, 5)
        found += reader.events(106)
    assert positions(first + found) == [event.position for event in shop.events(after=positions(first)[0] - 1)]


def test_the_header_wins_over_the_parameter(server: WebServer, shop: App) -> None:
    before = shop.last_position()
    enqueue(shop, 3)
    with Reader(server.base, path=f"/api/v1/events/stream?after={before}") as reader:
        found = reader.events(3)
    with Reader(server.base, path=f"/api/v1/events/stream?after={before}", after=found[1].id) as reader:
        assert positions(reader.events(1)) == positions(found[2:])


def test_filters_select_by_job_kind_and_type(server: WebServer, shop: App) -> None:
    before = shop.last_position()
    first, second = enqueue(shop, 2)
    shop.cancel(second)
    for query, expected in {
        f"?job={second}": [(second, "job.enqueued"), (second, "job.cancelled")],
        f"?job={second}&types=job.cancelled,job.failed": [(second, "job.cancelled")],
        "?types=job.cancelled&types=job.failed": [(second, "job.cancelled")],
        "?kind=greet": [(first, "job.enqueued"), (second, "job.enqueued"), (second, "job.cancelled")],
    }.items():
        with Reader(server.base, path=f"/api/v1/events/stream{query}&after={before}") as reader:
            found = reader.events(len(expected))
        assert [(message.data["job"], message.event) for message in found] == expected, query


def test_a_batch_has_the_events_of_its_members_and_its_own(server: WebServer, shop: App) -> None:
    batch = shop.batch("import")
    with listen(server, f"?batch={batch.id}") as reader:
        enqueue(shop)
        (member,) = batch.add(shop.tasks["greet"].bind("x"))
        batch.publish()
        shop.cancel(member.id)
        found = reader.events(5)
    assert {message.data["batch"] for message in found} == {batch.id}
    assert {message.event for message in found} >= {"job.enqueued", "batch.published", "batch.settled"}


def test_pages_by_cursor_have_the_same_events(server: WebServer, shop: App) -> None:
    before = shop.last_position()
    jobs = enqueue(shop, 7)
    shop.cancel(jobs[0])
    found, after = [], before
    while True:
        page = httpx.get(
            f"{server.base}/api/v1/events",
            params={"after": after, "limit": 3, "types": "job.enqueued"},
            headers={"Authorization": "Bearer admin"},
            timeout=SOON,
        ).json()
        found, after = found + page["events"], page["position"]
        if page["is_end"]:
            break
    assert [event["job"] for event in found] == jobs
    with Reader(server.base, path=f"/api/v1/events/stream?types=job.enqueued&after={before}") as reader:
        assert [message.data for message in reader.events(7)] == found


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?job=none", 404),
        ("?batch=none", 404),
        ("?types=job.exploded", 400),
        ("?color=red", 400),
        ("?after=x", 400),
    ],
)
def test_a_stream_that_cannot_work_is_a_problem(server: WebServer, query: str, status: int) -> None:
    with Reader(server.base, path=f"/api/v1/events/stream{query}") as reader:
        assert reader.open() == status
        assert "application/problem+json" in reader.head


# A2


def test_no_byte_of_another_owner_is_in_a_stream(server: WebServer, shop: App) -> None:
    marks = {"acme": token_hex(8), "other": token_hex(8)}
    before = shop.last_position()
    with (
        listen(server, key="acme") as live,
        Reader(server.base, key="acme", path=f"/api/v1/events/stream?after={before}") as replayed,
    ):
        jobs = {owner: enqueue(shop, 3, owner=owner, tags=[mark])[0] for owner, mark in marks.items()}
        for owner, job in jobs.items():
            shop.cancel(job, actor=marks[owner], reason=marks[owner])
        batch = shop.batch(marks["other"], owner="other")
        batch.publish()
        enqueue(shop, 1, owner="acme")
        for reader in (live, replayed):
            found = reader.events(5)
            assert {message.data["owner"] for message in found} == {"acme"}
            for mark in (marks["other"], jobs["other"], batch.id):
                assert mark.encode() not in reader.seen
            # Nor who did it: an owner sees no people.
            assert marks["acme"].encode() not in reader.seen
    for query in (f"?job={jobs['other']}", f"?batch={batch.id}"):
        with Reader(server.base, key="acme", path=f"/api/v1/events/stream{query}") as reader:
            assert reader.open() == 404
    with Reader(server.base, key="acme", path="/api/v1/events/stream?owner=other") as reader:
        assert reader.open() == 403
    page = httpx.get(
        f"{server.base}/api/v1/events",
        params={"after": before},
        headers={"Authorization": "Bearer acme"},
        timeout=SOON,
    ).text
    assert marks["other"] not in page and jobs["other"] not in page


def test_an_administrator_may_ask_for_one_owner(server: WebServer, shop: App) -> None:
    with listen(server, "?owner=acme") as reader:
        enqueue(shop, 2, owner="other")
        (job,) = enqueue(shop, owner="acme")
        (message,) = reader.events(1)
        assert message.data["job"] == job


# Reset


def test_a_position_of_another_log_is_a_reset(server: WebServer, shop: App) -> None:
    enqueue(shop)
    for after in ("999999999", "not-a-position"):
        with Reader(server.base, after=after) as reader:
            (message,) = reader.events(1)
            assert (message.event, message.data["reason"]) == ("reset", "unknown_position")
            assert message.id == str(message.data["position"]) == str(shop.last_position())
            (job,) = enqueue(shop)
            assert reader.events(1)[0].data["job"] == job


def test_a_position_below_deleted_events_is_a_reset(server: WebServer, shop: App) -> None:
    before = shop.last_position()
    jobs = enqueue(shop, 2)
    shop.cancel(jobs[0])
    shop.purge(JobFilter(ids=[jobs[0]]), older_than="0s", dry_run=False)
    with Reader(server.base, after=str(before)) as reader:
        found = reader.events(2)
        assert (found[0].event, found[0].data) == ("reset", {"reason": "pruned", "position": before})
        assert found[1].data["job"] == jobs[1]


# Description


def test_every_message_is_as_openapi_describes_it(server: WebServer, shop: App) -> None:
    document = httpx.get(f"{server.base}/openapi.json", timeout=SOON).json()
    answer = document["paths"]["/api/v1/events/stream"]["get"]["responses"]["200"]
    schema = {**answer["content"]["text/event-stream"]["schema"], "components": document["components"]}
    data = {**schema["properties"]["data"]["contentSchema"], "components": document["components"]}
    with Running(shop) as running, Reader(server.base, after="999999999") as reader:
        found = reader.events(1)
        running.report(1)
        found += reader.events(1)
        enqueue(shop)
        found += reader.events(1)
    assert [message.event for message in found] == ["reset", "job.progress", "job.enqueued"]
    for message in found:
        sent = {"event": message.event, "data": json.dumps(message.data), "id": message.id}
        jsonschema_rs.validate(schema, {name: value for name, value in sent.items() if value is not None})
        jsonschema_rs.validate(data, message.data)


# Progress


class Running:
    """A job that runs, and reports progress, until the block ends: the tests share a database."""

    def __init__(self, app: App) -> None:
        (self.job,) = enqueue(app, owner="acme", queue="slow")
        self._store, self._lease_time = app.store, app.settings.worker_lease_ttl
        self._worker = WorkerRecord(incarnation="w", host="h", pid=1, queues=("slow",), kinds=("greet",), concurrency=1)
        claim = Claim(incarnation="w", number=1, kinds=["greet"], queues=["slow"], limit=1, lease=self._lease_time)
        (self._lease,) = self._store.claim(claim).leases

    def report(self, number: int) -> None:
        fence = self._lease.fence
        progress = [ReportedProgress(fence, min(1.0, number / 500), f"page {number}")]
        self._store.beat(Beat(worker=self._worker, lease=self._lease_time, extend=[fence], progress=progress))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._store.settle([Outcome(self._lease, Succeed("1"))]) == [Settled.ACCEPTED]
        self._store.leave("w")


def test_progress_comes_at_most_once_a_second_and_without_a_position(server: WebServer, shop: App) -> None:
    with (
        Running(shop) as running,
        listen(server, f"?job={running.job}", key="acme") as reader,
        listen(server, key="other") as other,
    ):
        job = running.job
        end = time.monotonic() + 2.2
        number = 0
        while time.monotonic() < end:
            number += 1
            running.report(number)
            time.sleep(0.02)
        found = reader.events(2)
        shop.cancel(job)
        while found[-1].event == "job.progress":
            found += reader.events(1)
        *reported, last = found
        assert last.event == "job.cancel_requested" and last.id is not None
        assert [message.event for message in reported] == ["job.progress"] * len(reported)
        assert 2 <= len(reported) <= 4 < number
        assert all(message.id is None and message.data["job"] == job for message in reported)
        # What comes next is all that came.
        (theirs,) = enqueue(shop, owner="other")
        assert other.events(1)[0].data["job"] == theirs


def read_all(app: App, reader: Reader) -> None:
    """Wait until the server has read all progress that is due. It does so each time after it has read the log, so it
    has when a second event comes. Nothing but these events may come."""
    for _ in range(2):
        (job,) = enqueue(app)
        (message,) = reader.events(1)
        assert (message.event, message.data["job"]) == ("job.enqueued", job)


def test_the_first_stream_gets_no_progress_from_before(url: str, shop: App) -> None:
    with Running(shop) as running:
        running.report(1)
        with web_server(url) as server, listen(server) as reader:
            read_all(shop, reader)
            running.report(2)
            assert reader.events(1)[0].data["text"] == "page 2"


def test_the_first_stream_that_wants_progress_gets_none_from_before(url: str, shop: App) -> None:
    with Running(shop) as running, web_server(url) as server, listen(server, "?types=job.enqueued") as plain:
        running.report(1)
        end = time.monotonic() + PROGRESS_EVERY
        while time.monotonic() < end:
            read_all(shop, plain)
        read_all(shop, plain)
        with listen(server, "?types=job.enqueued,job.progress") as reader:
            read_all(shop, reader)
            running.report(2)
            assert reader.events(1)[0].data["text"] == "page 2"


# Limits, slow clients, shutdown


def test_an_owner_has_at_most_twenty_streams(server: WebServer) -> None:
    with ExitStack() as stack:
        readers = [stack.enter_context(listen(server, key="many")) for _ in range(20)]
        with Reader(server.base, key="many") as more:
            assert more.open() == 429
            assert "retry-after" in more.head.lower()
        with listen(server, key="few"):
            pass
        readers[0].close()
        end = time.monotonic() + 5
        while True:
            with Reader(server.base, key="many") as again:
                if again.open() == 200:
                    break
            assert time.monotonic() < end, "the place of a stream that is gone is free"


def test_a_burst_larger_than_the_queue_of_a_stream_arrives_whole(server: WebServer, shop: App) -> None:
    with listen(server, "?kind=greet") as reader:
        jobs = enqueue(shop, 2_000)
        found = reader.events(2_000, timeout=30)
    assert [message.data["job"] for message in found] == jobs
    assert len(set(positions(found))) == len(found)


@pytest.mark.parametrize(("mount", "number"), [("", signal.SIGINT), ("/ops", signal.SIGTERM)])
def test_streams_end_with_their_server(url: str, mount: str, number: int) -> None:
    """This uvicorn waits for open requests without a limit, so it ends only if the streams do. Their next heartbeat
    would come later than the tests wait."""
    with web_server(url, mount=mount) as server, ExitStack() as stack:
        readers = [stack.enter_context(listen(server)) for _ in range(5)]
        server.send_signal(number)
        for reader in readers:
            with pytest.raises(EOFError):
                while True:
                    reader.read(HEARTBEAT / 2)
        assert server.process is not None
        server.process.wait(HEARTBEAT / 2)


def test_a_killed_server_is_followed_by_a_replay_without_gap_or_repeat(url: str, shop: App) -> None:
    with web_server(url) as server, ExitStack() as stack:
        reader = stack.enter_context(listen(server))
        is_over = threading.Event()
        writer = threading.Thread(target=_write_until, args=(url, is_over))
        writer.start()
        found, kills = [], 0
        first = int(reader.last_id or 0)
        try:
            while kills < 3:
                try:
                    wanted = len(found) + 20
                    while True:
                        message = reader.read()
                        found += [message] if message.event else []
                        if len(found) == wanted:
                            server.stop(signal.SIGKILL)
                            kills += 1
                except (EOFError, TimeoutError, ConnectionError):
                    reader.close()
                    server.start()
                    reader = stack.enter_context(Reader(server.base, after=reader.position))
        finally:
            is_over.set()
            writer.join()
        last = shop.last_position()
        while positions(found)[-1] < last:
            found += reader.events(1)
    logged, after = [], first
    while page := shop.events(after=after, limit=1_000):
        logged, after = logged + [event.position for event in page], page[-1].position
    assert positions(found) == logged


def _write_until(url: str, is_over: threading.Event) -> None:
    with make_app(url) as app:
        while not is_over.wait(0.01):
            enqueue(app, 3)


def test_a_stream_begins_before_its_answer(sqlite_world: World) -> None:
    """A client that has the answer misses nothing that it causes then, also as the first of a server."""
    application, known = sqlite_world.asgi, []

    async def run() -> None:
        begun = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await begun.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                known.append(application.state.hub.is_ready.is_set())
                begun.set()

        scope = {"type": "http", "method": "GET", "path": "/api/v1/events/stream", "query_string": b""}
        await application({**scope, "headers": [(b"authorization", b"Bearer admin")]}, receive, send)

    asyncio.run(run())
    assert known == [True]


def test_a_stream_ends_when_the_server_announces_its_end(tmp_path: Path) -> None:
    """By the lifespan of ASGI, as servers do that uvicorn is not."""

    async def follow() -> None:
        with make_app(f"sqlite:///{tmp_path}/jobs.db") as app:
            app.migrate()
            application = asgi(app, PlainAccess())
            lifespan: asyncio.Queue[Any] = asyncio.Queue()
            began = asyncio.Event()
            parts: list[Any] = []

            async def send(message: Any) -> None:
                parts.append(message)
                if message["type"] == "http.response.body":
                    began.set()

            async def nothing(message: Any) -> None: ...

            request = {"type": "http", "method": "GET", "path": "/api/v1/events/stream", "root_path": ""}
            headers = [(b"authorization", b"Bearer admin")]
            living = asyncio.create_task(application({"type": "lifespan"}, lifespan.get, nothing))
            await lifespan.put({"type": "lifespan.startup"})
            scope = {**request, "query_string": b"", "headers": headers}
            streaming = asyncio.create_task(application(scope, asyncio.Event().wait, send))
            async with asyncio.timeout(SOON):
                await began.wait()
                await lifespan.put({"type": "lifespan.shutdown"})
                await asyncio.gather(streaming, living)
            assert parts[-1] == {"type": "http.response.body", "body": b"", "more_body": False}

    asyncio.run(follow())
