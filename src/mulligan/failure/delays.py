"""The delays of a policy: after one failure, and as a table."""

from dataclasses import dataclass
from datetime import timedelta

from mulligan.failure import evidence
from mulligan.failure.backoff import LONGEST_DELAY
from mulligan.failure.decision import Reasons
from mulligan.failure.policy import DEFAULT_BACKOFF, RetryPolicy
from mulligan.failure.text import first_line
from mulligan.values.duration import parse

_HIGHEST_DRAW = 1 - 2**-53


def backoff_delay(
    policy: RetryPolicy, failures: int, previous_delay: timedelta | None, draw: float
) -> tuple[timedelta, Reasons]:
    """The delay after this failure. A backoff may be user code, and an error in it must not stop a worker."""
    try:
        delay = policy.backoff(failures, previous_delay, draw)
        if not isinstance(delay, timedelta):
            delay = parse(delay)
        return min(max(delay, timedelta(0)), LONGEST_DELAY), {}
    except Exception as problem:
        said = first_line(evidence.message_of(problem), 200)
        note = f"the default was used, because this one raised {evidence.type_name(type(problem))}: {said}"
        return DEFAULT_BACKOFF(failures, previous_delay, draw), {"backoff": note}


@dataclass(frozen=True, slots=True)
class Row:
    """What follows a failure: a delay, at random from `shortest` to `longest`, or the end."""

    failure: int
    then: str
    delay: timedelta | None
    shortest: timedelta | None
    longest: timedelta | None
    elapsed: timedelta


def schedule(policy: RetryPolicy, *, draw: float | None = None, at_most: int = 100) -> list[Row]:
    """The policy as a table: one row for each failure with a retry, `at_most` of them, and one for the last failure.

    Without `draw` the delays are the middle of the jitter. `elapsed` is the sum of the delays so far. Hints, code
    limits and windows are left out: they depend on the failure and on the date.
    """
    retries = min(policy.max_attempts - 1, at_most)
    shortest, delays, longest = (
        _delays(policy, retries, drawn) for drawn in (0.0, 0.5 if draw is None else draw, _HIGHEST_DRAW)
    )
    rows, elapsed = [], timedelta(0)
    for failure, (least, delay, most) in enumerate(zip(shortest, delays, longest, strict=True), start=1):
        elapsed += delay
        rows.append(Row(failure, "retry", delay, least, most, elapsed))
    return [*rows, Row(policy.max_attempts, "fails for good", None, None, None, elapsed)]


def _delays(policy: RetryPolicy, retries: int, draw: float) -> list[timedelta]:
    delays: list[timedelta] = []
    for failure in range(1, retries + 1):
        delay, _ = backoff_delay(policy, failure, delays[-1] if delays else None, draw)
        delays.append(delay)
    return delays
