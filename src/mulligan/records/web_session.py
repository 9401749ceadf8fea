"""The session of a person who is signed in to the dashboard, with the key that signed in."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.records.key import StoredKey

IDLE_FOR = timedelta(minutes=30)
LASTS = timedelta(hours=12)
LINK_LASTS = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class WebSession:
    stored: StoredKey
    begun_at: datetime
    used_at: datetime

    @property
    def is_usable(self) -> bool:
        """A session ends with its key, after a time without use, and after a time in any case."""
        now = self.stored.now
        return self.stored.is_usable and now < self.used_at + IDLE_FOR and now < self.begun_at + LASTS
