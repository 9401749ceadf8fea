"""Messages of server-sent events.

Events of one transaction share a position. Only the last of them has an `id`, so that a reader that was cut off in the
middle of a transaction gets all of it again.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import NamedTuple

import msgspec

from mulligan.explain.context import hide_in_event
from mulligan.records.document import document_of
from mulligan.records.event import Event
from mulligan.records.progress import Progress
from mulligan.web.stream.wanted import PROGRESS

# One write to a client. A client that does not read holds about this much more than its connection buffers.
PIECE = 8 * 1024


class Reset(msgspec.Struct, frozen=True):
    """The reader may have missed events. It goes on after `position`."""

    reason: str
    position: int


class Written(NamedTuple):
    """An event as a message, without its end."""

    position: int
    text: bytes


def write_event(event: Event, *, is_for_owner: bool) -> Written:
    """An owner sees no workers, no people and no technical detail."""
    shown = hide_in_event(event) if is_for_owner else event
    return Written(event.position, _write(event.type, msgspec.json.encode(document_of(shown))))


def write_progress(progress: Progress) -> bytes:
    return _write(PROGRESS, msgspec.json.encode(document_of(progress))) + b"\n"


def write_reset(reason: str, position: int) -> bytes:
    data = msgspec.json.encode(Reset(reason, position))
    return _write("reset", data) + write_position(position)


def write_position(position: int) -> bytes:
    """Without data, it is no message: the reader only remembers the position."""
    return b"id: %d\n\n" % position


def _write(name: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n" % (name.encode(), data)


def finish(events: Iterable[Written]) -> Iterator[bytes]:
    """The messages of whole transactions, in pieces."""
    parts: list[bytes] = []
    size = 0
    for event, following in pairwise(chain(events, [None])):
        assert event is not None
        is_last = following is None or following.position != event.position
        parts += [event.text, write_position(event.position) if is_last else b"\n"]
        size += len(event.text)
        if size >= PIECE:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)
