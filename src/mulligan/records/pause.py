"""The pause: a queue, kind, service, duty, schedule or intake that is stopped manually, for a time or until it is
resumed."""

from dataclasses import dataclass
from datetime import datetime, timedelta

EVERYTHING = "*"
"""The name of a pause of all intake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """`what` is the sort of thing, such as a duty, and `name` its name. Without `until` it lasts until resumed."""

    what: str
    name: str
    since: datetime
    until: datetime | None
    actor: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequest:
    """A request to pause or to resume. `id` is the caller's: repeating the request has no further effect."""

    id: str
    what: str
    name: str
    duration: timedelta | None = None
    actor: str | None = None
    reason: str | None = None
