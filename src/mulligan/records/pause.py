"""The pause: something that is held back by hand, for a while or until somebody resumes it."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """`what` is the sort of thing (a duty, say) and `name` which of them; it is over at `until`, or by hand only."""

    what: str
    name: str
    since: datetime
    until: datetime | None
    actor: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequest:
    """To pause or to resume. `id` is the caller's: repeating the request changes nothing more."""

    id: str
    what: str
    name: str
    duration: timedelta | None = None
    actor: str | None = None
    reason: str | None = None
