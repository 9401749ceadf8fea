"""Redrives and bulk operations: durable operations on many jobs, at a rate."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mulligan.errors import RedriveNotFound, RequestIdUsed
from mulligan.records.job import MOST_IDS
from mulligan.records.key import Scope
from mulligan.records.redrive import CANCEL, MOST_CANARIES, RUN_NOW, SNOOZE, Redrive
from mulligan.web.api.terms import Duration, Fraction, Limited, Rate, Reason, ReasonGiven, String
from mulligan.web.filters import Filter, to_filter
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Redrives")


class Redriven(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    filter: Filter
    rate: Rate = "50/s"
    canary: Annotated[int, Meta(ge=0, le=MOST_CANARIES)] = 5
    """This many jobs go first; the others follow if enough of them succeed."""
    abort_above: Fraction = 0.5
    """Stop if a larger fraction does not succeed at its next attempt."""
    reason: ReasonGiven | None = None
    dry_run: bool = False
    """Only count the jobs."""


@routes.post("/redrives", scope=Scope.JOBS_RETRY, answer=One(Redrive), errors=[RequestIdUsed])
def redrive(call: Call, body: Redriven) -> Any:
    """Retry all failed jobs that match a filter, at a rate, canaries first. Workers carry it out."""
    return call.console.redrive(
        to_filter(body.filter),
        rate=body.rate,
        canary=body.canary,
        abort_above=body.abort_above,
        reason=body.reason,
        dry_run=body.dry_run,
        request_id=call.request_id,
    )


@routes.get("/redrives", scope=Scope.JOBS_READ, answer=Many("redrives", Redrive))
def redrives(call: Call, query: Limited) -> Any:
    """Redrives and bulk operations, newest first."""
    return call.console.redrives(limit=query.limit)


@routes.get("/redrives/{redrive_id}", scope=Scope.JOBS_READ, answer=One(Redrive), errors=[RedriveNotFound])
def redrive_status(call: Call, redrive_id: str) -> Any:
    """One redrive or bulk operation, with its progress."""
    return call.console.redrive_status(redrive_id)


@routes.delete("/redrives/{redrive_id}", scope=Scope.JOBS_CANCEL, answer=One(Redrive), errors=[RedriveNotFound])
def cancel_redrive(call: Call, redrive_id: str, query: Reason) -> Any:
    """End a redrive. Jobs that it has retried stay retried. A redrive that is over does not change."""
    return call.console.cancel_redrive(redrive_id, reason=query.reason, request_id=call.request_id)


class Bulk(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which jobs: those that match the filter, or those with these ids."""

    filter: Filter | None = None
    ids: Annotated[list[String], Meta(max_length=MOST_IDS)] | None = None
    rate: Rate = "500/s"
    reason: ReasonGiven | None = None
    dry_run: bool = False
    """Only count the jobs."""


class BulkSnooze(Bulk, kw_only=True):
    """Which jobs, and how long from now."""

    delay: Duration


@routes.post("/jobs/bulk/cancel", scope=Scope.JOBS_CANCEL, answer=One(Redrive), errors=[RequestIdUsed])
def bulk_cancel(call: Call, body: Bulk) -> Any:
    """Cancel many jobs that are not over. Workers carry it out."""
    return _start(call, CANCEL, body)


@routes.post("/jobs/bulk/snooze", scope=Scope.JOBS_CANCEL, answer=One(Redrive), errors=[RequestIdUsed])
def bulk_snooze(call: Call, body: BulkSnooze) -> Any:
    """Postpone many waiting and queued jobs. Workers carry it out."""
    return _start(call, SNOOZE, body, delay=body.delay)


@routes.post("/jobs/bulk/run-now", scope=Scope.JOBS_RETRY, answer=One(Redrive), errors=[RequestIdUsed])
def bulk_run_now(call: Call, body: Bulk) -> Any:
    """Run many waiting jobs now; failed and cancelled ones too if `ids` or the filter's `state` ask for them."""
    return _start(call, RUN_NOW, body)


def _start(call: Call, verb: str, body: Bulk, **more: Any) -> Redrive:
    wanted = None if body.filter is None else to_filter(body.filter)
    found: Redrive = call.console.bulk(
        verb,
        wanted,
        ids=body.ids,
        rate=body.rate,
        reason=body.reason,
        dry_run=body.dry_run,
        request_id=call.request_id,
        **more,
    )
    return found
