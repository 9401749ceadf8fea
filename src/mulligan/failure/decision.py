"""What is done about the end of an attempt, with the reasons: plain values that can be stored as JSON."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from mulligan.failure.verdict import Ledger, Verdict

Reasons: TypeAlias = dict[str, Any]


class Succeed(NamedTuple):
    """`result` is JSON text."""

    result: str | None


@dataclass(frozen=True, slots=True)
class Retry:
    """`max_attempts` is the limit it was judged by, which the job keeps; None leaves what it has."""

    delay: timedelta
    verdict: Verdict
    reasons: Reasons
    max_attempts: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fail:
    """`max_attempts` as in `Retry`."""

    verdict: Verdict
    reasons: Reasons
    max_attempts: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Snooze:
    """Run again after exactly this long; no attempt is used up."""

    delay: timedelta
    verdict: Verdict
    reasons: Reasons


@dataclass(frozen=True, slots=True)
class Release:
    """Back to the queue at once; `ledger` says what is charged, if anything."""

    reasons: Reasons
    ledger: Ledger | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    reasons: Reasons


Decision: TypeAlias = Succeed | Retry | Fail | Snooze | Release | Cancel
