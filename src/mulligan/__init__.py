"""A durable job engine whose subject is what happens when work fails."""

from mulligan.app import App
from mulligan.attempt import attempt
from mulligan.batch import BatchState
from mulligan.batches import Batch
from mulligan.errors import (
    BatchClosed,
    BatchExpired,
    BatchNotFound,
    Conflict,
    FinalError,
    IllegalMove,
    InsufficientCredits,
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
    RetryableError,
    Snooze,
    StillRunning,
    SubmitRateExceeded,
    UnknownKind,
)
from mulligan.failure.backoff import Added, Decorrelated, Exponential, Fixed, Full, Linear, Steps
from mulligan.failure.catalogue import ErrorCode
from mulligan.failure.classify import Failure, Rule, Verdict
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.service import Service
from mulligan.failure.windows import Window
from mulligan.job import Job, JobFilter
from mulligan.lifecycle import State
from mulligan.policies import Owner, Queue

__all__ = [
    "Added",
    "App",
    "Batch",
    "BatchClosed",
    "BatchExpired",
    "BatchNotFound",
    "BatchState",
    "Conflict",
    "Decorrelated",
    "ErrorCode",
    "Exponential",
    "Failure",
    "FinalError",
    "Fixed",
    "Full",
    "IllegalMove",
    "InsufficientCredits",
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
    "Owner",
    "PayloadTooLarge",
    "ProgramFailed",
    "ProgramTimedOut",
    "Queue",
    "RateLimitedError",
    "RetryPolicy",
    "RetryableError",
    "Rule",
    "Service",
    "Snooze",
    "State",
    "Steps",
    "StillRunning",
    "SubmitRateExceeded",
    "UnknownKind",
    "Verdict",
    "Window",
    "attempt",
]
