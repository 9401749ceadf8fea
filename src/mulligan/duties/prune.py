"""Prune: deletes finished jobs and their history by age and number, results, the audit, failure groups
and statistics by age, a few at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

from mulligan.duties.runner import repeat_while_full
from mulligan.records.retention import Keep
from mulligan.records.statistics import SPANS
from mulligan.store.requests import REQUESTS_KEPT
from mulligan.store.store import Store

PASSES = 50
# Minutes, hours or days whose statistics one run deletes.
MOST_SPANS = 100
# A series of a metric that has not changed for so long makes room for others.
SERIES_KEPT = timedelta(days=90)
# Whatever their number: a client that repeats an enqueue must find its job, not store it again.
YOUNGEST = timedelta(hours=1)


@dataclass(slots=True, eq=False)
class Prune:
    name = "prune"

    store: Store
    _: KW_ONLY
    keep: Sequence[Keep]
    results: timedelta | None = None
    """How long the results of succeeded jobs are kept; None: as long as the jobs."""
    audit: timedelta | None = None
    """How long the entries of the audit are kept; None: for ever."""
    groups: timedelta | None = None
    """How long failure groups are kept after they were last seen; None: for ever."""
    spans: Mapping[str, timedelta | None] = field(default_factory=dict)
    """How long the statistics of minutes, hours and days are kept; None: for ever."""
    deliveries: timedelta | None = None
    """How long the log of deliveries is kept; None: for ever."""
    interval: float = 10.0
    limit: int = 500

    def step(self) -> int:
        now = self.store.now()
        pruned = (
            sum(self._prune(keep, now) for keep in self.keep)
            + self._prune_batches(now)
            + self._prune_requests(now)
            + self._prune_access(now)
            + self._prune_deliveries(now)
        )
        self._prune_projections(now)
        return pruned + (0 if self.results is None else self._expire_results(now - self.results))

    def _expire_results(self, before: datetime) -> int:
        expired = 0
        for _ in range(PASSES):
            done = self.store.expire_results(before=before, limit=self.limit)
            expired += done.expired
            if done.seen < self.limit:
                break
        return expired

    def _prune_batches(self, now: datetime) -> int:
        """Batches are deleted after their members, so they have no retention rules."""
        if not any(keep.age is not None or keep.count is not None for keep in self.keep):
            return 0
        before = now - max((keep.age for keep in self.keep if keep.age is not None), default=YOUNGEST)
        return repeat_while_full(
            lambda limit: self.store.prune_batches(before=before, limit=limit), limit=self.limit, passes=PASSES
        )

    def _prune_requests(self, now: datetime) -> int:
        return repeat_while_full(
            lambda limit: self.store.prune_requests(before=now - REQUESTS_KEPT, limit=limit),
            limit=self.limit,
            passes=PASSES,
        )

    def _prune_access(self, now: datetime) -> int:
        before = None if self.audit is None else now - self.audit
        return repeat_while_full(
            lambda limit: self.store.prune_access(audited_before=before, limit=limit), limit=self.limit, passes=PASSES
        )

    def _prune_projections(self, now: datetime) -> None:
        """They are no jobs, so they are not counted."""
        if self.groups is not None:
            before = now - self.groups
            repeat_while_full(
                lambda limit: self.store.prune_groups(before=before, limit=limit), limit=self.limit, passes=PASSES
            )
        for span, age in self.spans.items():
            if age is not None:
                self.store.prune_statistics(SPANS[span], before=now - age, limit=MOST_SPANS)
        self.store.prune_totals(before=now - SERIES_KEPT)

    def _prune_deliveries(self, now: datetime) -> int:
        if self.deliveries is None:
            return 0
        before = now - self.deliveries
        return repeat_while_full(
            lambda limit: self.store.prune_deliveries(before=before, limit=limit), limit=self.limit, passes=PASSES
        )

    def _prune(self, keep: Keep, now: datetime) -> int:
        before = max(self._ends(keep, now), default=None)
        if before is None:
            return 0
        return repeat_while_full(
            lambda limit: self.store.prune(keep.state, before=before, limit=limit), limit=self.limit, passes=PASSES
        )

    def _ends(self, keep: Keep, now: datetime) -> Iterator[datetime]:
        """The moments before which jobs may be deleted: by age, and by number."""
        if keep.age is not None:
            yield now - keep.age
        if keep.count is not None and (last := self.store.newest(keep.state, keep.count)) is not None:
            yield min(last, now - YOUNGEST)
