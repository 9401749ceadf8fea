"""The event stream of a server in this process, with its access: heartbeats, limits, and what is read of the log."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sse_reader import Reader
from stream_server import make_app

from mulligan import App
from mulligan.web.serving import serve_beside

# A busy machine may take so many seconds for anything.
PATIENCE = 30


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with make_app(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.migrate()
        yield app


@pytest.fixture
def address(app: App) -> Iterator[str]:
    with serve_beside(app) as address:
        yield address


def key(app: App, owner: str | None = None) -> str:
    return app.create_key(owner=owner, name="test").token


def listen(address: str, token: str, query: str = "") -> Reader:
    """A stream that is live: it has told its position."""
    reader = Reader(address, path=f"/api/v1/events/stream{query}", key=token)
    with reader.closed_on_error():
        while reader.last_id is None:
            reader.read(PATIENCE)
    return reader


def test_a_heartbeat_tells_the_position_to_a_client_that_gets_no_events(
    app: App, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.web.stream.stream.HEARTBEAT", 0.05)
    with listen(address, key(app), "?types=job.cancelled") as reader:
        app.tasks["greet"].enqueue("x")
        last = str(app.last_position())
        end = time.monotonic() + PATIENCE
        while (beat := reader.read(PATIENCE)).id != last:
            assert time.monotonic() < end, beat
    assert (beat.comment, beat.event, beat.data) == ("heartbeat", "", None)


def test_a_stream_ends_when_its_key_is_revoked(app: App, address: str) -> None:
    created = app.create_key(owner="acme", name="test")
    with listen(address, created.token) as reader, listen(address, key(app, "acme")) as other:
        app.revoke_key(created.key.id)
        end = time.monotonic() + PATIENCE
        with pytest.raises(EOFError):
            while time.monotonic() < end:
                reader.read(PATIENCE)
        job = app.tasks["greet"].options(owner="acme").enqueue("x")
        assert [message.data["job"] for message in other.events(1, PATIENCE)] == [job.id]


def test_a_server_has_a_limited_number_of_streams(app: App, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mulligan.web.stream.hub.MOST_STREAMS", 2)
    with listen(address, key(app, "a")), listen(address, key(app, "b")), Reader(address, key=key(app, "c")) as more:
        assert more.open(PATIENCE) == 429
        assert "retry-after: 10" in more.head.lower()


def test_the_log_is_read_once_for_all_streams(app: App, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token, read, stream = key(app), list[str](), app.stream

    def count(*given: Any, **named: Any) -> Any:
        page = stream(*given, **named)
        read.extend(str(event.job) for event in page.events)
        return page

    with ExitStack() as stack:
        readers = [stack.enter_context(listen(address, token)) for _ in range(10)]
        monkeypatch.setattr(app, "stream", count)
        job = app.tasks["greet"].enqueue("x")
        for reader in readers:
            assert [message.data["job"] for message in reader.events(1, PATIENCE)] == [job.id]
        assert read == [job.id]
