"""Letters: jobs to take away as a whole, and to clear when they are over. Dead letters are the failed ones."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mulligan.errors import BadFilter, StoreDamaged
from mulligan.lifecycle import FINAL
from mulligan.records.event import Event
from mulligan.records.job import Job, JobFilter, Page, describe_filter
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.store.store import Store
from mulligan.values.duration import describe

PAGE = 200
# The whole histories of so many are held at a time.
PAGE_WITH_EVENTS = 50
# One transaction each: nobody waits for a large purge.
BATCH = 500


@dataclass(frozen=True, slots=True)
class Letter:
    """A job, with its history when that was asked for."""

    job: Job[Any]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """What was there to be purged, and how many were. Held ones keep their dedupe key, or
    belong to a batch that is not over, and stay."""

    is_dry: bool
    before: datetime
    piles: tuple[EndedCount, ...]
    purged: int = 0

    @property
    def found(self) -> int:
        return sum(pile.number for pile in self.piles if not pile.is_held)

    @property
    def held(self) -> int:
        return sum(pile.number for pile in self.piles if pile.is_held)


class Letters:
    def __init__(self, store: Callable[[], Store], ids: Callable[[], str]) -> None:
        self._store = store
        self._ids = ids

    def export(self, wanted: JobFilter, *, owner: str | None = None, events: bool = False) -> Iterator[Letter]:
        """One after the other, the newest first. Raises StoreDamaged at the end if there were rows nobody can read."""
        damaged: list[str] = []
        for page in self._pages(wanted, owner, size=PAGE_WITH_EVENTS if events else PAGE):
            damaged += page.damaged
            histories = self._store().histories([job.id for job in page.jobs]) if events else {}
            yield from (Letter(job, tuple(histories.get(job.id, ()))) for job in page.jobs)
        if damaged:
            raise StoreDamaged(
                f"{len(damaged)} rows could not be read, all others were given: {'; '.join(damaged[:3])}"
            )

    def _pages(self, wanted: JobFilter, owner: str | None, *, size: int) -> Iterator[Page[Any]]:
        page = self._store().jobs(wanted, owner=owner, limit=size)
        yield page
        while page.cursor is not None:
            page = self._store().jobs(wanted, owner=owner, limit=size, cursor=page.cursor)
            yield page

    def preview(self, wanted: JobFilter, *, older_than: timedelta, owner: str | None = None) -> Purge:
        """What a purge would find now."""
        if wanted.state is not None and wanted.state not in FINAL:
            raise BadFilter(
                "state", str(wanted.state), f"one of {', '.join(FINAL)}: only jobs that are over are purged"
            )
        before = self._store().now() - older_than
        piles = self._store().count_over(wanted, before=before, owner=owner)
        return Purge(is_dry=True, before=before, piles=tuple(piles))

    def purge(
        self,
        wanted: JobFilter,
        *,
        older_than: timedelta,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Purge:
        """Delete them with their history, batch by batch, each with its line in the log."""
        plan = self.preview(wanted, older_than=older_than, owner=owner)
        about = f"{describe_filter(wanted, owner)}, over for more than {describe(older_than)}"
        purged, cursor = 0, None
        while ids := self._store().over(wanted, before=plan.before, owner=owner, limit=BATCH, cursor=cursor):
            request = PurgeRequest(
                id=self._ids(), jobs=ids, before=plan.before, about=about, actor=actor, reason=reason
            )
            purged += self._store().purge(request)
            cursor = ids[-1]
        return Purge(is_dry=False, before=plan.before, piles=plan.piles, purged=purged)
