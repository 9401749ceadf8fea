"""Failures, the first page: groups of similar failures, those that hurt most first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec

from mulligan.lifecycle import State
from mulligan.records.counts import Counts
from mulligan.records.failure_group import GROUP_ORDERS, FailureGroup, GroupPage, GroupState
from mulligan.records.job import JobFilter
from mulligan.records.key import Scope
from mulligan.records.statistics import FailureTrend
from mulligan.service.records import ServiceStatus
from mulligan.service.state import BreakerState
from mulligan.web.api.terms import String
from mulligan.web.pages.charts import (
    DAY,
    HOUR,
    MINUTE,
    NARROW,
    WIDE,
    Axis,
    Ribbon,
    floor_time,
    ribbon,
    spark,
    spark_scale,
)
from mulligan.web.pages.failure_marks import Mark, mark_of
from mulligan.web.pages.failure_words import Inbox, is_coped_with, say_inbox
from mulligan.web.pages.page import PageCall, Pages, View
from mulligan.web.pages.tracebacks import short_title
from mulligan.web.pages.versions import known_versions, running_versions

pages = Pages("Failures")

LIVELY = (GroupState.OPEN, GroupState.REGRESSED)
STATES: dict[str, tuple[GroupState, ...]] = {
    "open": LIVELY,
    "ignored": (GroupState.IGNORED,),
    "resolved": (GroupState.RESOLVED,),
    "all": (),
}
TABS = {"open": "Need you", "ignored": "Ignored", "resolved": "Resolved", "all": "All"}
ORDERS = {"impact": "By impact", "last_seen": "Last seen", "first_seen": "Newest first", "failures": "Most failures"}
PAGE_SIZE = 25
BEHIND = timedelta(minutes=1)


class Range(NamedTuple):
    """A time that the chart covers: its step, how many, and the distance of the labels. The phone has longer steps."""

    spoken: str
    step: timedelta
    steps: int
    every: timedelta
    merged: int
    every_narrow: timedelta


RANGES = {
    "1h": Range("the last hour", MINUTE, 60, 10 * MINUTE, 1, 20 * MINUTE),
    "24h": Range("the last 24 hours", 10 * MINUTE, 144, 3 * HOUR, 2, 6 * HOUR),
    "7d": Range("the last 7 days", HOUR, 168, DAY, 2, 2 * DAY),
    "30d": Range("the last 30 days", 6 * HOUR, 120, 5 * DAY, 2, 10 * DAY),
}


class FailuresQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    state: Literal[tuple(STATES)] = "open"  # type: ignore[valid-type]
    kind: String | None = None
    code: String | None = None
    order: Literal[GROUP_ORDERS] = "impact"  # type: ignore[valid-type]
    range: Literal[tuple(RANGES)] = "24h"  # type: ignore[valid-type]
    cursor: String | None = None

    @property
    def is_plain(self) -> bool:
        """It asks for the groups that the sentence is about."""
        return (self.state, self.kind, self.code, self.order, self.cursor) == ("open", None, None, "impact", None)


@dataclass(frozen=True, slots=True)
class Row:
    """`failed` counts jobs that are failed now: fewer than the group has seen if some were retried or deleted."""

    group: FailureGroup
    title: str
    mark: Mark | None
    spark: str
    failed: int
    is_coped_with: bool


@pages.page("/", scope=Scope.JOBS_READ)
def show_failures(call: PageCall, query: FailuresQuery) -> View:
    top = call.console.failures(state=LIVELY, limit=PAGE_SIZE)
    page = top if query.is_plain else _find(call, query)
    failed = call.console.counts(JobFilter(state=State.FAILED))
    by_group = _count_by_group(call, failed)
    trend = read_trend(call, query.range)
    running, services = running_versions(call), _services(call)
    inbox = Inbox(
        failed=failed.total,
        is_more=failed.at_least,
        groups=top.groups,
        **_largest(call, top.groups, by_group),
        counts=top.counts,
        recent_failed=sum(point.failed for point in trend.points),
        recent_recovered=sum(point.recovered for point in trend.points),
        spoken=RANGES[query.range].spoken,
        running=running,
        now=call.now,
    )
    values = {
        "says": say_inbox(inbox),
        "inbox": inbox,
        "query": query,
        "address_of": lambda **changes: address_of(query, **changes),
        **_charts(query.range, trend, running, services, top.groups),
        **_table(page, query.order, by_group, call.now),
    }
    if _is_first_run(call, inbox):
        return View("first_run.html", has_worker=bool(running) or _has_workers(call), **values)
    notices: dict[str, Any] = {
        "down": _down(services),
        "stuck": _stuck(call),
        "is_behind": _is_behind(trend),
        "trend": trend,
    }
    return View("failures.html", tabs=_tabs(page.counts), orders=ORDERS, ranges=RANGES, **notices, **values)


def _find(call: PageCall, query: FailuresQuery) -> GroupPage:
    found: GroupPage = call.console.failures(
        state=STATES[query.state] or None,
        kind=query.kind,
        code=query.code,
        order=query.order,
        limit=PAGE_SIZE,
        cursor=query.cursor,
    )
    return found


# With more failed jobs than this, groups show what they have counted themselves.
MOST_COUNTED = 2_000


def _count_by_group(call: PageCall, failed: Counts) -> Mapping[str, int] | None:
    """How many jobs of each group are failed now; None if there are too many to count."""
    if failed.at_least or failed.total > MOST_COUNTED:
        return None
    found: Counts = call.console.counts(JobFilter(state=State.FAILED), by="group")
    return found.groups


def failed_now(group: FailureGroup, by_group: Mapping[str, int] | None) -> int:
    return group.failed if by_group is None else by_group.get(group.id, 0)


def _largest(call: PageCall, groups: Sequence[FailureGroup], by_group: Mapping[str, int] | None) -> dict[str, Any]:
    largest = max(groups, key=lambda group: failed_now(group, by_group), default=None)
    if largest is None:
        return {}
    number = failed_now(largest, by_group)
    if by_group is None:
        number = call.console.counts(JobFilter(state=State.FAILED, group=largest.id)).total
    return {"largest": largest, "in_largest": number}


def _table(page: GroupPage, order: str, by_group: Mapping[str, int] | None, now: datetime) -> dict[str, Any]:
    scale = spark_scale((group.hours for group in page.groups), now)
    rows = [
        Row(
            group,
            short_title(group.title),
            mark_of(group, now),
            spark(group.hours, now, scale),
            failed_now(group, by_group),
            is_coped_with(group),
        )
        for group in page.groups
    ]
    # What retries cope with stands last, below a heading of its own.
    ordered = sorted(rows, key=lambda row: row.is_coped_with) if order == "impact" else rows
    return {
        "rows": ordered,
        "has_divider": order == "impact",
        "cursor": page.cursor,
        "has_cost": any(group.cost for group in page.groups),
    }


def _tabs(counts: Mapping[str, int]) -> list[tuple[str, str, int]]:
    return [
        (name, label, sum(counts.get(state, 0) for state in STATES[name] or GroupState)) for name, label in TABS.items()
    ]


def address_of(query: FailuresQuery, **changes: Any) -> str:
    """The address of the list with other terms. What is as usual is left out."""
    wanted = msgspec.structs.replace(query, **{"cursor": None, **changes})
    usual = FailuresQuery()
    terms = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    given = {name: value for name, value in terms.items() if value is not None and value != getattr(usual, name)}
    return f"/?{urlencode(given)}" if given else "/"


# The chart


def read_trend(call: PageCall, chosen: str) -> FailureTrend:
    term = RANGES[chosen]
    since = floor_time(call.now, term.step) - (term.steps - 1) * term.step
    found: FailureTrend = call.console.failure_trend(step=term.step, since=since)
    return found


def _charts(
    chosen: str,
    trend: FailureTrend,
    running: Mapping[str, datetime],
    services: Sequence[ServiceStatus],
    groups: Sequence[FailureGroup],
) -> dict[str, Any]:
    term = RANGES[chosen]
    since = floor_time(trend.since, term.step)
    versions = known_versions(running, groups)
    outages = [(each.name, each.since) for each in services if each.state != BreakerState.CLOSED and each.since]

    def draw(width: float, merged: int, every: timedelta) -> Ribbon:
        step = merged * term.step
        first = floor_time(since, step)
        steps = -((first - since - term.steps * term.step) // step)
        return ribbon(
            Axis(first, step, steps, width), trend.points, every=every, versions=versions, outages=outages[:3]
        )

    return {
        "wide": draw(WIDE, 1, term.every),
        "narrow": draw(NARROW, term.merged, term.every_narrow),
        "outages": outages,
    }


# Notices. They are about services and workers, which an owner does not see.


class Stuck(NamedTuple):
    jobs: int
    oldest: datetime | None
    is_more: bool


def _services(call: PageCall) -> list[ServiceStatus]:
    return call.console.services() if call.caller.is_admin else []


def _down(services: Sequence[ServiceStatus]) -> list[ServiceStatus]:
    """Services that are not closed, those with most jobs first."""
    return sorted((each for each in services if each.state != BreakerState.CLOSED), key=lambda each: -each.ready)


MOST_STUCK = 50


def _stuck(call: PageCall) -> Stuck | None:
    jobs = call.console.stuck(limit=MOST_STUCK) if call.caller.is_admin else []
    if not jobs:
        return None
    return Stuck(
        len(jobs), min((job.started_at for job in jobs if job.started_at), default=None), len(jobs) == MOST_STUCK
    )


def _is_behind(trend: FailureTrend) -> bool:
    return trend.status.lag > BEHIND or trend.status.is_rebuilding


def _is_first_run(call: PageCall, inbox: Inbox) -> bool:
    """No job was ever enqueued, and nothing has failed."""
    if inbox.failed or inbox.recent_failed or inbox.recent_recovered or any(inbox.counts.values()):
        return False
    return not call.console.counts().total


def _has_workers(call: PageCall) -> bool:
    return call.caller.is_admin and bool(call.console.workers())
