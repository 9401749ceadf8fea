"""An entry: what the built-in projections need of an event. Times are microseconds, as stored."""

from typing import NamedTuple

import msgspec


class ServiceCallFacts(msgspec.Struct, gc=False):
    service: str
    ok: bool
    seconds: float | None = None


class Facts(msgspec.Struct, gc=False):
    """The fields of an event's data that are folded. All others are skipped without being decoded."""

    seconds: float | None = None
    error_class: str | None = msgspec.field(default=None, name="class")
    message: str | None = None
    group: str | None = None
    error: str | None = None
    worker: str | None = None
    by: str | None = None
    calls: list[ServiceCallFacts] | int | None = None
    """Of an attempt. An event about a service has a number here."""
    service: str | None = None
    to: str | None = None


class Entry(NamedTuple):
    """`ready_at` is when a started job became ready; `version` is that of the attempt that failed."""

    position: int
    type: str
    job: str
    kind: str
    owner: str
    attempt: int
    at: int
    code: str | None
    service: str
    cost: int
    ready_at: int | None
    version: str | None
    facts: Facts


class EntryPage(NamedTuple):
    """The next entries after the position that the projections have reached."""

    entries: list[Entry]
    after: int
    position: int
    is_end: bool
    is_pruned: bool
    """Events after `after` were deleted before they were folded."""
