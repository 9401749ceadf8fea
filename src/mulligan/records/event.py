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
