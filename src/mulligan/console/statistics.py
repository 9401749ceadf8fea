"""Statistics: what happened in each minute, hour and day, and whether retries helped."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.console.arguments import NAME, OUTCOME, SPAN, STATISTIC_ROWS, TIME, check
from mulligan.records.statistics import BOUNDS, SPANS, Statistics, judge_retries
from mulligan.store.store import Store

# How far back an answer reaches if nothing is asked for.
BACK = {"minute": timedelta(hours=1), "hour": timedelta(days=1), "day": timedelta(days=30)}


@dataclass(frozen=True, slots=True)
class StatisticConsole:
    store: Callable[[], Store]

    @check(
        span=SPAN,
        since=TIME,
        until=TIME,
        kind=NAME,
        service=NAME,
        outcome=OUTCOME,
        code=NAME,
        owner=NAME,
        limit=STATISTIC_ROWS,
    )
    def read(
        self,
        *,
        span: str = "hour",
        since: datetime | None = None,
        until: datetime | None = None,
        kind: str | None = None,
        service: str | None = None,
        outcome: str | None = None,
        code: str | None = None,
        owner: str | None = None,
        limit: int = 10_000,
    ) -> Statistics:
        store = self.store()
        until = until or store.now() + timedelta(microseconds=1)
        since = since or until - BACK[span]
        wanted = {"kind": kind, "service": service, "outcome": outcome, "code": code, "owner": owner}
        # The span that has `since` in it belongs to the answer.
        first = since - timedelta(seconds=since.timestamp() % SPANS[span])
        found = store.statistics(SPANS[span], since=first, until=until, limit=limit + 1, **wanted)
        rows = tuple(found[:limit])
        return Statistics(
            span=span,
            since=since,
            until=until,
            bounds=BOUNDS,
            rows=rows,
            is_cut=len(found) > limit,
            other=sum(row.number for row in rows if row.is_other),
            retries=judge_retries(rows),
            status=store.projection_status(),
        )

    def rebuild(self) -> None:
        self.store().rebuild_projection()
