"""The event stream on PostgreSQL: several writer processes, transactions that commit late, and readers that are cut
off anywhere."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import postgres_server
from sse_reader import Message, Reader
from stream_server import make_app, web_server

WRITERS, TRANSACTIONS = 3, 40
WRITER = """
import random, sys, time
import psycopg
from stream_server import make_app
url, seed, transactions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
app = make_app(url)
with psycopg.connect(url) as connection:
    for number in range(transactions):
        jobs = [app.tasks["greet"].options(connection=connection).bind(str(number)) for _ in range(draw.randint(1, 4))]
        app.enqueue_many(jobs)
        # Events of transactions that began later are committed first.
        time.sleep(draw.random() * 0.05)
        connection.commit()
app.close()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres_server(fsync="off") as server:
        url = server.fresh_database("web")
        with make_app(url) as app:
            app.migrate()
        yield url


def test_late_commits_of_several_writers_are_neither_skipped_nor_repeated(url: str) -> None:
    draw = random.Random(7)
    with web_server(url) as server, make_app(url) as app:
        reader = Reader(server.base, after="0")
        found: list[Message] = []
        writers = [start_writer(url, seed) for seed in range(WRITERS)]
        while any(writer.poll() is None for writer in writers):
            read_some(reader, found, draw.randint(1, 30))
            reader.close()
            # What came after the last id comes again: its transaction was not whole.
            while found and found[-1].id is None:
                found.pop()
            reader = Reader(server.base, after=reader.position)
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        logged = [(event.position, event.job) for event in app.stream(limit=1_000).events]
        while len(found) < len(logged):
            found += reader.events(1)
        reader.close()
    assert [(message.data["position"], message.data["job"]) for message in found] == logged
    assert len({position for position, _ in logged}) == WRITERS * TRANSACTIONS < len(logged)
    for message, following in zip(found, [*found[1:], None], strict=True):
        is_last = following is None or following.data["position"] != message.data["position"]
        assert (message.id == str(message.data["position"])) is is_last


def start_writer(url: str, seed: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", WRITER, url, str(seed), str(TRANSACTIONS)]
    return subprocess.Popen(command, env={"PYTHONPATH": str(Path(__file__).parent)})


def read_some(reader: Reader, found: list[Message], number: int) -> None:
    try:
        for _ in range(number):
            message = reader.read(1)
            if message.event:
                found.append(message)
    except TimeoutError:
        pass


def test_a_transaction_larger_than_any_queue_arrives_whole(url: str) -> None:
    with web_server(url) as server, make_app(url) as app:
        reader = Reader(server.base)
        while reader.last_id is None:
            reader.read()
        jobs = app.enqueue_many([app.tasks["greet"].bind(str(number)) for number in range(1_500)])
        found = reader.events(len(jobs), timeout=30)
        reader.close()
    assert [message.data["job"] for message in found] == [job.id for job in jobs]
    assert [message.id for message in found[:-1]] == [None] * (len(jobs) - 1)


def test_a_stream_survives_an_outage_of_the_database() -> None:
    with postgres_server(fsync="off") as database:
        url = database.fresh_database("web")
        with make_app(url) as app:
            app.migrate()
        with web_server(url) as server:
            reader = Reader(server.base)
            while reader.last_id is None:
                reader.read()
            database.stop()
            with Reader(server.base, path="/api/v1/events") as refused:
                assert refused.open(60) == 503
            database.start()
            with make_app(url) as app:
                job = app.tasks["greet"].enqueue("x")
            (message,) = reader.events(1, timeout=60)
            assert message.data["job"] == job.id
            reader.close()
