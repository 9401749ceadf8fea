"""Statistics of minutes, hours and days, and whether retries helped."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mulligan.records.document import Time
from mulligan.records.key import Scope
from mulligan.records.statistics import OUTCOMES, SPANS, Statistics
from mulligan.web.api.terms import String, given
from mulligan.web.problems import Problem
from mulligan.web.route import Call, One, Routes

routes = Routes("Statistics")


class StatisticsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    span: Literal[tuple(SPANS)] = "hour"  # type: ignore[valid-type]
    since: Time | None = None
    """Default: the last hour, day or 30 days, for minutes, hours or days."""
    until: Time | None = None
    kind: String | None = None
    service: String | None = None
    outcome: Literal[OUTCOMES] | None = None  # type: ignore[valid-type]
    code: String | None = None
    owner: String | None = None
    """For administrators: an owner's key sees its own only."""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10_000


@routes.get("/statistics", scope=Scope.JOBS_READ, answer=One(Statistics))
def statistics(call: Call, query: StatisticsQuery) -> Any:
    """What happened in each minute, hour or day, by kind, owner, service, outcome, code and attempt; newest first."""
    if not call.caller.is_admin and query.owner not in (None, call.caller.owner):
        raise Problem(403, "FORBIDDEN", "a key sees the statistics of its own owner only", path="?.owner")
    # The console adds the owner of its caller.
    own = given(owner=query.owner) if call.caller.is_admin else {}
    return call.console.statistics(
        span=query.span,
        since=query.since,
        until=query.until,
        kind=query.kind,
        service=query.service,
        outcome=query.outcome,
        code=query.code,
        limit=query.limit,
        **own,
    )


@routes.post("/statistics/rebuild", scope=Scope.OPERATE, is_admin=True)
def rebuild_statistics(call: Call) -> None:
    """Fold the event log again into failure groups and statistics, as far as it is complete. Workers do it."""
    call.console.rebuild_statistics(request_id=call.request_id)
