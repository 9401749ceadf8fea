"""Project: fold the event log into failure groups and statistics. Any worker does it; each page counts once."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from mulligan.records.folded import Folded
from mulligan.records.log_entry import Entry
from mulligan.store.store import Store
from mulligan.values.clock import Clock

Fold = Callable[[Sequence[Entry]], Folded]

# The fraction of the interval that a run may take: little while jobs are being worked off, more once it is far behind.
SHARE, SHARE_BEHIND = 0.1, 0.5
BEHIND = timedelta(minutes=5)


@dataclass(slots=True, eq=False)
class Project:
    store: Store
    fold: Fold
    clock: Clock
    _: KW_ONLY
    interval: float
    limit: int
    name: str = "project"

    def step(self) -> int:
        """Fold pages until the end of the log, or until the time of this run is used up. Return how many events."""
        return self._run(self.interval * SHARE, self.interval * SHARE_BEHIND)

    def catch_up(self) -> int:
        """Fold all that is there."""
        return self._run(float("inf"), float("inf"))

    def _run(self, seconds: float, seconds_behind: float) -> int:
        began, total = self.clock.monotonic(), 0
        while True:
            turned = self.clock.monotonic()
            page = self.store.next_entries(limit=self.limit)
            if page.position == page.after:
                return total
            folded = self.fold(page.entries)
            if self.store.apply_folded(page, folded):
                total += len(page.entries)
            is_behind = not page.is_end and self._is_behind(folded)
            now = self.clock.monotonic()
            # The next page will take as long as this one.
            if page.is_end or now - began + now - turned > (seconds_behind if is_behind else seconds):
                return total

    def _is_behind(self, folded: Folded) -> bool:
        return self.clock.now().timestamp() * 1e6 - folded.reached_at > BEHIND.total_seconds() * 1e6
