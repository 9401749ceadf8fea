"""One failure group: what it is, whether it is safe to retry, and what people decide about it."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mulligan.console.arguments import MOST_GROWTH
from mulligan.explain.event_data import EventData
from mulligan.explain.reasons import describe_reason
from mulligan.lifecycle import State
from mulligan.records.failure_group import FailureCount, FailureGroup
from mulligan.records.job import JobFilter
from mulligan.records.key import Scope
from mulligan.records.statistics import FailureTrend
from mulligan.service.records import ServiceStatus
from mulligan.web.api.terms import String
from mulligan.web.pages.charts import DAY, HOUR, MINUTE, NARROW, WIDE, Axis, Columns, columns, floor_time
from mulligan.web.pages.failure_marks import mark_of
from mulligan.web.pages.failure_words import say_group
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.tracebacks import short_title, traceback_lines
from mulligan.web.pages.versions import known_versions, running_versions

pages = Pages("Failure groups")

BY = {"minute": "by minute", "hour": "by hour", "day": "by day"}
EACH = {"minute": "a minute", "hour": "an hour", "day": "a day"}
SHORTLY, LATELY = timedelta(hours=2), timedelta(minutes=40)
SHOWN_JOBS = 10


class GroupQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    by: Literal[tuple(BY)] | None = None  # type: ignore[valid-type]


@pages.page("/failures/{group}", scope=Scope.JOBS_READ)
def show_group(call: PageCall, group: str, query: GroupQuery) -> View:
    found: FailureGroup = call.console.failure(group)
    running = running_versions(call)
    by = query.by or usual_step(found, call.now)
    failed = call.console.counts(JobFilter(state=State.FAILED, group=group))
    jobs = call.console.jobs(JobFilter(state=State.FAILED, group=group), limit=SHOWN_JOBS)
    event = call.console.last_failures([found.sample.job]).get(found.sample.job) if found.sample.job else None
    return View(
        "group.html",
        group=found,
        title=short_title(found.title),
        says=say_group(found, running, call.now),
        mark=mark_of(found, call.now),
        by=by,
        ways=BY,
        each=EACH[by],
        **_columns(call, found, by, running),
        versions=_version_rows(found, running),
        failed=failed,
        jobs=jobs.jobs,
        is_decidable=call.caller.is_admin and call.allows(Scope.OPERATE),
        can_retry=call.allows(Scope.JOBS_RETRY) and failed.total > 0,
        **_sample(event, found),
        services={each.name: each for each in services_of(call, {seen.name for seen in found.services})},
    )


def services_of(call: PageCall, names: AbstractSet[str]) -> list[ServiceStatus]:
    """The services with these names as they are now. An owner does not see them."""
    return [each for each in call.console.services() if each.name in names] if call.caller.is_admin and names else []


def usual_step(group: FailureGroup, now: datetime) -> str:
    """Minutes for what began lately, hours for what was seen in the last two days, days otherwise."""
    if now - group.first_seen_at < SHORTLY:
        return "minute"
    return "hour" if now - group.last_seen_at < 2 * DAY else "day"


def _columns(call: PageCall, group: FailureGroup, by: str, running: Mapping[str, datetime]) -> dict[str, Any]:
    versions = known_versions(running, [group])
    counts: Sequence[FailureCount]
    match by:
        case "minute":
            counts, step = _minutes(call, group), MINUTE
            steps, every = (45, 10 * MINUTE) if call.now - group.first_seen_at < LATELY else (120, 20 * MINUTE)
        case "hour":
            counts, step, steps, every = group.hours, HOUR, 48, 6 * HOUR
        case _:
            counts, step, steps, every = group.days, DAY, 90, 15 * DAY

    def draw(width: float, apart: int) -> Columns:
        axis = Axis(floor_time(call.now, step) - (steps - 1) * step, step, steps, width)
        return columns(axis, counts, every=apart * every, versions=versions)

    return {"wide": draw(WIDE, 1), "narrow": draw(NARROW, 2)}


def _minutes(call: PageCall, group: FailureGroup) -> list[FailureCount]:
    """A group has no minutes of its own; those of its kind and code are the nearest."""
    since = floor_time(call.now, MINUTE) - 119 * MINUTE
    trend: FailureTrend = call.console.failure_trend(step=MINUTE, since=since, kind=group.kind, code=group.code)
    return [FailureCount(point.at, point.retried + point.failed, point.failed) for point in trend.points]


@dataclass(frozen=True, slots=True)
class VersionRow:
    """`seen` is None for a version that runs without this failure."""

    name: str
    failures: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None
    since: datetime | None
    is_first: bool = False


def _version_rows(group: FailureGroup, running: Mapping[str, datetime]) -> list[VersionRow]:
    """The newest first."""
    first = min((seen.first_seen_at for seen in group.versions), default=None)
    rows = [
        VersionRow(
            seen.name,
            seen.failures,
            seen.first_seen_at,
            seen.last_seen_at,
            running.get(seen.name),
            is_first=seen.first_seen_at == first and not group.more.get("versions"),
        )
        for seen in group.versions
    ]
    clean = running.keys() - {seen.name for seen in group.versions} if group.versions else ()
    rows += [VersionRow(name, 0, None, None, running[name]) for name in clean]
    return sorted(rows, key=lambda row: min(filter(None, (row.first_seen_at, row.since))), reverse=True)


def _sample(event: Any, group: FailureGroup) -> dict[str, Any]:
    """The technical detail of the last failure, which an owner does not see, and why no retry followed."""
    data = event.data if event is not None and isinstance(event.data, dict) else {}
    detail = str(data.get("detail") or group.sample.error)
    reasons = EventData(data.get("reasons") if isinstance(data.get("reasons"), dict) else {})
    is_final = event is not None and event.type == "job.failed"
    return {
        "detail": traceback_lines(detail) if detail else [],
        "rule": reasons.text("rule"),
        "policy": reasons.text("policy"),
        "why": describe_reason(reasons, group.code) if is_final else "",
    }


class Ignored(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    duration: String | None = None
    growth: Annotated[float, Meta(gt=1, le=MOST_GROWTH)] | None = None
    reason: String | None = None


@pages.action("/failures/{group}/ignore", scope=Scope.OPERATE, is_admin=True)
def ignore(call: PageCall, group: str, form: Ignored) -> Done:
    call.console.ignore_failure(
        group, form.duration, growth=form.growth, reason=form.reason, request_id=call.request_id
    )
    return Done(f"/failures/{group}", "The group is ignored.", "Its failures are still counted. Jobs are not touched.")


@pages.action("/failures/{group}/resolve", scope=Scope.OPERATE, is_admin=True)
def resolve(call: PageCall, group: str, form: WithReason) -> Done:
    call.console.resolve_failure(group, reason=form.reason, request_id=call.request_id)
    return Done("/", "The group is resolved.", "It comes back if it is seen in a version that is new by then.")


@pages.action("/failures/{group}/reopen", scope=Scope.OPERATE, is_admin=True)
def reopen(call: PageCall, group: str, form: WithReason) -> Done:
    call.console.reopen_failure(group, reason=form.reason, request_id=call.request_id)
    return Done(f"/failures/{group}", "The group is open again.")
