"""Retry policies in force, and failed jobs by the current rules."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mulligan.console.arguments import MOST_JUDGED
from mulligan.console.policies import PackStatus, PoliciesInForce
from mulligan.console.reclassify import Reclassification
from mulligan.errors import UnknownKind
from mulligan.records.document import document_of
from mulligan.records.key import Scope
from mulligan.web.api.terms import ReasonGiven, String
from mulligan.web.filters import Filter, to_filter
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Policies")


class PoliciesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    kind: String | None = None
    owner: String = ""
    """The policies for the jobs of this owner."""


@routes.get("/policies", scope=Scope.JOBS_READ, is_admin=True, answer=One(PoliciesInForce), errors=[UnknownKind])
def policies(call: Call, query: PoliciesQuery) -> Any:
    """The policy in force of each task, or of one, with the sections of the policies file that set it."""
    return call.console.policies_in_force(query.kind, of_owner=query.owner)


@routes.get("/policies/packs", scope=Scope.JOBS_READ, is_admin=True, answer=Many("packs", PackStatus))
def packs(call: Call) -> Any:
    """The packs of rules of this server, in the order in which they are tried."""
    return call.console.packs()


class Reclassify(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    filter: Filter | None = None
    dry_run: bool = True
    """Change nothing. Otherwise, jobs that would now be retried are retried manually."""
    limit: Annotated[int, Meta(ge=1, le=MOST_JUDGED)] = 1_000
    reason: ReasonGiven | None = None


@routes.post("/policies/reclassify", scope=Scope.OPERATE, is_admin=True, answer=One(Reclassification))
def reclassify(call: Call, body: Reclassify) -> Any:
    """Classify the last failure of failed jobs again, by the current rules and policies."""
    wanted = None if body.filter is None else to_filter(body.filter)
    found = call.console.reclassify(
        wanted, dry_run=body.dry_run, limit=body.limit, reason=body.reason, request_id=call.request_id
    )
    return document_of(found, is_applied=not body.dry_run)
