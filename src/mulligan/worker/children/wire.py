"""The messages between a worker and its child processes: four bytes of length, then JSON."""

import select
import socket
import struct
import threading
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from mulligan.failure.verdict import Verdict
from mulligan.records.job import Fence, Job, ReportedCall
from mulligan.worker.children.locate import AppLocation
from mulligan.worker.ending import StopReason

T = TypeVar("T")

_LENGTH = struct.Struct("!I")
# Arguments, results and tracebacks are bounded far below this: a longer message is not one of ours.
LONGEST = 16 * 2**20
SEND_SECONDS = 10.0


class Hello(msgspec.Struct, tag=True):
    """The first message to a new child: which app to load, and how."""

    location: AppLocation
    argv: list[str]
    database_url: str
    log_level: int


class AttemptRequest(msgspec.Struct, tag=True):
    """Run this attempt. `job` is missing when its record cannot be read."""

    kind: str
    owner: str
    fence: Fence
    arguments: str
    claimed_at: datetime
    until: datetime
    job: Job[Any] | None
    memory: int | None
    trace: tuple[str, ...] = ()
    """The span that the child's spans continue from, as the tags of a job."""


class PolicyUpdate(msgspec.Struct, tag=True):
    """The policies file that is in force from now on."""

    content: bytes


class StopRequest(msgspec.Struct, tag=True):
    why: StopReason


class Ready(msgspec.Struct, tag=True):
    """The app is loaded and has these tasks."""

    kinds: list[str]


class LoadFailed(msgspec.Struct, tag=True):
    """The app cannot be loaded in the child."""

    problem: str


class AttemptBegun(msgspec.Struct, tag=True):
    """The attempt starts now. Its timeout counts from here, and from here it is charged if its process dies."""


class ProgressReport(msgspec.Struct, tag=True):
    ratio: float
    text: str


class LogLine(msgspec.Struct, tag=True):
    """A line for the worker's log."""

    logger: str
    level: int
    text: str
    fields: dict[str, Any]


class AttemptSucceeded(msgspec.Struct, tag=True):
    result: str
    calls: tuple[ReportedCall, ...] = ()


class AttemptFailed(msgspec.Struct, tag=True):
    """Classified in the child, where rules can inspect the exception. A spent child takes no further attempt."""

    verdict: Verdict
    is_spent: bool = False
    calls: tuple[ReportedCall, ...] = ()


class AttemptStopped(msgspec.Struct, tag=True):
    pass


ToChild = Hello | PolicyUpdate | AttemptRequest | StopRequest
AttemptEnd = AttemptSucceeded | AttemptFailed | AttemptStopped
FromChild = Ready | LoadFailed | AttemptBegun | ProgressReport | LogLine | AttemptEnd


class LineClosed(Exception):
    """The other side is gone, or sent something that is not a message."""


class Wire(Generic[T]):
    """One end of the connection; T is what the other end sends. Any thread may send, one receives."""

    def __init__(self, line: socket.socket, received: Any) -> None:
        self._line = line
        self._line.settimeout(SEND_SECONDS)
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(received)
        self._buffer = bytearray()
        self._sending = threading.Lock()
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)

    def send(self, message: ToChild | FromChild) -> None:
        body = msgspec.json.encode(message)
        try:
            with self._sending:
                self._line.sendall(_LENGTH.pack(len(body)) + body)
        except OSError as error:
            raise LineClosed from error

    def receive(self, seconds: float | None) -> T | None:
        """The next message, or None when there is none for so long. Raises LineClosed."""
        while (message := self._next()) is None:
            if not self._poll.poll(None if seconds is None else seconds * 1000):
                return None
            self._buffer += self._read()
        return message

    def _read(self) -> bytes:
        try:
            more = self._line.recv(2**16)
        except OSError as error:
            raise LineClosed from error
        if not more:
            raise LineClosed
        return more

    def _next(self) -> T | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > LONGEST:
            raise LineClosed
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        try:
            return self._decoder.decode(body)
        except ValueError as error:
            raise LineClosed from error

    def close(self) -> None:
        self._line.close()
