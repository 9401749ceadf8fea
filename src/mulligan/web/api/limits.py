"""Queues, concurrency limits, what owners have spent, and the end of an owner."""

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from mulligan.console.queues import QueueStatus
from mulligan.records.document import Shape, document_of
from mulligan.records.key import Scope
from mulligan.records.limit import LimitRecord, SpendingRecord
from mulligan.records.redrive import Redrive
from mulligan.web.api.terms import ReasonGiven, String
from mulligan.web.problems import Problem
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Limits")


class LimitsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    owner: String | None = None
    """Also the limit of this owner, and what its retries have cost."""


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """`spending` is there if an owner was asked for; null if it has no retry budget."""

    _shape: ClassVar = Shape(given={"spending": SpendingRecord | None})

    limits: list[LimitRecord]


@routes.get("/limits", scope=Scope.JOBS_READ, is_admin=True, answer=One(LimitsInForce))
def limits(call: Call, query: LimitsQuery) -> Any:
    """The concurrency limits in force: how many slots each has, and how many are taken."""
    more = {} if query.owner is None else {"spending": call.console.spending(query.owner)}
    return document_of(LimitsInForce(call.console.limits(owner=query.owner)), **more)


@routes.get("/budgets", scope=Scope.JOBS_READ, is_admin=True, answer=Many("budgets", SpendingRecord))
def budgets(call: Call) -> Any:
    """The owners with a retry budget of their own, and what their automatic retries have cost of it."""
    return call.console.budgets()


@routes.get("/queues", scope=Scope.JOBS_READ, is_admin=True, answer=Many("queues", QueueStatus))
def queues(call: Call) -> Any:
    """Every queue: ready and running jobs, since when the oldest waits, its workers, its pause."""
    return call.console.queues()


@routes.get(
    "/owners/{owner:path}/spending",
    scope=Scope.JOBS_READ,
    answer=One(SpendingRecord),
    problems=[(404, "NO_BUDGET")],
)
def spending(call: Call, owner: str) -> Any:
    """What the automatic retries of an owner have cost of its budget."""
    found = None
    if call.caller.is_admin:
        found = call.console.spending(owner)
    elif owner == call.caller.owner:
        found = call.console.spending()
    if found is None:
        raise Problem(404, "NO_BUDGET", f"there is no retry budget of owner {owner!r:.200}")
    return found


class Forgotten(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    reason: ReasonGiven | None = None
    dry_run: bool = False
    """Only count the jobs."""


@routes.delete("/owners/{owner:path}", scope=Scope.OPERATE, is_admin=True, answer=One(Redrive))
def forget_owner(call: Call, owner: str, query: Forgotten) -> Any:
    """Cancel all jobs of an owner, and delete everything stored about it. Workers carry it out."""
    return call.console.forget_owner(owner, reason=query.reason, dry_run=query.dry_run, request_id=call.request_id)
