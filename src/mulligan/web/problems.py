"""Problem details (RFC 9457): every error of the API is one of these."""

import logging
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
from starlette.responses import Response

from mulligan import errors
from mulligan.values.error import MulliganError

logger = logging.getLogger("mulligan.web")

MEDIA_TYPE = "application/problem+json"
# msgspec ends its messages with the place of the mistake.
_PLACE = re.compile(r" - at `(?:key in )?(\$[^`]*)`$")


class Problem(Exception):
    """An error of the request itself. `fields` are added to the answer, `headers` too."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers, self.fields = dict(headers or {}), fields


# The first class that fits. Errors that are not listed are a fault of the server: status 500.
STATUS: dict[type[MulliganError], tuple[int, str]] = {
    errors.JobNotFound: (404, "JOB_NOT_FOUND"),
    errors.BatchNotFound: (404, "BATCH_NOT_FOUND"),
    errors.RedriveNotFound: (404, "REDRIVE_NOT_FOUND"),
    errors.GroupNotFound: (404, "GROUP_NOT_FOUND"),
    errors.KeyNotFound: (404, "KEY_NOT_FOUND"),
    errors.SubscriptionNotFound: (404, "SUBSCRIPTION_NOT_FOUND"),
    errors.DeliveryNotFound: (404, "DELIVERY_NOT_FOUND"),
    errors.HookNotFound: (404, "HOOK_NOT_FOUND"),
    errors.HookRefused: (401, "HOOK_REFUSED"),
    errors.HookCalledTooOften: (429, "RATE_LIMITED"),
    errors.SubscriptionNotAllowed: (403, "SUBSCRIPTION_NOT_ALLOWED"),
    errors.SubscriptionExists: (409, "SUBSCRIPTION_EXISTS"),
    errors.HookExists: (409, "HOOK_EXISTS"),
    errors.TooManySubscriptions: (409, "TOO_MANY_SUBSCRIPTIONS"),
    errors.TooManyHooks: (409, "TOO_MANY_HOOKS"),
    errors.UnknownKind: (404, "UNKNOWN_KIND"),
    errors.UnknownDuty: (404, "UNKNOWN_DUTY"),
    errors.UnknownSchedule: (404, "UNKNOWN_SCHEDULE"),
    errors.UnknownCheck: (404, "UNKNOWN_CHECK"),
    errors.UnknownService: (404, "UNKNOWN_SERVICE"),
    errors.UnknownQueue: (404, "UNKNOWN_QUEUE"),
    errors.UnknownIntake: (404, "UNKNOWN_INTAKE"),
    errors.UnknownProjection: (404, "UNKNOWN_PROJECTION"),
    errors.StillRunning: (409, "CONCURRENT_MODIFICATION"),
    errors.IllegalMove: (400, "VALIDATION_ERROR"),
    errors.KeyRefused: (401, "UNAUTHORIZED"),
    errors.KeyNotAllowed: (403, "KEY_NOT_ALLOWED"),
    errors.KeyExists: (409, "KEY_EXISTS"),
    errors.SetupRefused: (403, "SETUP_REFUSED"),
    errors.InsufficientCredits: (402, "INSUFFICIENT_CREDITS"),
    errors.NotAllowed: (403, "NOT_ALLOWED"),
    errors.RequestMismatch: (422, "IDEMPOTENCY_KEY_REUSED"),
    errors.Conflict: (409, "CONFLICT"),
    errors.BatchExpired: (409, "BATCH_EXPIRED"),
    errors.BatchClosed: (409, "BATCH_CLOSED"),
    errors.BatchBusy: (409, "BATCH_BUSY"),
    errors.ScheduleInUse: (409, "SCHEDULE_IN_USE"),
    errors.BadSchedule: (409, "SCHEDULE_NOT_DEFINED"),
    errors.NoResult: (409, "NO_RESULT"),
    errors.PayloadTooLarge: (413, "TOO_LARGE"),
    errors.SubmitRateExceeded: (429, "SUBMIT_RATE_EXCEEDED"),
    errors.TooManyJobs: (429, "TOO_MANY_JOBS"),
    errors.IntakePaused: (503, "INTAKE_PAUSED"),
    errors.Refused: (400, "VALIDATION_ERROR"),
    errors.BadArgument: (400, "VALIDATION_ERROR"),
    errors.BadDuration: (400, "VALIDATION_ERROR"),
    errors.BadRate: (400, "VALIDATION_ERROR"),
    errors.BadBatch: (400, "VALIDATION_ERROR"),
    # An option of one job, such as its queue, is checked like that of a task.
    errors.BadTask: (400, "VALIDATION_ERROR"),
    errors.AmbiguousId: (400, "VALIDATION_ERROR"),
    errors.StoreError: (503, "STORE_UNAVAILABLE"),
}

# What each code means, for the documentation.
ABOUT: dict[str, str] = {
    "JOB_NOT_FOUND": "There is no such job, or it belongs to another owner.",
    "BATCH_NOT_FOUND": "There is no such batch, or it belongs to another owner.",
    "REDRIVE_NOT_FOUND": "There is no such redrive, or it belongs to another owner.",
    "GROUP_NOT_FOUND": "There is no failure group with this id, or the caller has no jobs in it.",
    "UNKNOWN_KIND": "No task has this name; for POST /jobs, no task that is public.",
    "UNKNOWN_DUTY": "No duty has this name.",
    "UNKNOWN_SCHEDULE": "No schedule has this name.",
    "UNKNOWN_CHECK": "The doctor has no check with this code.",
    "UNKNOWN_SERVICE": "No service has this name.",
    "UNKNOWN_QUEUE": "No queue has this name.",
    "UNKNOWN_INTAKE": "Neither a task nor a queue has this name.",
    "UNKNOWN_PROJECTION": "No projection has this name.",
    "NO_BUDGET": "The owner has no retry budget.",
    "NOT_FOUND": "There is no such path.",
    "METHOD_NOT_ALLOWED": "The path has other methods; the header Allow names them.",
    "VALIDATION_ERROR": "A value does not fit, or the state of the job does not allow the move. `path` is its place.",
    "MALFORMED_BODY": "The body is not JSON.",
    "UNSUPPORTED_MEDIA_TYPE": "A body must be application/json.",
    "TOO_LARGE": "The body or the arguments are too large.",
    "TOO_SLOW": "The body did not come in time.",
    "HEADERS_TOO_LARGE": "The request has too many or too large headers.",
    "URL_TOO_LONG": "The path or the query is too long.",
    "MALFORMED_REQUEST": "The request is not HTTP.",
    "UNAUTHORIZED": "There is no key, or it is unknown, expired or revoked.",
    "FORBIDDEN": "The key does not allow this.",
    "SUBSCRIPTION_NOT_FOUND": "There is no such subscription, or it belongs to another owner.",
    "DELIVERY_NOT_FOUND": "There is no such delivery, or it belongs to another owner.",
    "HOOK_NOT_FOUND": "There is no such hook, or it belongs to another owner.",
    "HOOK_REFUSED": "There is no such hook, or the signature or the time of the call does not fit.",
    "SUBSCRIPTION_NOT_ALLOWED": "The key does not allow such a subscription or hook, or it is in the code.",
    "SUBSCRIPTION_EXISTS": "The owner has a subscription of this name.",
    "HOOK_EXISTS": "The owner has a hook of this name.",
    "TOO_MANY_SUBSCRIPTIONS": "The owner has as many subscriptions as it may.",
    "TOO_MANY_HOOKS": "The owner has as many hooks as it may.",
    "KEY_NOT_FOUND": "There is no such key, or it belongs to another owner.",
    "KEY_NOT_ALLOWED": "A key cannot have this scope or this owner.",
    "KEY_EXISTS": "A key was made already.",
    "SETUP_REFUSED": "The link for the first administrator was used, or is too old.",
    "NOT_ALLOWED": "The task's own `can_retry` refused. It may give another status and code.",
    "INSUFFICIENT_CREDITS": "The owner has too few credits: `requiredCredits` and `availableCredits`.",
    "CONCURRENT_MODIFICATION": "A worker runs the job now, and it is not stuck.",
    "CONFLICT": "Another job, `twin`, holds the dedupe key or the id.",
    "BATCH_EXPIRED": "The batch has expired: its members cannot be retried.",
    "BATCH_CLOSED": "The batch was published and takes no more members.",
    "BATCH_BUSY": "An open transaction adds members to the batch. Try again later.",
    "SCHEDULE_IN_USE": "The schedule is still in the code of an app.",
    "SCHEDULE_NOT_DEFINED": "The app of this server does not define the schedule.",
    "NO_RESULT": "The job has not succeeded, so it has no result.",
    "IDEMPOTENCY_KEY_REUSED": "The Idempotency-Key belongs to another request.",
    "REQUEST_IN_FLIGHT": "The first request with this Idempotency-Key is not answered yet. Try again later.",
    "TOO_MANY_STREAMS": "The owner, or the server, has as many open streams as it may. Try again after Retry-After.",
    "RATE_LIMITED": "The key makes too many requests. Try again after Retry-After.",
    "SUBMIT_RATE_EXCEEDED": "The owner submits jobs too fast. Try again after Retry-After.",
    "TOO_MANY_JOBS": "The owner has as many unfinished jobs as it may: `limit` and `live`.",
    "INTAKE_PAUSED": "An administrator paused the intake of such jobs.",
    "STORE_UNAVAILABLE": "The database cannot be used now. Try again later.",
    "INTERNAL_ERROR": "The server could not answer. The error is in its log.",
}

# Seconds after which a repeated request may succeed.
AGAIN = "5"
UNAVAILABLE = "The store cannot be used now. The reason is in the log of the server."


def to_problem(error: Exception) -> Problem:
    """The answer to an error. One that the API does not know is logged, and says nothing to the caller."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, msgspec.ValidationError):
        return misfit(str(error))
    for kind, (status, code) in STATUS.items():
        if isinstance(error, kind):
            return _known(error, status, code)
    logger.error("a request failed unexpectedly", exc_info=error)
    return Problem(500, "INTERNAL_ERROR", "The server could not answer. The error is in its log.")


def lacks_scope(scope: str) -> Problem:
    return Problem(403, "FORBIDDEN", f"the key does not allow this: it lacks the scope {scope}", scope=str(scope))


def misfit(message: str, *, below: str = "$") -> Problem:
    """A value that has the wrong type or size. `below` is the place of the value that was checked."""
    place = _PLACE.search(message)
    path = below + (place[1][1:] if place else "")
    return Problem(400, "VALIDATION_ERROR", _PLACE.sub("", message), path=path)


def _known(error: Exception, status: int, code: str) -> Problem:
    match error:
        case errors.BatchBusy() | errors.IntakePaused(retry_after=None):
            return Problem(status, code, str(error), headers={"Retry-After": AGAIN})
        case errors.StoreError():
            # Its message may name the host and the files of the database.
            logger.error("the store failed: %s", error)
            return Problem(status, code, UNAVAILABLE, headers={"Retry-After": AGAIN})
        case errors.InsufficientCredits():
            required, available = error.required, error.available
            return Problem(status, code, str(error), requiredCredits=required, availableCredits=available)
        case errors.NotAllowed():
            return Problem(_client_error(error.status) or status, error.code or code, str(error))
        case errors.TooManyJobs():
            headers = {"Retry-After": AGAIN}
            return Problem(status, code, str(error), headers=headers, limit=error.limit, live=error.live)
        case (
            errors.SubmitRateExceeded(retry_after=timedelta() as wait)
            | errors.IntakePaused(retry_after=timedelta() as wait)
            | errors.HookCalledTooOften(retry_after=wait)
        ):
            # Never earlier than that: a request that comes too early is refused again.
            seconds = max(1, math.ceil(wait.total_seconds()))
            return Problem(status, code, str(error), headers={"Retry-After": str(seconds)})
        case errors.Conflict() if error.twin:
            return Problem(status, code, str(error), twin=error.twin)
    return Problem(status, code, str(error))


def _client_error(status: int | None) -> int | None:
    """The status that a `can_retry` gave, if it is one of a request that is not possible."""
    return status if status is not None and 400 <= status < 500 else None


def respond(problem: Problem) -> Response:
    body = {
        "type": "about:blank",
        "status": problem.status,
        "code": problem.code,
        "message": problem.message,
        **problem.fields,
    }
    return Response(
        msgspec.json.encode(body), status_code=problem.status, media_type=MEDIA_TYPE, headers=problem.headers
    )
