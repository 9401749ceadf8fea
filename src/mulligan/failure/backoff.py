"""The delay before the next attempt. Jitter spreads the retries of jobs that failed at the same time.

A backoff is any callable `(failures, previous_delay, draw) -> timedelta`. `failures` counts the failures so far
(1 = the first), `previous_delay` is the delay before the attempt that just failed, and `draw` is a random number from 0
up to 1.
"""

# ruff: noqa: RUF001 - descriptions use a multiplication sign

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeAlias, assert_never

from mulligan.failure import checks, evidence
from mulligan.failure.checks import bad_value, set_fields
from mulligan.failure.redact import first_line
from mulligan.values.duration import Duration, describe, parse

LONGEST_DELAY = timedelta(days=30)
_LONGEST = LONGEST_DELAY.total_seconds()
# Beyond this no delay differs any more, and floats are still exact.
_MOST_FAILURES = 10**12


class Backoff(Protocol):
    def __call__(self, failures: int, previous_delay: timedelta | None, draw: float, /) -> timedelta: ...


@dataclass(frozen=True, slots=True)
class Full:
    """A random delay between zero and the computed one."""

    def describe(self) -> str:
        return "any time up to that"


@dataclass(frozen=True, slots=True)
class Decorrelated:
    """A random delay between the first delay and three times the previous one."""

    def describe(self) -> str:
        return "any time up to 3× the previous delay"


@dataclass(frozen=True, slots=True, init=False)
class Added:
    """The computed delay plus a random part of `duration`."""

    duration: timedelta

    def __init__(self, duration: Duration) -> None:
        set_fields(self, duration=_delay("the duration of Added", duration))

    def describe(self) -> str:
        return f"plus up to {describe(self.duration)}"


Jitter: TypeAlias = float | Full | Decorrelated | Added | None


@dataclass(frozen=True, slots=True, init=False)
class Fixed:
    """The same delay each time."""

    delay: timedelta
    jitter: Jitter

    def __init__(self, delay: Duration, *, jitter: Jitter = None) -> None:
        set_fields(self, delay=_delay("the delay of Fixed", delay), jitter=_jitter("Fixed", jitter))

    def __call__(self, failures: int, previous_delay: timedelta | None, draw: float) -> timedelta:  # noqa: ARG002
        return _apply_jitter(self.delay, self.jitter, previous_delay, draw, first=self.delay)

    def describe(self) -> str:
        return _describe(f"{describe(self.delay)} each time", None, self.jitter)


@dataclass(frozen=True, slots=True, init=False)
class Steps:
    """The listed delays, in order. The last one repeats."""

    delays: tuple[timedelta, ...]
    jitter: Jitter

    def __init__(self, delays: Iterable[Duration], *, jitter: Jitter = None) -> None:
        listed = _check_list(delays)
        set_fields(
            self,
            delays=tuple(_delay("a delay of Steps", delay) for delay in listed),
            jitter=_jitter("Steps", jitter),
        )

    def __call__(self, failures: int, previous_delay: timedelta | None, draw: float) -> timedelta:
        delay = self.delays[min(max(failures, 1), len(self.delays)) - 1]
        return _apply_jitter(delay, self.jitter, previous_delay, draw, first=self.delays[0])

    def describe(self) -> str:
        return _describe(", ".join(describe(delay) for delay in self.delays), None, self.jitter)


@dataclass(frozen=True, slots=True, init=False)
class Linear:
    """The delay, twice the delay, three times the delay …"""

    delay: timedelta
    cap: timedelta | None
    jitter: Jitter

    def __init__(self, delay: Duration, *, cap: Duration | None = None, jitter: Jitter = 0.2) -> None:
        set_fields(
            self,
            delay=_delay("the delay of Linear", delay),
            cap=_cap("Linear", cap),
            jitter=_jitter("Linear", jitter),
        )

    def __call__(self, failures: int, previous_delay: timedelta | None, draw: float) -> timedelta:
        delay = _limit(self.delay.total_seconds() * min(max(failures, 1), _MOST_FAILURES))
        return _apply_jitter(delay, self.jitter, previous_delay, draw, first=self.delay, cap=self.cap)

    def describe(self) -> str:
        return _describe(f"{describe(self.delay)} more each time", self.cap, self.jitter)


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """The delay, multiplied by `factor` after each further failure."""

    delay: timedelta
    factor: float
    cap: timedelta | None
    jitter: Jitter

    def __init__(
        self, delay: Duration, factor: float = 2, *, cap: Duration | None = None, jitter: Jitter = 0.2
    ) -> None:
        set_fields(
            self,
            delay=_delay("the delay of Exponential", delay),
            factor=checks.check_number("the factor of Exponential", factor, least=1, most=1_000_000),
            cap=_cap("Exponential", cap),
            jitter=_jitter("Exponential", jitter),
        )

    def __call__(self, failures: int, previous_delay: timedelta | None, draw: float) -> timedelta:
        delay = _limit(self.delay.total_seconds() * _power(self.factor, max(failures, 1) - 1))
        return _apply_jitter(delay, self.jitter, previous_delay, draw, first=self.delay, cap=self.cap)

    def describe(self) -> str:
        return _describe(f"{describe(self.delay)} ×{self.factor:g}", self.cap, self.jitter)


def delay_after(
    failures: int, backoff: Backoff, previous_delay: timedelta | None, draw: float
) -> tuple[timedelta, str | None]:
    """The delay after a failure, and a note if the default was used because the backoff raised.

    A backoff may be user code, and an error in it must not stop a worker.
    """
    try:
        delay = backoff(failures, previous_delay, draw)
        if not isinstance(delay, timedelta):
            delay = parse(delay)
        return min(max(delay, timedelta(0)), LONGEST_DELAY), None
    except Exception as problem:
        said = first_line(evidence.message_of(problem), 200)
        note = f"the default was used, because this one raised {evidence.type_name(type(problem))}: {said}"
        return DEFAULT_BACKOFF(failures, previous_delay, draw), note


def _power(factor: float, exponent: int) -> float:
    try:
        return factor**exponent
    except OverflowError:
        # Finite, so that zero times this is zero.
        return 1e300


def _limit(seconds: float) -> timedelta:
    return timedelta(seconds=min(max(seconds, 0.0), _LONGEST))


def _apply_jitter(
    delay: timedelta,
    jitter: Jitter,
    previous_delay: timedelta | None,
    draw: float,
    *,
    first: timedelta,
    cap: timedelta | None = None,
) -> timedelta:
    # Capped before jitter too: otherwise a delay far above the cap would always end at the cap itself.
    most = LONGEST_DELAY if cap is None else cap
    delay = min(delay, most)
    match jitter:
        case None:
            return delay
        case Full():
            delay *= draw
        case Added(duration=duration):
            delay += duration * draw
        case Decorrelated():
            longest = 3 * min(first if previous_delay is None else previous_delay, most)
            delay = first + (max(longest, first) - first) * draw
        case int() | float():
            delay *= 1 + jitter * (2 * draw - 1)
        case _ as never:
            assert_never(never)
    return min(delay, most)


def _delay(field: str, value: Duration) -> timedelta:
    return checks.check_duration(field, value, most=LONGEST_DELAY)


def _cap(owner: str, value: Duration | None) -> timedelta | None:
    return None if value is None else _delay(f"the cap of {owner}", value)


def _jitter(owner: str, jitter: Jitter) -> Jitter:
    if jitter is None or isinstance(jitter, Full | Decorrelated | Added):
        return jitter
    allowed = "None, a ratio from 0 to 1, Full(), Decorrelated() or Added(duration)"
    if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
        raise bad_value(f"the jitter of {owner}", jitter, allowed)
    return float(jitter)


def _check_list(delays: Iterable[Duration]) -> list[Duration]:
    listed = list(delays) if isinstance(delays, Iterable) and not isinstance(delays, str) else []
    if not listed:
        raise bad_value("the list of Steps", delays, "a list of one delay or more, such as ['1m', '5m', '15m']")
    return listed


def _describe(delays: str, cap: timedelta | None, jitter: Jitter) -> str:
    parts = [delays]
    if cap is not None:
        parts.append(f"at most {describe(cap)}")
    if isinstance(jitter, float):
        parts.append(f"±{jitter * 100:g} %")
    elif jitter is not None:
        parts.append(jitter.describe())
    return ", ".join(parts)


DEFAULT_BACKOFF = Exponential("15s")
