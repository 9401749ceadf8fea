"""The event: the immutable record of one transition, and the only history there is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader of the log has come, kept for it by the store."""

    name: str
    position: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """`position` orders the log; a reader who keeps the last one he saw never misses an event.

    An event that is about no job, such as a pause, has an empty `job`; its `data` names what it is about.
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
