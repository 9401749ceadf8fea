"""The words of this application for the states of the engine: one table."""

from collections.abc import Mapping

from mulligan import State

STATUSES: Mapping[State, str] = {
    State.WAITING: "queued",
    State.QUEUED: "queued",
    State.RUNNING: "processing",
    State.SUCCEEDED: "complete",
    State.FAILED: "failed",
    State.CANCELLED: "failed",
}

EVENTS: Mapping[str, str] = {
    "job.enqueued": "queued",
    "job.queued": "queued",
    "job.parked": "queued",
    "job.released": "queued",
    "job.started": "processing",
    "job.retried": "retry",
    "job.snoozed": "retry",
    "job.retry_requested": "retry",
    "job.run_requested": "retry",
    "job.succeeded": "complete",
    "job.failed": "failed",
    "job.cancelled": "failed",
    "job.result_expired": "expired",
}
"""Events of the engine that are missing here are not told."""
