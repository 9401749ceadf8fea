"""Captures in the words of the API. What the engine keeps is told, not kept again."""

from datetime import datetime
from typing import Any

from mulligan import Job, State

STATUS = {
    State.WAITING: "QUEUED",
    State.QUEUED: "QUEUED",
    State.RUNNING: "PROCESSING",
    State.SUCCEEDED: "COMPLETED",
    State.FAILED: "FAILED",
    State.CANCELLED: "CANCELLED",
}
FORMATS = {"screenshot": "PNG", "pdf_generation": "PDF"}


def status_of(job: Job[Any]) -> str:
    return STATUS[job.state]


def next_retry(job: Job[Any]) -> datetime | None:
    """When it is retried automatically. A manual retry is due at once."""
    is_planned = job.state is State.WAITING and job.attempt and not was_retried(job)
    return job.due_at if is_planned else None


def was_retried(job: Job[Any]) -> bool:
    """A person has asked for another try, which has not begun yet."""
    return job.trigger == "manual" and not job.failures and not job.snoozes


def last_failure(job: Job[Any]) -> str | None:
    """The line for users, also while the job waits for its retry."""
    return job.error_message or job.last_message


def is_retryable(job: Job[Any]) -> bool:
    """Whether its last error is of a kind that another try may mend."""
    return (job.error_class or job.last_class) != "final"


def describe(job: Job[Any], *, cost: int) -> dict[str, Any]:
    is_running = job.state is State.RUNNING
    given = job.arguments if isinstance(job.arguments, dict) else {}
    return {
        "jobId": job.id,
        "status": status_of(job),
        "url": given.get("url"),
        "format": FORMATS[job.kind],
        "viewport": {"width": given.get("width"), "height": given.get("height")},
        "fullPage": given.get("full_page", False),
        "credits": cost,
        "retryCount": job.retry_count,
        "maxRetries": job.max_retries,
        "nextRetryAt": _moment(next_retry(job)),
        "lastFailureReason": last_failure(job),
        "isRetryable": is_retryable(job),
        "retryType": "MANUAL" if job.trigger == "manual" else "AUTOMATIC",
        "lockedBy": job.leased_by if is_running else None,
        "lockedAt": _moment(job.last_attempt_at) if is_running else None,
        "createdAt": _moment(job.enqueued_at),
        "updatedAt": _moment(job.updated_at),
        "completedAt": _moment(job.finished_at),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
