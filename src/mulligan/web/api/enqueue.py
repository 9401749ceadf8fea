"""Enqueue public tasks: one job, or the members of a batch."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mulligan.errors import (
    BatchClosed,
    BatchNotFound,
    Conflict,
    IntakePaused,
    InvalidArguments,
    PayloadTooLarge,
    SubmitRateExceeded,
    TooManyJobs,
    UnknownKind,
)
from mulligan.records.document import Time
from mulligan.records.job import Job
from mulligan.records.key import Scope
from mulligan.task.options import LONGEST_KEY, MOST_TAGS
from mulligan.task.task import Binding
from mulligan.values.ids import id_from
from mulligan.values.moment import milliseconds
from mulligan.web.api.terms import Duration, String, admin_only, given
from mulligan.web.problems import Problem, misfit
from mulligan.web.route import Call, One, Routes

routes = Routes("Jobs")

REFUSALS = [
    UnknownKind,
    InvalidArguments,
    PayloadTooLarge,
    BatchNotFound,
    BatchClosed,
    Conflict,
    IntakePaused,
    SubmitRateExceeded,
    TooManyJobs,
]


class Member(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A call of a public task. `cost` to `timeout` can be given with an administrator's key only."""

    kind: String
    arguments: dict[str, Any] = {}
    """By parameter name."""
    delay: Duration = 0
    """How long the job waits before its first attempt."""
    deadline: Duration | UnsetType = UNSET
    """How long after the enqueue it may still start an attempt."""
    dedupe: Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)] | UnsetType = UNSET
    """A key that identifies the work: a job of the same owner and kind that holds it is returned instead."""
    dedupe_scope: Literal["active", "succeeded"] = "active"
    dedupe_for: Duration | UnsetType = UNSET
    tags: Annotated[list[String], Meta(max_length=MOST_TAGS)] = []
    cost: int | UnsetType = UNSET
    max_attempts: int | UnsetType = UNSET
    priority: Literal["high", "normal", "low"] | int | UnsetType = UNSET
    queue: String | UnsetType = UNSET
    submitted_at: Time | UnsetType = UNSET
    timeout: Duration | UnsetType = UNSET


class Enqueue(Member, kw_only=True):
    """A call of a public task. `cost` to `owner` can be given with an administrator's key only."""

    owner: String | UnsetType = UNSET
    batch: String | UnsetType = UNSET
    """The id of a draft batch. The job waits until it is published, and gets its owner."""


@routes.post("/jobs", scope=Scope.JOBS_ENQUEUE, answer=One(Job), status=201, errors=REFUSALS)
async def enqueue(call: Call, body: Enqueue) -> Any:
    """Enqueue a public task. With an Idempotency-Key, the same request returns the same job."""
    more = admin_only(call, owner=body.owner)
    if body.batch is not UNSET:
        more["batch"] = await asyncio.to_thread(call.console.find_batch, body.batch)
    binding = await call.compute(lambda: bind(call, body, "", **more))
    try:
        return await binding.enqueue_async()
    except Conflict as conflict:
        raise as_reuse(call, conflict) from None


def bind(call: Call, body: Member, part: str, **more: Any) -> Binding[Any]:
    """The call, checked. `part` tells the calls of one request apart."""
    own = given(deadline=body.deadline, dedupe=body.dedupe, dedupe_for=body.dedupe_for, id=_own_id(call, part))
    own |= admin_only(
        call,
        cost=body.cost,
        max_attempts=body.max_attempts,
        priority=body.priority,
        queue=body.queue,
        submitted_at=body.submitted_at,
        timeout=body.timeout,
    )
    submission = call.console.submission(
        body.kind, delay=body.delay, dedupe_scope=body.dedupe_scope, tags=body.tags, **own, **more
    )
    try:
        return submission.bind_json(body.arguments)
    except InvalidArguments as error:
        raise misfit(str(error), below="$.arguments") from None


def as_reuse(call: Call, conflict: Conflict) -> Exception:
    """Under an Idempotency-Key, a different call with the same id means that the key was used before."""
    if call.request_id is None or not conflict.differs:
        return conflict
    message = f"this Idempotency-Key was used for another job, which differs in {', '.join(conflict.differs)}"
    return Problem(422, "IDEMPOTENCY_KEY_REUSED", message)


def _own_id(call: Call, part: str) -> str | None:
    """The id of a job that is enqueued under an Idempotency-Key: the same for the same request.

    Jobs are listed in the order of their ids, so it has the time of the first request with the key.
    """
    if call.request_id is None or call.first_at is None:
        return None
    return id_from(f"{call.caller.owner}\0{call.request_id}\0{part}", milliseconds(call.first_at))
