"""Failure groups: find them, retry their jobs, and decide about them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mulligan.console.arguments import MOST_GROWTH
from mulligan.errors import GroupNotFound, RequestIdUsed
from mulligan.records.failure_group import GROUP_ORDERS, FailureGroup, GroupPage, GroupState
from mulligan.records.key import Scope
from mulligan.records.redrive import MOST_CANARIES, Redrive
from mulligan.web.api.terms import Duration, Fraction, PageSize, Rate, ReasonGiven, String
from mulligan.web.route import Call, One, Routes

routes = Routes("Failures")


class FailuresQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    state: list[GroupState] | None = None
    kind: String | None = None
    code: String | None = None
    order: Literal[GROUP_ORDERS] = "impact"  # type: ignore[valid-type]
    limit: PageSize = 50
    cursor: String | None = None


@routes.get("/failures", scope=Scope.JOBS_READ, answer=One(GroupPage))
def failures(call: Call, query: FailuresQuery) -> Any:
    """One page of failure groups, those with the highest impact first. An owner sees its own jobs' counts only."""
    return call.console.failures(
        state=query.state, kind=query.kind, code=query.code, order=query.order, limit=query.limit, cursor=query.cursor
    )


@routes.get("/failures/{group}", scope=Scope.JOBS_READ, answer=One(FailureGroup), errors=[GroupNotFound])
def failure(call: Call, group: str) -> Any:
    """One failure group."""
    return call.console.failure(group)


class GroupRetry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    rate: Rate = "50/s"
    canary: Annotated[int, Meta(ge=0, le=MOST_CANARIES)] = 5
    """This many jobs go first; the others follow if enough of them succeed."""
    abort_above: Fraction = 0.5
    """Stop if a larger fraction does not succeed at its next attempt."""
    reason: ReasonGiven | None = None
    dry_run: bool = False
    """Only count the jobs."""


@routes.post(
    "/failures/{group}/retry",
    scope=Scope.JOBS_RETRY,
    answer=One(Redrive),
    errors=[GroupNotFound, RequestIdUsed],
)
def retry_failure(call: Call, group: str, body: GroupRetry) -> Any:
    """Retry the failed jobs of a group, at a rate, canaries first. Workers carry it out."""
    return call.console.retry_failure(
        group,
        rate=body.rate,
        canary=body.canary,
        abort_above=body.abort_above,
        reason=body.reason,
        dry_run=body.dry_run,
        request_id=call.request_id,
    )


class GroupIgnored(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    duration: Duration | None = None
    """Without it and `growth`, until it is reopened."""
    growth: Annotated[float, Meta(gt=1, le=MOST_GROWTH)] | None = None
    """Until it has this many times its failures."""
    reason: ReasonGiven | None = None


@routes.post(
    "/failures/{group}/ignore",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(FailureGroup),
    errors=[GroupNotFound],
)
def ignore_failure(call: Call, group: str, body: GroupIgnored) -> Any:
    """Ignore a failure group, for a time, or until it grows."""
    return call.console.ignore_failure(
        group, body.duration, growth=body.growth, reason=body.reason, request_id=call.request_id
    )


class GroupDecided(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    reason: ReasonGiven | None = None


@routes.post(
    "/failures/{group}/resolve",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(FailureGroup),
    errors=[GroupNotFound],
)
def resolve_failure(call: Call, group: str, body: GroupDecided) -> Any:
    """Resolve a failure group. It regresses if it is seen in a version that was first seen later."""
    return call.console.resolve_failure(group, reason=body.reason, request_id=call.request_id)


@routes.post(
    "/failures/{group}/reopen",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(FailureGroup),
    errors=[GroupNotFound],
)
def reopen_failure(call: Call, group: str, body: GroupDecided) -> Any:
    """Open a failure group that is ignored or resolved."""
    return call.console.reopen_failure(group, reason=body.reason, request_id=call.request_id)
