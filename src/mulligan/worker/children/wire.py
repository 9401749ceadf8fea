"""What a worker and its child processes say to each other: four bytes of length, then JSON."""

import select
import socket
import struct
import threading
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from mulligan.failure.verdict import Verdict
from mulligan.records.job import Called, Fence, Job
from mulligan.worker.children.locate import AppLocation
from mulligan.worker.ending import StopReason

T = TypeVar("T")

_LENGTH = struct.Struct("!I")
# Arguments, results and tracebacks are bounded far below this: whoever says more speaks another language.
LONGEST = 16 * 2**20
SEND_SECONDS = 10.0


class Hello(msgspec.Struct, tag=True):
    """Who you are: the first word to a new child."""

    home: AppLocation
    argv: list[str]
    database_url: str
    log_level: int


class Errand(msgspec.Struct, tag=True):
    """Run this attempt. `job` is missing when its record cannot be read."""

    kind: str
    owner: str
    fence: Fence
    arguments: str
    claimed_at: datetime
    until: datetime
    job: Job[Any] | None
    memory: int | None


class Policed(msgspec.Struct, tag=True):
    """The content of the policies file that is in force from now on."""

    content: bytes


class Stop(msgspec.Struct, tag=True):
    why: StopReason


class Ready(msgspec.Struct, tag=True):
    """The app is loaded, and these are its tasks."""

    kinds: list[str]


class Unable(msgspec.Struct, tag=True):
    """The app cannot be loaded here."""

    problem: str


class Begun(msgspec.Struct, tag=True):
    """The attempt starts now: its time is counted from here, and so is what it does to its process."""


class News(msgspec.Struct, tag=True):
    ratio: float
    text: str


class Said(msgspec.Struct, tag=True):
    """A line for the worker's log."""

    logger: str
    level: int
    text: str
    fields: dict[str, Any]


class Succeeded(msgspec.Struct, tag=True):
    result: str
    calls: tuple[Called, ...] = ()


class Failed(msgspec.Struct, tag=True):
    """Judged where the exception is: a rule may ask it anything. A child that is spent takes no further attempt."""

    verdict: Verdict
    is_spent: bool = False
    calls: tuple[Called, ...] = ()


class Stopped(msgspec.Struct, tag=True):
    pass


ToChild = Hello | Policed | Errand | Stop
FromChild = Ready | Unable | Begun | News | Said | Succeeded | Failed | Stopped
Answer = Succeeded | Failed | Stopped


class Hangup(Exception):
    """The other side is gone, or no longer makes sense."""


class Wire(Generic[T]):
    """One end of the line; T is what the other end says. Any thread may send, one receives."""

    def __init__(self, line: socket.socket, hears: Any) -> None:
        self._line = line
        self._line.settimeout(SEND_SECONDS)
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(hears)
        self._heard = bytearray()
        self._sending = threading.Lock()
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)

    def send(self, message: ToChild | FromChild) -> None:
        body = msgspec.json.encode(message)
        try:
            with self._sending:
                self._line.sendall(_LENGTH.pack(len(body)) + body)
        except OSError as error:
            raise Hangup from error

    def receive(self, seconds: float | None) -> T | None:
        """The next message, or None when none came for so long."""
        while (message := self._next()) is None:
            if not self._poll.poll(None if seconds is None else seconds * 1000):
                return None
            self._heard += self._more()
        return message

    def _more(self) -> bytes:
        try:
            more = self._line.recv(2**16)
        except OSError as error:
            raise Hangup from error
        if not more:
            raise Hangup
        return more

    def _next(self) -> T | None:
        if len(self._heard) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._heard)
        if length > LONGEST:
            raise Hangup
        end = _LENGTH.size + length
        if len(self._heard) < end:
            return None
        body = bytes(self._heard[_LENGTH.size : end])
        del self._heard[:end]
        try:
            return self._decoder.decode(body)
        except ValueError as error:
            raise Hangup from error

    def close(self) -> None:
        self._line.close()
