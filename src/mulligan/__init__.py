"""A durable job engine whose subject is what happens when work fails."""

import importlib as _importlib
import typing as _typing

from mulligan.attempt import attempt
from mulligan.errors import (
    BadBatch,
    BadDuration,
    BadFilter,
    BadPolicy,
    BadProgram,
    BatchBusy,
    BatchClosed,
    BatchExpired,
    BatchNotFound,
    Conflict,
    EventsMissed,
    FinalError,
    IllegalMove,
    InsufficientCredits,
    IntakePaused,
    InvalidArguments,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LeaseLost,
    MulliganError,
    NotAllowed,
    PayloadTooLarge,
    ProgramFailed,
    ProgramTimedOut,
    RateLimitedError,
    RequestIdUsed,
    RequestMismatch,
    ResultExpired,
    RetryableError,
    ServerError,
    Snooze,
    StillRunning,
    StoreFull,
    StoreUnavailable,
    SubmitRateExceeded,
    TargetRefused,
    TooManyJobs,
    TransactionEnded,
    UndeclaredProxy,
    UnknownKind,
    UnknownService,
)
from mulligan.failure.backoff import Added, Decorrelated, Exponential, Fixed, Full, Linear, Steps
from mulligan.failure.error_codes import ErrorCode
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.rule import Rule
from mulligan.failure.verdict import Failure, Verdict
from mulligan.failure.windows import Window
from mulligan.lifecycle import State
from mulligan.policies.alert import Alert
from mulligan.policies.owner import Owner
from mulligan.policies.queue import Queue
from mulligan.records.batch import BatchState
from mulligan.records.event import Event
from mulligan.records.job import Job, JobFilter
from mulligan.service.config import Service

__all__ = [
    "Added",
    "Alert",
    "App",
    "BadBatch",
    "BadDuration",
    "BadFilter",
    "BadPolicy",
    "BadProgram",
    "Batch",
    "BatchBusy",
    "BatchClosed",
    "BatchExpired",
    "BatchNotFound",
    "BatchState",
    "Bulletin",
    "Conflict",
    "Content",
    "Decorrelated",
    "Egress",
    "Entry",
    "ErrorCode",
    "Event",
    "EventsMissed",
    "Exponential",
    "Failure",
    "FinalError",
    "Fixed",
    "Full",
    "IllegalMove",
    "InsufficientCredits",
    "IntakePaused",
    "InvalidArguments",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFilter",
    "JobNotFound",
    "LeaseLost",
    "Linear",
    "MulliganError",
    "NotAllowed",
    "Notice",
    "Owner",
    "PayloadTooLarge",
    "ProgramFailed",
    "ProgramTimedOut",
    "Queue",
    "RateLimitedError",
    "RequestIdUsed",
    "RequestMismatch",
    "ResultExpired",
    "RetryPolicy",
    "RetryableError",
    "Rule",
    "ServerError",
    "Service",
    "Snooze",
    "State",
    "Steps",
    "StillRunning",
    "StoreFull",
    "StoreUnavailable",
    "SubmitRateExceeded",
    "Subscription",
    "TargetRefused",
    "Tone",
    "TooManyJobs",
    "TransactionEnded",
    "UndeclaredProxy",
    "UnknownKind",
    "UnknownService",
    "Verdict",
    "Window",
    "attempt",
]

# Imported when they are first used: they need the whole engine, and `mulligan --help` does not.
if _typing.TYPE_CHECKING:
    from mulligan.app import App
    from mulligan.console.batches import Batch
    from mulligan.egress import Egress
    from mulligan.notify.content import Content, Entry, Tone
    from mulligan.notify.subscription import Bulletin, Notice, Subscription
else:
    _LATER = {
        "App": "mulligan.app",
        "Batch": "mulligan.console.batches",
        "Bulletin": "mulligan.notify.subscription",
        "Content": "mulligan.notify.content",
        "Egress": "mulligan.egress",
        "Entry": "mulligan.notify.content",
        "Notice": "mulligan.notify.subscription",
        "Subscription": "mulligan.notify.subscription",
        "Tone": "mulligan.notify.content",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module 'mulligan' has no attribute {name!r}")
        globals()[name] = found = getattr(_importlib.import_module(_LATER[name]), name)
        return found
