"""What went wrong and what to do about it: pure functions from values to values."""

from mulligan.failure.backoff import Added, Backoff, Decorrelated, Exponential, Fixed, Full, Linear, Steps
from mulligan.failure.catalogue import Catalogue, ErrorClass, ErrorCode
from mulligan.failure.classify import Failure, Ledger, Rule, Verdict
from mulligan.failure.policy import Decision, RetryPolicy, decide, schedule
from mulligan.failure.windows import Window

__all__ = [
    "Added",
    "Backoff",
    "Catalogue",
    "Decision",
    "Decorrelated",
    "ErrorClass",
    "ErrorCode",
    "Exponential",
    "Failure",
    "Fixed",
    "Full",
    "Ledger",
    "Linear",
    "RetryPolicy",
    "Rule",
    "Steps",
    "Verdict",
    "Window",
    "decide",
    "schedule",
]
