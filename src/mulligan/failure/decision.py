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
class Park:
    """Wait for the service of the job, which is charged for the failed call: no attempt is used up.

    While the service is closed the job waits for `delay`; while it is not, its gate holds the job, for `least` at
    least. `returns` counts the failed calls of the job that a closed service was charged for, this one included: probes
    are not among them, so that no outage, however long, uses them up.
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
    """`max_attempts` is the limit it was judged by, which the job keeps; None leaves what it has. `spared` is what is
    done instead if the service of the job bears the failure, which only the store knows."""

    delay: timedelta
    verdict: Verdict
    reasons: Reasons
    max_attempts: int | None = field(default=None, compare=False)
    spared: Park | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fail:
    """`max_attempts` and `spared` as in `Retry`; a final verdict spares nobody."""

    verdict: Verdict
    reasons: Reasons
    max_attempts: int | None = field(default=None, compare=False)
    spared: Park | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Postpone:
    """Run again after exactly this long; no attempt is used up. `spared` as in `Retry`."""

    delay: timedelta
    verdict: Verdict
    reasons: Reasons
    spared: Park | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Release:
    """Back to the queue at once; `ledger` says what is charged, if anything."""

    reasons: Reasons
    ledger: Ledger | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    reasons: Reasons


Decision: TypeAlias = Succeed | Retry | Fail | Postpone | Park | Release | Cancel
