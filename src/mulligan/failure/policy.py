"""What is done about a failure: RetryPolicy and `decide`, the one place where a retry is decided.

    how often             at most once           fail, whatever it is, unless its code did not begin
    what is charged       lost worker, crash     their own limits; below them the job goes back at once
                          another version        nothing; it waits for a worker of that version, for some hours
    what it is            final                  fail
                          rate limited, hinted   wait exactly that long; no attempt is used up
    what is left          attempts, code limits  fail at the limit
    when                  backoff, hint, windows retry after that — unless the deadline comes first
    who bears it          the service            `spared` is done instead, if it was not closed; the settle chooses

Worker, reclaimer, simulator and `explain` call the same function. It knows no clock and no chance: `now`
and the random draw are given.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from mulligan.errors import BadPolicy
from mulligan.failure import checks, evidence
from mulligan.failure.backoff import LONGEST_DELAY, Backoff, Exponential
from mulligan.failure.catalogue import CODE_ALLOWED, ErrorClass, is_code
from mulligan.failure.checks import fill, refused
from mulligan.failure.decision import Cancel, Decision, Fail, Park, Reasons, Release, Retry, Snooze, Succeed
from mulligan.failure.text import first_line
from mulligan.failure.verdict import Ledger, Verdict
from mulligan.failure.windows import Window, next_allowed, require_an_instant
from mulligan.records.job import MAX_LOSSES, RECOVERING, Job
from mulligan.values.duration import LONGEST, Duration, parse

__all__ = [
    "Cancel",
    "Decision",
    "Fail",
    "Park",
    "Reasons",
    "Release",
    "Retry",
    "RetryPolicy",
    "Row",
    "Snooze",
    "Succeed",
    "decide",
    "schedule",
]

DEFAULT_BACKOFF = Exponential("15s")
# About twelve hours in all: so long a rolling deploy may take. The delay grows slowly, because the next worker to take
# the job is a random one: where one of ten fits, that is ten tries.
MISFIT_BACKOFF = Exponential("1s", factor=1.25, cap="10m")
MAX_MISFITS = 100
_MOST = 1_000_000
_HIGHEST_DRAW = 1 - 2**-53


@dataclass(frozen=True, slots=True, init=False)
class RetryPolicy:
    """How often, how soon and when a failed job is tried again.

    `max_attempts` counts the first try. `limits` are retries per error code: `{"IO_ERROR": 1}` retries an
    IO_ERROR once. `deadline` counts from enqueue. `longest_hint` bounds what a server may ask us to wait.
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
        fill(
            self,
            max_attempts=checks.whole("max_attempts", max_attempts, least=1, most=_MOST),
            backoff=_backoff(backoff),
            limits=_limits(limits or {}),
            deadline=None if deadline is None else checks.duration("deadline", deadline, most=LONGEST),
            windows=_windows(windows),
            max_crashes=checks.whole("max_crashes", max_crashes, least=1, most=_MOST),
            max_snoozes=checks.whole("max_snoozes", max_snoozes, least=0, most=_MOST),
            longest_hint=checks.duration("longest_hint", longest_hint, most=LONGEST_DELAY),
        )


def _backoff(backoff: Backoff) -> Backoff:
    if not callable(backoff) or isinstance(backoff, type):
        allowed = "Fixed, Steps, Linear, Exponential or a function (failures, previous_delay, draw) -> timedelta"
        raise refused("backoff", backoff, allowed)
    return backoff


def _limits(limits: Mapping[str, int]) -> Mapping[str, int]:
    if not isinstance(limits, Mapping):
        raise refused("limits", limits, "a mapping such as {'IO_ERROR': 1}")
    for code, limit in limits.items():
        if not is_code(code):
            raise refused("a code in limits", code, CODE_ALLOWED)
        checks.whole(f"the limit of {code}", limit, least=0, most=_MOST)
    return MappingProxyType(dict(limits))


def _windows(windows: Iterable[Window]) -> tuple[Window, ...]:
    given = tuple(windows) if isinstance(windows, Iterable) else (windows,)
    if not all(isinstance(window, Window) for window in given):
        raise refused("windows", windows, "Window(…) values")
    require_an_instant(given)
    return given


def decide(verdict: Verdict, job: Job[Any], policy: RetryPolicy, *, now: datetime, draw: float) -> Decision:
    """What is done about a failure with this verdict. Total: every verdict on every job has a decision."""
    if job.at_most_once and verdict.has_begun and verdict.error_class != ErrorClass.FINAL:
        return _only_once(verdict, job)
    match verdict.ledger:
        case Ledger.LOSSES:
            return _charged(verdict, job, count=job.losses + 1, limit=MAX_LOSSES, word="loss")
        case Ledger.CRASHES:
            return _charged(verdict, job, count=job.crashes + 1, limit=job.max_crashes, word="crash")
        case Ledger.MISFITS:
            return _given_back(verdict, job, now=now, draw=draw)
        case Ledger.FAILURES:
            return _judged(verdict, job, policy, now=now, draw=draw)


def _only_once(verdict: Verdict, job: Job[Any]) -> Decision:
    reasons = _reasons(verdict, job)
    if verdict.code == "SNOOZED":
        verdict = _instead("SNOOZE_LIMIT", "This runs at most once, so it cannot be put off.", verdict)
    return _fail(verdict, reasons, "it runs at most once", job)


def _charged(verdict: Verdict, job: Job[Any], *, count: int, limit: int, word: str) -> Decision:
    reasons = _reasons(verdict, job) | {word: count, "of": limit}
    if count >= limit:
        return _fail(verdict, reasons, f"{word} {count} of {limit}", job)
    return Release(reasons, ledger=verdict.ledger, verdict=verdict)


def _given_back(verdict: Verdict, job: Job[Any], *, now: datetime, draw: float) -> Decision:
    """To workers of another version. Nothing was run, so nothing is charged."""
    count = job.code_failures.get(verdict.code, 0) + 1
    reasons = _reasons(verdict, job) | {"misfit": count, "of": MAX_MISFITS}
    if count >= MAX_MISFITS:
        message = "The input of this job fits no version of its task that took it."
        final = replace(
            verdict, code="INVALID_INPUT", error_class=ErrorClass.FINAL, message=message, final_message=message
        )
        return _fail(final, reasons, f"misfit {count} of {MAX_MISFITS}", job)
    delay = MISFIT_BACKOFF(count, None, draw)
    if _is_late(job, now + delay):
        return _too_late(verdict, job, reasons, delay, spared=None)
    return Snooze(delay, verdict, reasons | {"delay": _seconds(delay)})


def _judged(verdict: Verdict, job: Job[Any], policy: RetryPolicy, *, now: datetime, draw: float) -> Decision:
    if verdict.error_class == ErrorClass.FINAL:
        return _fail(verdict, _reasons(verdict, job) | _tally(job), "trying again cannot help", job)
    if verdict.error_class == ErrorClass.RATE_LIMITED and verdict.retry_after is not None:
        return _put_off(verdict, job, policy, wait=verdict.retry_after, now=now)
    return _counted(verdict, job, policy, now=now, draw=draw)


def _put_off(verdict: Verdict, job: Job[Any], policy: RetryPolicy, *, wait: timedelta, now: datetime) -> Decision:
    reasons = _reasons(verdict, job) | {"snooze": job.snoozes + 1, "of": job.max_snoozes}
    # A task that snoozes itself knows what it does; a server's word is bounded.
    delay = min(max(wait, timedelta(0)), LONGEST if verdict.code == "SNOOZED" else policy.longest_hint)
    spared = _spared(verdict, job, delay=delay, least=delay)
    if job.snoozes + 1 > job.max_snoozes:
        message = f"This was put off {job.max_snoozes} times, which is the limit."
        return _fail(_instead("SNOOZE_LIMIT", message, verdict), reasons, "snoozes exhausted", job, spared)
    if _is_late(job, now + delay):
        return _too_late(verdict, job, reasons, delay, spared)
    return Snooze(delay, verdict, reasons | {"delay": _seconds(delay)}, spared)


def _counted(verdict: Verdict, job: Job[Any], policy: RetryPolicy, *, now: datetime, draw: float) -> Decision:
    reasons = _reasons(verdict, job) | _tally(job)
    backoff, why = _backed_off(policy, job.failures + 1, job.previous_delay, draw)
    delay, hinted = _delay(verdict, policy, backoff, now=now)
    least, _ = _delay(verdict, policy, timedelta(0), now=now)
    spared = _spared(verdict, job, delay=delay, least=least)
    if job.failures + 1 >= job.max_attempts:
        return _fail(verdict, reasons, "attempts exhausted", job, spared)
    limit = policy.limits.get(verdict.code)
    if limit is not None and job.code_failures.get(verdict.code, 0) + 1 > limit:
        return _fail(verdict, reasons | {"limit": limit}, f"limit of {verdict.code} reached", job, spared)
    if _is_late(job, now + delay):
        return _too_late(verdict, job, reasons | why | hinted, delay, spared)
    return Retry(delay, verdict, reasons | {"delay": _seconds(delay)} | why | hinted, job.max_attempts, spared)


def _spared(verdict: Verdict, job: Job[Any], *, delay: timedelta, least: timedelta) -> Park | None:
    """What is done if the service bears the failure; nothing of the kind where it is not at fault."""
    if not verdict.blames_service:
        return None
    return Park(delay, least, verdict, _reasons(verdict, job), job.code_failures.get(RECOVERING, 0) + 1)


def _delay(verdict: Verdict, policy: RetryPolicy, delay: timedelta, *, now: datetime) -> tuple[timedelta, Reasons]:
    """How long to wait after this backoff, and what besides it made it so."""
    why: Reasons = {}
    if verdict.retry_after is not None:
        hint = min(max(verdict.retry_after, timedelta(0)), policy.longest_hint)
        delay, why = max(delay, hint), {"hint": _seconds(hint)}
    due = now + delay
    allowed = _allowed(due, policy.windows)
    return (delay, why) if allowed == due else (allowed - now, why | {"window": allowed.isoformat()})


def _backed_off(
    policy: RetryPolicy, failures: int, previous_delay: timedelta | None, draw: float
) -> tuple[timedelta, Reasons]:
    """A backoff may be anybody's code: what it raises or returns must not stop a worker."""
    try:
        delay = policy.backoff(failures, previous_delay, draw)
        if not isinstance(delay, timedelta):
            delay = parse(delay)
        return min(max(delay, timedelta(0)), LONGEST_DELAY), {}
    except Exception as problem:
        said = first_line(evidence.message_of(problem), 200)
        note = f"the default was used, for this one raised {evidence.type_name(type(problem))}: {said}"
        return DEFAULT_BACKOFF(failures, previous_delay, draw), {"backoff": note}


def _allowed(due: datetime, windows: tuple[Window, ...]) -> datetime:
    try:
        return next_allowed(due, windows) if windows else due
    except BadPolicy:
        # Checked when the policy was made; a zone whose clocks were changed since must not lose the job.
        return due


def _is_late(job: Job[Any], moment: datetime) -> bool:
    return job.deadline is not None and moment >= job.deadline


def _too_late(verdict: Verdict, job: Job[Any], reasons: Reasons, delay: timedelta, spared: Park | None) -> Fail:
    message = "The deadline comes before the next try."
    reasons |= {"delay": _seconds(delay), "deadline": str(job.deadline)}
    return _fail(_instead("DEADLINE", message, verdict), reasons, "deadline before the next try", job, spared)


def _instead(code: str, message: str, verdict: Verdict) -> Verdict:
    """A final verdict of the engine that says what the last failure was, and keeps its detail and group."""
    said = first_line(f"{message} Last failure: {verdict.final_message or verdict.message}")
    return replace(verdict, code=code, error_class=ErrorClass.FINAL, message=said, final_message=said)


def _fail(verdict: Verdict, reasons: Reasons, because: str, job: Job[Any], spared: Park | None = None) -> Fail:
    last_word = verdict.final_message or verdict.message
    return Fail(replace(verdict, message=last_word), reasons | {"because": because}, job.max_attempts, spared)


def _reasons(verdict: Verdict, job: Job[Any]) -> Reasons:
    reasons: Reasons = {"rule": verdict.rule, "code": verdict.code, "policy": job.kind}
    return reasons | {"notes": list(verdict.notes)} if verdict.notes else reasons


def _tally(job: Job[Any]) -> Reasons:
    return {"failure": job.failures + 1, "of": job.max_attempts}


def _seconds(delay: timedelta) -> float:
    return round(delay.total_seconds(), 3)


@dataclass(frozen=True, slots=True)
class Row:
    """What follows a failure: the delay, by chance from `shortest` to `longest`, or the end."""

    failure: int
    then: str
    delay: timedelta | None
    shortest: timedelta | None
    longest: timedelta | None
    elapsed: timedelta


def schedule(policy: RetryPolicy, *, draw: float | None = None, at_most: int = 100) -> list[Row]:
    """The policy as a table: a row for each failure, `at_most` retries of them, and the last one.

    Without `draw` the delays are those in the middle of the jitter. `elapsed` is all the waiting so far.
    Hints, code limits and windows are left out: they depend on the failure and on the day.
    """
    retries = min(policy.max_attempts - 1, at_most)
    shortest, delays, longest = (
        _delays(policy, retries, chance) for chance in (0.0, 0.5 if draw is None else draw, _HIGHEST_DRAW)
    )
    rows, elapsed = [], timedelta(0)
    for failure, (least, delay, most) in enumerate(zip(shortest, delays, longest, strict=True), start=1):
        elapsed += delay
        rows.append(Row(failure, "retry", delay, least, most, elapsed))
    return [*rows, Row(policy.max_attempts, "fails for good", None, None, None, elapsed)]


def _delays(policy: RetryPolicy, retries: int, draw: float) -> list[timedelta]:
    delays: list[timedelta] = []
    for failure in range(1, retries + 1):
        delay, _ = _backed_off(policy, failure, delays[-1] if delays else None, draw)
        delays.append(delay)
    return delays
