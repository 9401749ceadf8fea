"""The event: the immutable record of one transition. Events are the only history."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a reader of the log, kept by the store."""

    name: str
    position: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """`position` orders the log; a reader that remembers its last position misses no event.

    An event about another subject than a job, such as a pause, has an empty `job`, and its `data` names the subject.
    `batch`, `queue`, `service` and `cost` are those of the job. An event about a batch or a service has its `batch` or
    `service`.
    """

    position: int
    type: str
    job: str
    kind: str
    owner: str
    attempt: int
    at: datetime
    actor: str | None
    code: str | None
    data: Mapping[str, Any]
    batch: str | None = None
    queue: str = ""
    service: str = ""
    cost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events a reader of the log wants: those that fit all given fields. `types` are the names of events."""

    job: str | None = None
    batch: str | None = None
    kind: str | None = None
    owner: str | None = None
    types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EventPage:
    """The next events of the log that a reader wants, oldest first.

    `position` is how far the log was read, also if no event matched: continue with `after=page.position`. With
    `is_end`, all that could be read was read. With `is_pruned`, an event after the reader's position was deleted
    before the reader came to it.
    """

    events: tuple[Event, ...]
    position: int
    is_end: bool
    is_pruned: bool = False
