"""The retry policy: how often, how soon and when a failed job is retried. Also its delays as a table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from mulligan.failure import checks
from mulligan.failure.backoff import DEFAULT_BACKOFF, LONGEST_DELAY, Backoff, delay_after
from mulligan.failure.checks import bad_value, set_fields
from mulligan.failure.error_codes import CODE_ALLOWED, is_code
from mulligan.failure.windows import Window, require_an_instant
from mulligan.values.duration import LONGEST, Duration

_MOST = 1_000_000
_HIGHEST_DRAW = 1 - 2**-53


@dataclass(frozen=True, slots=True, init=False)
class RetryPolicy:
    """How often, how soon and when a failed job is retried.

    `max_attempts` includes the first attempt. `limits` are retries per error code: `{"IO_ERROR": 1}` retries an
    IO_ERROR once. `deadline` counts from enqueue. `longest_hint` is the longest delay that a server may ask for.
    """

    max_attempts: int
    backoff: Backoff
    limits: Mapping[str, int] = field(hash=False)
    deadline: timedelta | None
    windows: tuple[Window, ...]
    max_crashes: int
    max_snoozes: int
    longest_hint: timedelta

    def __init__(
        self,
        max_attempts: int = 4,
        backoff: Backoff = DEFAULT_BACKOFF,
        *,
        limits: Mapping[str, int] | None = None,
        deadline: Duration | None = None,
        windows: Iterable[Window] = (),
        max_crashes: int = 3,
        max_snoozes: int = 100,
        longest_hint: Duration = "24h",
    ) -> None:
        set_fields(
            self,
            max_attempts=checks.check_integer("max_attempts", max_attempts, least=1, most=_MOST),
            backoff=_backoff(backoff),
            limits=_limits(limits or {}),
            deadline=None if deadline is None else checks.check_duration("deadline", deadline, most=LONGEST),
            windows=_windows(windows),
            max_crashes=checks.check_integer("max_crashes", max_crashes, least=1, most=_MOST),
            max_snoozes=checks.check_integer("max_snoozes", max_snoozes, least=0, most=_MOST),
            longest_hint=checks.check_duration("longest_hint", longest_hint, most=LONGEST_DELAY),
        )


def _backoff(backoff: Backoff) -> Backoff:
    if not callable(backoff) or isinstance(backoff, type):
        allowed = "Fixed, Steps, Linear, Exponential or a function (failures, previous_delay, draw) -> timedelta"
        raise bad_value("backoff", backoff, allowed)
    return backoff


def _limits(limits: Mapping[str, int]) -> Mapping[str, int]:
    if not isinstance(limits, Mapping):
        raise bad_value("limits", limits, "a mapping such as {'IO_ERROR': 1}")
    for code, limit in limits.items():
        if not is_code(code):
            raise bad_value("a code in limits", code, CODE_ALLOWED)
        checks.check_integer(f"the limit of {code}", limit, least=0, most=_MOST)
    return MappingProxyType(dict(limits))


def _windows(windows: Iterable[Window]) -> tuple[Window, ...]:
    given = tuple(windows) if isinstance(windows, Iterable) else (windows,)
    if not all(isinstance(window, Window) for window in given):
        raise bad_value("windows", windows, "Window(…) values")
    require_an_instant(given)
    return given


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
        delay, _ = delay_after(failure, policy.backoff, delays[-1] if delays else None, draw)
        delays.append(delay)
    return delays
