"""Project: fold the log into failure groups, statistics and metrics. Any worker does it; each page counts once."""

import math
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
# How often to see whether long queues are to be counted again.
COUNT_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Project:
    store: Store
    fold: Fold
    clock: Clock
    _: KW_ONLY
    interval: float
    limit: int
    name: str = "project"
    _counted_at: float = -math.inf

    def step(self) -> int:
        """Fold pages until the end of the log, or until the time of this run is used up. Return how many events."""
        total = self._run(self.interval * SHARE, self.interval * SHARE_BEHIND)
        self._count_depths()
        return total

    def catch_up(self) -> int:
        """Fold all that is there."""
        total = self._run(math.inf, math.inf)
        self._count_depths()
        return total

    def _count_depths(self) -> None:
        """Now and then. The store knows whether another worker has done it."""
        if self.clock.monotonic() - self._counted_at >= COUNT_SECONDS:
            self._counted_at = self.clock.monotonic()
            self.store.count_depths()

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
