"""Follow the event stream of a server, over cut connections."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from mulligan.client.connection import CUT, FIRST_DELAY, LONGEST_DELAY, Connection
from mulligan.client.problems import to_error
from mulligan.errors import EventsMissed
from mulligan.records.document import record_of
from mulligan.records.event import Event
from mulligan.records.progress import Progress

PATH = "/events/stream"
PROGRESS = "job.progress"
# The server sends a heartbeat every 15 seconds.
LONGEST_SILENCE = 45.0


@dataclass(slots=True)
class Message:
    event: str = ""
    id: str | None = None
    data: bytes = b""


class Following:
    """The events after a position, whole transactions at a time: those of a transaction that was cut off come again,
    and are given out once."""

    def __init__(self, connection: Connection, query: Mapping[str, Any], after: int | None) -> None:
        self._connection, self._query = connection, query
        self._position = None if after is None else str(after)
        self._pending: list[Event] = []

    def __iter__(self) -> Iterator[Event | Progress]:
        connection, delay, end = self._connection, FIRST_DELAY, None
        while True:
            try:
                with closing(connection.connect(LONGEST_SILENCE)) as line:
                    response = self._open(line)
                    delay, end = FIRST_DELAY, None
                    yield from self._read(response)
                error: Exception = ConnectionError("the stream ended")
            except CUT as cut:
                error = cut
            self._pending = []
            now = connection.clock.monotonic()
            end = end or now + connection.patience.total_seconds()
            if now + delay > end:
                raise connection.unreachable(error) from error
            connection.pause(delay * (0.5 + connection.randomness.random()))
            delay = min(delay * 2, LONGEST_DELAY)

    def _open(self, line: http.client.HTTPConnection) -> http.client.HTTPResponse:
        last = {} if self._position is None else {"Last-Event-ID": self._position}
        line.request("GET", self._connection.target(PATH, self._query), headers=self._connection.headers(**last))
        response = line.getresponse()
        if response.status == 200:
            return response
        if response.status in (429, 502, 503, 504):
            raise ConnectionError(f"the server answered with {response.status}")
        problem = msgspec.json.decode(response.read())
        raise to_error(response.status, problem, retry_after=None, refused=None, about={})

    def _read(self, response: http.client.HTTPResponse) -> Iterator[Event | Progress]:
        for message in _messages(response):
            match message.event:
                case "":
                    pass
                case "reset":
                    found = msgspec.json.decode(message.data)
                    raise EventsMissed(found["position"], found["reason"])
                case "job.progress":
                    yield record_of(Progress, msgspec.json.decode(message.data))
                case _:
                    self._pending.append(record_of(Event, msgspec.json.decode(message.data)))
            if message.id is not None:
                whole, self._pending, self._position = self._pending, [], message.id
                yield from whole


def _messages(response: http.client.HTTPResponse) -> Iterator[Message]:
    message = Message()
    while line := response.readline():
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        match name:
            case b"event":
                message.event = value.decode()
            case b"id":
                message.id = value.decode()
            case b"data":
                message.data = value
            case b"":
                if line.strip() == b"":
                    yield message
                    message = Message()
