"""Dead letters: export jobs with their histories, and purge jobs that are over."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from mulligan.console.arguments import BY_THE_CALL, FILTER, FLAG, NAME, REQUEST_ID, STRING, check
from mulligan.errors import BadFilter, StoreDamaged
from mulligan.failure.redact import bounded
from mulligan.lifecycle import FINAL
from mulligan.records.document import Shape
from mulligan.records.event import Event
from mulligan.records.job import Job, JobFilter, all_pages, describe_filter
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.store.requests import AnswerFormat, answer_format, to_once
from mulligan.store.store import Store
from mulligan.values.duration import Duration, describe, parse

PAGE = 200
# Smaller, because the complete histories of a page are held in memory.
PAGE_WITH_EVENTS = 50
# Jobs purged in one transaction: a large purge must not block other writers.
BATCH = 500


@dataclass(frozen=True, slots=True)
class ExportedJob:
    """A job; with `events=True`, also its history."""

    job: Job[Any]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """How many jobs matched, and how many were purged.

    Held jobs stay: their dedupe key is still in force, or their batch is not over."""

    _shape: ClassVar = Shape(adds=("found", "held"))

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


PURGE: AnswerFormat[Purge] = answer_format(Purge)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    store: Callable[[], Store]
    ids: Callable[[], str]

    @check(wanted=FILTER, owner=NAME, events=FLAG)
    def export(
        self, wanted: JobFilter | None = None, *, owner: str | None = None, events: bool = False
    ) -> Iterator[ExportedJob]:
        # Not a generator itself, so that a wrong argument raises at the call.
        return self._export(wanted or JobFilter(), owner, events=events)

    def _export(self, wanted: JobFilter, owner: str | None, *, events: bool) -> Iterator[ExportedJob]:
        damaged: list[str] = []
        size = PAGE_WITH_EVENTS if events else PAGE
        for page in all_pages(partial(self.store().jobs, wanted, owner=owner, limit=size)):
            damaged += page.damaged
            histories = self.store().histories([job.id for job in page.jobs]) if events else {}
            yield from (ExportedJob(job, tuple(histories.get(job.id, ()))) for job in page.jobs)
        if damaged:
            raise StoreDamaged(
                f"{len(damaged)} rows could not be read; all others were exported: {'; '.join(damaged[:3])}"
            )

    @check(
        wanted=FILTER,
        older_than=BY_THE_CALL,
        owner=NAME,
        dry_run=FLAG,
        actor=STRING,
        reason=STRING,
        request_id=REQUEST_ID,
    )
    def purge(
        self,
        wanted: JobFilter,
        *,
        older_than: Duration,
        owner: str | None = None,
        dry_run: bool = True,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Purge:
        length = parse(older_than)
        if dry_run:
            return self._plan(wanted, length, owner)
        terms = {"filter": wanted, "older_than": length, "actor": actor, "reason": reason}
        once = to_once(request_id, "purge", PURGE, owner, **terms)
        return self.store().in_parts(once, lambda: self._purge(wanted, length, owner, actor, reason))

    def _purge(
        self, wanted: JobFilter, older_than: timedelta, owner: str | None, actor: str | None, reason: str | None
    ) -> Purge:
        plan = self._plan(wanted, older_than, owner)
        about = f"{describe_filter(wanted, owner)}, over for more than {describe(older_than)}"
        purged, cursor = 0, None
        while ids := self.store().list_ended(wanted, before=plan.before, owner=owner, limit=BATCH, cursor=cursor):
            request = PurgeRequest(
                id=self.ids(),
                jobs=ids,
                before=plan.before,
                about=about,
                actor=bounded(actor),
                reason=bounded(reason),
            )
            purged += self.store().purge(request)
            cursor = ids[-1]
        return replace(plan, is_dry=False, purged=purged)

    def _plan(self, wanted: JobFilter, older_than: timedelta, owner: str | None) -> Purge:
        if wanted.state is not None and not set(wanted.states) <= set(FINAL):
            raise BadFilter("state", wanted.state, f"one of {', '.join(FINAL)}: only jobs that are over are purged")
        before = self.store().now() - older_than
        piles = self.store().count_ended(wanted, before=before, owner=owner)
        return Purge(is_dry=True, before=before, piles=tuple(piles))
