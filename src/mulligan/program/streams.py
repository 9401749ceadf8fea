"""The bounded output of a program: lines as they come, the head of stdout, the tail of stderr."""

import re
from collections import deque
from collections.abc import Iterator

STDOUT_LIMIT = 10 * 1024 * 1024
STDERR_LIMIT = 16 * 1024
LONGEST_LINE = 8 * 1024

_ENDS = re.compile(rb"([\r\n])")


class Lines:
    """Splits a stream into lines. A carriage return ends a line too, and the next line overwrites it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, bool]]:
        """Each line, and whether it stays. A line that does not stay is a state of a progress bar."""
        *pairs, self._rest = _ENDS.split(self._rest + data)
        for line, end in zip(pairs[::2], pairs[1::2], strict=True):
            *pieces, last = _pieces(line)
            yield from ((_text(piece), True) for piece in pieces)
            yield _text(last), end == b"\n"
        *pieces, self._rest = _pieces(self._rest)
        yield from ((_text(piece), True) for piece in pieces)

    def close(self) -> Iterator[tuple[str, bool]]:
        rest, self._rest = self._rest, b""
        yield _text(rest), True


def _pieces(line: bytes) -> list[bytes]:
    """A line that is too long counts as several."""
    return [line[at : at + LONGEST_LINE] for at in range(0, len(line), LONGEST_LINE)] or [line]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip()


class Tail:
    """The last lines of a stream as a terminal would show them, without overwritten lines."""

    def __init__(self, limit: int = STDERR_LIMIT) -> None:
        self._limit = limit
        self._lines: deque[str] = deque()
        self._size = 0
        self._shown = ""

    def add(self, line: str, stays: bool) -> None:  # noqa: FBT001
        self._shown = line or self._shown
        if not stays or not self._shown:
            return
        self._lines.append(self._shown)
        self._size += _size(self._shown)
        self._shown = ""
        while self._size > self._limit:
            self._size -= _size(self._lines.popleft())

    @property
    def text(self) -> str:
        return "\n".join([*self._lines, self._shown] if self._shown else self._lines)


def _size(line: str) -> int:
    return len(line.encode()) + 1


class Head:
    """The first bytes of a stream."""

    def __init__(self, limit: int = STDOUT_LIMIT) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self.is_cut = False

    def add(self, data: bytes) -> None:
        room = self._limit - len(self._bytes)
        self._bytes += data[:room]
        self.is_cut = self.is_cut or len(data) > room

    @property
    def bytes(self) -> bytes:
        return bytes(self._bytes)
