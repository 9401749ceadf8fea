"""Prune: deletes finished jobs and their history by age and number, a few at a time."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from mulligan.duties.runner import repeat_while_full
from mulligan.records.retention import Keep
from mulligan.store.store import Store

PASSES = 50
# Whatever their number: a client that repeats an enqueue must find its job, not store it again.
YOUNGEST = timedelta(hours=1)


class Prune:
    name = "prune"

    def __init__(self, store: Store, *, keep: Sequence[Keep], interval: float = 10.0, limit: int = 500) -> None:
        self._store = store
        self._keep = keep
        self.interval = interval
        self.limit = limit

    def step(self) -> int:
        now = self._store.now()
        return sum(self._prune(keep, now) for keep in self._keep) + self._prune_batches(now)

    def _prune_batches(self, now: datetime) -> int:
        """Batches are deleted after their members, so they have no retention rules."""
        if not any(keep.age is not None or keep.count is not None for keep in self._keep):
            return 0
        before = now - max((keep.age for keep in self._keep if keep.age is not None), default=YOUNGEST)
        return repeat_while_full(
            lambda limit: self._store.prune_batches(before=before, limit=limit), limit=self.limit, passes=PASSES
        )

    def _prune(self, keep: Keep, now: datetime) -> int:
        before = max(self._ends(keep, now), default=None)
        if before is None:
            return 0
        return repeat_while_full(
            lambda limit: self._store.prune(keep.state, before=before, limit=limit), limit=self.limit, passes=PASSES
        )

    def _ends(self, keep: Keep, now: datetime) -> Iterator[datetime]:
        """The moments before which jobs may be deleted: by age, and by number."""
        if keep.age is not None:
            yield now - keep.age
        if keep.count is not None and (last := self._store.newest(keep.state, keep.count)) is not None:
            yield min(last, now - YOUNGEST)

    def run(self, _actor: str | None) -> int:
        """A manual run is the same."""
        return self.step()
