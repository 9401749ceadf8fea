"""Statistics: what happened in each minute, hour and day, and whether retries helped."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.console.arguments import NAME, OUTCOME, REQUEST_ID, SPAN, STATISTIC_ROWS, STEP, TIME, check
from mulligan.errors import BadArgument
from mulligan.records.statistics import BOUNDS, SPANS, FailureTrend, Statistics, judge_retries
from mulligan.store.requests import NOTHING, to_once
from mulligan.store.store import Store
from mulligan.values.duration import Duration, parse

# How far back an answer reaches if nothing is asked for.
BACK = {"minute": timedelta(hours=1), "hour": timedelta(days=1), "day": timedelta(days=30)}
# Of a trend: a day of ten minutes.
STEPS = 144
MOST_STEPS = 2_000


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

    @check(step=STEP, since=TIME, until=TIME, kind=NAME, code=NAME, owner=NAME)
    def failures(
        self,
        *,
        step: Duration = "10m",
        since: datetime | None = None,
        until: datetime | None = None,
        kind: str | None = None,
        code: str | None = None,
        owner: str | None = None,
    ) -> FailureTrend:
        store, length = self.store(), parse(step)
        until = until or store.now() + timedelta(microseconds=1)
        since = since or until - STEPS * length
        # The step that has `since` in it belongs to the answer.
        first = since - timedelta(seconds=since.timestamp() % length.total_seconds())
        if until - first > MOST_STEPS * length:
            raise BadArgument("since", since, f"at most {MOST_STEPS:,} steps before the end")
        points = store.failure_points(length, since=first, until=until, kind=kind, code=code, owner=owner)
        return FailureTrend(
            since=since, until=until, step=length, points=tuple(points), status=store.projection_status()
        )

    @check(request_id=REQUEST_ID)
    def rebuild(self, *, request_id: str | None = None) -> None:
        self.store().in_parts(to_once(request_id, "rebuild statistics", NOTHING), self.store().rebuild_projection)
