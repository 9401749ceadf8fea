"""Clients that do not read: they are disconnected, and cost little memory meanwhile."""

import os
import select
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from sse_reader import Reader
from stream_server import WebServer, make_app, web_server

from mulligan import App

SOAK = bool(os.environ.get("MULLIGAN_SOAK"))
# As many streams, over as many owners; and what they may cost. A stalled stream takes about 70 KiB: its messages of one
# page and its buffers. The threads that read the log take 2 to 7 MiB, whatever the number of streams. Streams that
# kept all their events would take more than the bound beside that.
STREAMS, OWNERS, MEBIBYTES = (300, 15, 30) if SOAK else (60, 15, 24)
# More than the buffers hold.
EVENTS_PER_OWNER = 3_000 if SOAK else 1_000
# A client that does not read is disconnected after ten seconds.
PATIENCE = 40


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def server(url: str) -> Iterator[WebServer]:
    with web_server(url) as server:
        yield server


def write(app: App, owner: str, number: int) -> None:
    task = app.tasks["greet"].options(owner=owner, tags=["x" * 200])
    for begin in range(0, number, 500):
        app.enqueue_many([task.bind("n") for _ in range(min(500, number - begin))])


def test_stalled_clients_cost_little_and_are_disconnected(server: WebServer, url: str) -> None:
    with make_app(url) as app, ExitStack() as stack:
        write(app, "o0", 1)
        httpx.get(f"{server.base}/api/v1/jobs", headers={"Authorization": "Bearer o0"}, timeout=PATIENCE)
        with Reader(server.base, key="first") as reader:
            reader.read()
        before = server.memory
        stalled = [
            stack.enter_context(Reader(server.base, key=f"o{number % OWNERS}", buffer=4096))
            for number in range(STREAMS)
        ]
        for reader in stalled:
            while reader.last_id is None:
                reader.read()
        most = server.memory - before
        for owner in range(OWNERS):
            write(app, f"o{owner}", EVENTS_PER_OWNER)
            most = max(most, server.memory - before)
        end, slowest = time.monotonic() + PATIENCE, 0.0
        left = stalled
        while left and time.monotonic() < end:
            most = max(most, server.memory - before)
            began = time.monotonic()
            assert httpx.get(f"{server.base}/nothing", timeout=PATIENCE).status_code == 404
            slowest = max(slowest, time.monotonic() - began)
            left = [reader for reader in left if not is_cut(reader)]
            time.sleep(0.2)
    print(f"{STREAMS} stalled streams: {most / 2**20:.1f} MiB at most, slowest answer {slowest * 1000:.0f} ms")
    assert not left, f"{len(left)} are still connected"
    assert most < MEBIBYTES * 2**20


def is_cut(reader: Reader) -> bool:
    """Whether the server has reset the connection: seen without reading from it."""
    poll = select.poll()
    poll.register(reader.socket, select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))
