"""Follow the event stream of a server, over cut connections."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from mulligan.client.connection import CUT, Answer, Connection, Waits
from mulligan.errors import EventsMissed, ServerError
from mulligan.records.document import record_of
from mulligan.records.event import Event
from mulligan.records.progress import Progress

PATH = "/events/stream"
MEDIA_TYPE = "text/event-stream"
TOO_MANY = 429
# The server sends a heartbeat every 15 seconds.
LONGEST_SILENCE = 45.0


class NotNow(Exception):
    """The stream cannot be opened now, and perhaps later."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


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
        connection = self._connection
        waits: Waits | None = None
        while True:
            try:
                with closing(connection.connect(LONGEST_SILENCE)) as line:
                    response = self._open(line)
                    waits = None
                    yield from self._read(response)
                raise ConnectionError("the stream ended")
            except CUT as error:
                waits = waits or Waits(connection)
                if not waits.wait():
                    raise connection.unreachable(error) from error
            except NotNow as error:
                waits = waits or Waits(connection)
                if not waits.wait(error.answer.retry_after):
                    raise error.answer.error() from None
            self._pending = []

    def _open(self, line: http.client.HTTPConnection) -> http.client.HTTPResponse:
        last = {} if self._position is None else {"Last-Event-ID": self._position}
        line.request("GET", self._connection.target(PATH, self._query), headers=self._connection.headers(**last))
        response = line.getresponse()
        if response.status != 200:
            answer = Answer(response)
            # A proxy that limits requests may not say until when.
            raise NotNow(answer) if answer.is_repeatable or answer.status == TOO_MANY else answer.error()
        if response.headers.get_content_type() != MEDIA_TYPE:
            raise ServerError("the answer of the server is no stream of events; is the URL right?", status=200)
        return response

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
