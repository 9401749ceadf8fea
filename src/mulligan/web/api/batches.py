"""Batches: create drafts, add members, publish, retry and cancel them."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mulligan.console.batches import CHUNK, Batch, Retried
from mulligan.errors import BadBatch, BatchBusy, BatchExpired, BatchNotFound, Conflict, UnknownKind
from mulligan.records.batch import BatchState
from mulligan.records.job import Job
from mulligan.records.key import Scope
from mulligan.web.api.enqueue import REFUSALS, Member, as_reuse, bind
from mulligan.web.api.terms import Duration, Fraction, PageSize, Reason, ReasonGiven, String, admin_only
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Batches")


class Draft(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`owner` can be given with an administrator's key only."""

    name: String
    expires_in: Duration | None = None
    """How long from now the batch is kept once it is settled."""
    success_at: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """The fraction of members that must succeed for `ready`."""
    abort_above: Fraction | None = None
    """If a larger fraction of members fails, those that have not started are cancelled."""
    on_settled: String | None = None
    """A public task that takes one argument: it is enqueued with the id of the batch when all members are over."""
    owner: String | UnsetType = UNSET


@routes.post("/batches", scope=Scope.JOBS_ENQUEUE, answer=One(Batch), status=201, errors=[BadBatch, UnknownKind])
def create_batch(call: Call, body: Draft) -> Any:
    """Create a draft. Its members wait until it is published."""
    return call.console.batch(
        body.name,
        expires_in=body.expires_in,
        success_at=body.success_at,
        abort_above=body.abort_above,
        on_settled=None if body.on_settled is None else call.console.public_task(body.on_settled),
        request_id=call.request_id,
        **admin_only(call, owner=body.owner),
    )


class BatchesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    state: BatchState | None = None
    owner: String | UnsetType = UNSET
    """With an administrator's key only."""
    limit: PageSize = 50
    cursor: String | None = None


@routes.get("/batches", scope=Scope.JOBS_READ, answer=Many("batches", Batch, pages=True))
def batches(call: Call, query: BatchesQuery) -> Any:
    """One page of batches, newest first. `cursor` of the answer leads to the next page."""
    found = call.console.batches(
        state=query.state, limit=query.limit, cursor=query.cursor, **admin_only(call, owner=query.owner)
    )
    return found, found[-1].id if len(found) == query.limit else None


@routes.get("/batches/{batch_id}", scope=Scope.JOBS_READ, answer=One(Batch), errors=[BatchNotFound])
def batch(call: Call, batch_id: str) -> Any:
    """One batch, with the counts of its members."""
    return call.console.find_batch(batch_id)


class Members(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    jobs: Annotated[list[Member], Meta(min_length=1, max_length=CHUNK)]


@routes.post(
    "/batches/{batch_id}/jobs",
    scope=Scope.JOBS_ENQUEUE,
    answer=Many("jobs", Job),
    status=201,
    errors=[BatchNotFound, *REFUSALS],
)
def add_members(call: Call, batch_id: str, body: Members) -> Any:
    """Add members to a draft, all or none. With an Idempotency-Key, the same request returns the same jobs."""
    draft = call.console.find_batch(batch_id)
    members = [bind(call, member, f"{draft.id}\0{number}") for number, member in enumerate(body.jobs)]
    try:
        return draft.add(*members)
    except Conflict as conflict:
        raise as_reuse(call, conflict) from None


@routes.post(
    "/batches/{batch_id}/publish", scope=Scope.JOBS_ENQUEUE, answer=One(Batch), errors=[BatchNotFound, BatchBusy]
)
def publish_batch(call: Call, batch_id: str) -> Any:
    """Count the members of a draft and let them run. Publishing again changes nothing."""
    return call.console.publish_batch(batch_id, request_id=call.request_id)


class BatchRetried(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    cancelled: bool = False
    """Cancelled members too."""
    reason: ReasonGiven | None = None


@routes.post(
    "/batches/{batch_id}/retry", scope=Scope.JOBS_RETRY, answer=One(Retried), errors=[BatchNotFound, BatchExpired]
)
def retry_batch(call: Call, batch_id: str, body: BatchRetried) -> Any:
    """Retry all failed members in one step. The answer names those that were skipped, each with the reason."""
    return call.console.retry_batch(batch_id, cancelled=body.cancelled, reason=body.reason, request_id=call.request_id)


@routes.post("/batches/{batch_id}/cancel", scope=Scope.JOBS_CANCEL, answer=One(Batch), errors=[BatchNotFound])
def cancel_batch(call: Call, batch_id: str, body: Reason) -> Any:
    """Cancel all members that are not over. Running ones are asked to stop."""
    return call.console.cancel_batch(batch_id, reason=body.reason, request_id=call.request_id)
