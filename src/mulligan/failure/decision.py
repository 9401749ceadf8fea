"""Decisions about the end of an attempt, with their reasons: plain values that can be stored as JSON."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from mulligan.failure.verdict import Ledger, Verdict

Reasons: TypeAlias = dict[str, Any]


class Succeed(NamedTuple):
    """`result` is a JSON string."""

    result: str | None


@dataclass(frozen=True, slots=True)
class Park:
    """Wait for the service of the job. The service is charged for the failed call, so no attempt is used up.

    While the service is closed, the job waits for `delay`. While it is not closed, its gate holds the job for at least
    `least`. `returns` counts the failed calls of the job that a closed service was charged for, including this one.
    Probes are not counted, so an outage of any length does not use them up.
    """

    delay: timedelta
    least: timedelta
    verdict: Verdict
    reasons: Reasons
    returns: int = 1
    is_held: bool = False
    """The service is not closed."""


@dataclass(frozen=True, slots=True)
class Retry:
    """`max_attempts` is the limit that applied, which the job keeps; None leaves the job's own. `spared` is applied
    instead if the service of the job is charged, which only the store can tell."""

    delay: timedelta
    verdict: Verdict
    reasons: Reasons
    max_attempts: int | None = field(default=None, compare=False)
    spared: Park | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fail:
    """`max_attempts` and `spared` as in `Retry`. A final verdict has no `spared`."""

    verdict: Verdict
    reasons: Reasons
    max_attempts: int | None = field(default=None, compare=False)
    spared: Park | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Postpone:
    """Run again after exactly this delay. No attempt is used up. `spared` as in `Retry`."""

    delay: timedelta
    verdict: Verdict
    reasons: Reasons
    spared: Park | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Release:
    """Return the job to the queue at once. `ledger` is the count that is charged, if any."""

    reasons: Reasons
    ledger: Ledger | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    reasons: Reasons


Decision: TypeAlias = Succeed | Retry | Fail | Postpone | Park | Release | Cancel
