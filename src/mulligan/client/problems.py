"""Problem details as errors: the classes that an App raises, where there is one."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mulligan import errors
from mulligan.errors import MulliganError, ServerError

ERRORS: dict[str, type[MulliganError]] = {
    "JOB_NOT_FOUND": errors.JobNotFound,
    "BATCH_NOT_FOUND": errors.BatchNotFound,
    "REDRIVE_NOT_FOUND": errors.RedriveNotFound,
    "GROUP_NOT_FOUND": errors.GroupNotFound,
    "SUBSCRIPTION_NOT_FOUND": errors.SubscriptionNotFound,
    "SUBSCRIPTION_EXISTS": errors.SubscriptionExists,
    "SUBSCRIPTION_NOT_ALLOWED": errors.SubscriptionNotAllowed,
    "TOO_MANY_SUBSCRIPTIONS": errors.TooManySubscriptions,
    "DELIVERY_NOT_FOUND": errors.DeliveryNotFound,
    "UNKNOWN_KIND": errors.UnknownKind,
    "UNKNOWN_DUTY": errors.UnknownDuty,
    "UNKNOWN_SCHEDULE": errors.UnknownSchedule,
    "UNKNOWN_CHECK": errors.UnknownCheck,
    "UNKNOWN_SERVICE": errors.UnknownService,
    "UNKNOWN_QUEUE": errors.UnknownQueue,
    "UNKNOWN_INTAKE": errors.UnknownIntake,
    "CONCURRENT_MODIFICATION": errors.StillRunning,
    "INSUFFICIENT_CREDITS": errors.InsufficientCredits,
    "NOT_ALLOWED": errors.NotAllowed,
    "IDEMPOTENCY_KEY_REUSED": errors.RequestMismatch,
    "CONFLICT": errors.Conflict,
    "BATCH_EXPIRED": errors.BatchExpired,
    "BATCH_CLOSED": errors.BatchClosed,
    "BATCH_BUSY": errors.BatchBusy,
    "NO_RESULT": errors.NoResult,
    "TOO_LARGE": errors.PayloadTooLarge,
    "SUBMIT_RATE_EXCEEDED": errors.SubmitRateExceeded,
    "TOO_MANY_JOBS": errors.TooManyJobs,
    "INTAKE_PAUSED": errors.IntakePaused,
    "STORE_UNAVAILABLE": errors.StoreUnavailable,
}
# What the API calls otherwise.
NAMES = {"requiredCredits": "required", "availableCredits": "available"}


def to_error(
    status: int,
    problem: Mapping[str, Any],
    *,
    retry_after: float | None,
    refused: type[MulliganError] | None,
    about: Mapping[str, Any],
) -> MulliganError:
    code, message = str(problem.get("code", "")), str(problem.get("message") or f"the server answered with {status}")
    kind = _kind(status, code, problem, refused)
    if kind is None:
        return ServerError(message, status=status, code=code or None, retry_after=_duration(retry_after))
    # Its message is written already, so its constructor is left out.
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    told = {NAMES.get(name, name): value for name, value in problem.items() if name not in ("type", "message")}
    vars(error).update({**told, "retry_after": _duration(retry_after), **about})
    return error


def _kind(
    status: int, code: str, problem: Mapping[str, Any], refused: type[MulliganError] | None
) -> type[MulliganError] | None:
    if code == "VALIDATION_ERROR":
        # A mistake in the request has a place; otherwise the request is not possible now.
        return refused if refused is not None and "path" not in problem else errors.BadArgument
    if status == 403 and code != "FORBIDDEN" and refused is errors.IllegalMove:
        # A task's own `can_retry` refused, with a code of its own.
        return errors.NotAllowed
    return ERRORS.get(code)


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
