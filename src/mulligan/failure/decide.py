"""Decides what to do about a failure. This is the only place where a retry is decided.

    at most once           fail, whatever the verdict, unless the code did not begin
    lost worker, crash     release at once until their own limits are reached, then fail
    another version        postpone, without charge, for a worker of the fitting version; fail after some hours
    final                  fail
    rate limited, hinted   wait exactly as long as the hint; no attempt is used up
    attempts, code limits  fail at the limit
    otherwise              retry after backoff, hint and windows, unless the deadline comes first
    service at fault       `spared` is applied instead if the service was not closed; the settle chooses

The worker, the reclaimer, the simulator and `explain` call the same function. It has no clock and no randomness: `now`
and the random draw are passed in.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mulligan.errors import BadPolicy
from mulligan.failure.backoff import Exponential, delay_after
from mulligan.failure.decision import Decision, Fail, Park, Postpone, Reasons, Release, Retry
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.redact import first_line
from mulligan.failure.verdict import Ledger, Verdict
from mulligan.failure.windows import Window, next_allowed
from mulligan.records.job import MAX_LOSSES, RECOVERING, Job
from mulligan.values.duration import LONGEST

# About twelve hours in all, as long as a rolling deploy may take. The delay grows slowly because a random worker claims
# the job next: if one worker in ten fits, that takes about ten claims.
MISFIT_BACKOFF = Exponential("1s", factor=1.25, cap="10m")
MAX_MISFITS = 100


def decide(verdict: Verdict, job: Job[Any], policy: RetryPolicy, *, now: datetime, draw: float) -> Decision:
    """The decision about a failure with this verdict. Total: every verdict on every job has a decision."""
    if job.at_most_once and verdict.has_begun and verdict.error_class != ErrorClass.FINAL:
        return _fail_at_most_once(verdict, job)
    match verdict.ledger:
        case Ledger.LOSSES:
            return _charge(verdict, job, count=job.losses + 1, limit=MAX_LOSSES, word="loss")
        case Ledger.CRASHES:
            return _charge(verdict, job, count=job.crashes + 1, limit=job.max_crashes, word="crash")
        case Ledger.MISFITS:
            return _give_back(verdict, job, now=now, draw=draw)
        case Ledger.FAILURES:
            return _judge(verdict, job, policy, now=now, draw=draw)


def _fail_at_most_once(verdict: Verdict, job: Job[Any]) -> Decision:
    reasons = _reasons(verdict, job)
    if verdict.code == "SNOOZED":
        verdict = _replace_code("SNOOZE_LIMIT", "This runs at most once, so it cannot be postponed.", verdict)
    return _fail(verdict, reasons, "it runs at most once", job)


def _charge(verdict: Verdict, job: Job[Any], *, count: int, limit: int, word: str) -> Decision:
    reasons = _reasons(verdict, job) | {word: count, "of": limit}
    if count >= limit:
        return _fail(verdict, reasons, f"{word} {count} of {limit}", job)
    return Release(reasons, ledger=verdict.ledger, verdict=verdict)


def _give_back(verdict: Verdict, job: Job[Any], *, now: datetime, draw: float) -> Decision:
    """Return the job to workers of another version. Nothing ran, so nothing is charged."""
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
        return _fail_late(verdict, job, reasons, delay, spared=None)
    return Postpone(delay, verdict, reasons | {"delay": _seconds(delay)})


def _judge(verdict: Verdict, job: Job[Any], policy: RetryPolicy, *, now: datetime, draw: float) -> Decision:
    if verdict.error_class == ErrorClass.FINAL:
        return _fail(verdict, _reasons(verdict, job) | _failure_count(job), "trying again cannot help", job)
    if verdict.error_class == ErrorClass.RATE_LIMITED and verdict.retry_after is not None:
        return _postpone(verdict, job, policy, wait=verdict.retry_after, now=now)
    return _count_failure(verdict, job, policy, now=now, draw=draw)


def _postpone(verdict: Verdict, job: Job[Any], policy: RetryPolicy, *, wait: timedelta, now: datetime) -> Decision:
    reasons = _reasons(verdict, job) | {"snooze": job.snoozes + 1, "of": job.max_snoozes}
    # A task may snooze itself for any time; a hint from a server is bounded.
    delay = min(max(wait, timedelta(0)), LONGEST if verdict.code == "SNOOZED" else policy.longest_hint)
    spared = _if_service_charged(verdict, job, delay=delay, least=delay)
    if job.snoozes + 1 > job.max_snoozes:
        message = f"This was put off {job.max_snoozes} times, which is the limit."
        return _fail(_replace_code("SNOOZE_LIMIT", message, verdict), reasons, "snoozes exhausted", job, spared)
    if _is_late(job, now + delay):
        return _fail_late(verdict, job, reasons, delay, spared)
    return Postpone(delay, verdict, reasons | {"delay": _seconds(delay)}, spared)


def _count_failure(verdict: Verdict, job: Job[Any], policy: RetryPolicy, *, now: datetime, draw: float) -> Decision:
    reasons = _reasons(verdict, job) | _failure_count(job)
    backoff, note = delay_after(job.failures + 1, policy.backoff, job.previous_delay, draw)
    why: Reasons = {} if note is None else {"backoff": note}
    delay, hinted = _delay(verdict, policy, backoff, now=now)
    least, _ = _delay(verdict, policy, timedelta(0), now=now)
    spared = _if_service_charged(verdict, job, delay=delay, least=least)
    if job.failures + 1 >= job.max_attempts:
        return _fail(verdict, reasons, "attempts exhausted", job, spared)
    limit = policy.limits.get(verdict.code)
    if limit is not None and job.code_failures.get(verdict.code, 0) + 1 > limit:
        return _fail(verdict, reasons | {"limit": limit}, f"limit of {verdict.code} reached", job, spared)
    if _is_late(job, now + delay):
        return _fail_late(verdict, job, reasons | why | hinted, delay, spared)
    return Retry(delay, verdict, reasons | {"delay": _seconds(delay)} | why | hinted, job.max_attempts, spared)


def _if_service_charged(verdict: Verdict, job: Job[Any], *, delay: timedelta, least: timedelta) -> Park | None:
    """The decision in case the service is charged; None if the service is not at fault."""
    if not verdict.blames_service:
        return None
    return Park(delay, least, verdict, _reasons(verdict, job), job.code_failures.get(RECOVERING, 0) + 1)


def _delay(verdict: Verdict, policy: RetryPolicy, delay: timedelta, *, now: datetime) -> tuple[timedelta, Reasons]:
    """The whole delay after this backoff, and the reasons for anything beyond it."""
    why: Reasons = {}
    if verdict.retry_after is not None:
        hint = min(max(verdict.retry_after, timedelta(0)), policy.longest_hint)
        delay, why = max(delay, hint), {"hint": _seconds(hint)}
    due = now + delay
    allowed = _allowed(due, policy.windows)
    return (delay, why) if allowed == due else (allowed - now, why | {"window": allowed.isoformat()})


def _allowed(due: datetime, windows: tuple[Window, ...]) -> datetime:
    try:
        return next_allowed(due, windows) if windows else due
    except BadPolicy:
        # Windows are checked when the policy is made. If a zone's rules changed since, the job must not be lost.
        return due


def _is_late(job: Job[Any], moment: datetime) -> bool:
    return job.deadline is not None and moment >= job.deadline


def _fail_late(verdict: Verdict, job: Job[Any], reasons: Reasons, delay: timedelta, spared: Park | None) -> Fail:
    message = "The deadline comes before the next try."
    reasons |= {"delay": _seconds(delay), "deadline": str(job.deadline)}
    return _fail(_replace_code("DEADLINE", message, verdict), reasons, "deadline before the next try", job, spared)


def _replace_code(code: str, message: str, verdict: Verdict) -> Verdict:
    """A final verdict of the engine that names the last failure and keeps its detail and group."""
    said = first_line(f"{message} Last failure: {verdict.final_message or verdict.message}")
    return replace(verdict, code=code, error_class=ErrorClass.FINAL, message=said, final_message=said)


def _fail(verdict: Verdict, reasons: Reasons, because: str, job: Job[Any], spared: Park | None = None) -> Fail:
    last_word = verdict.final_message or verdict.message
    return Fail(replace(verdict, message=last_word), reasons | {"because": because}, job.max_attempts, spared)


def _reasons(verdict: Verdict, job: Job[Any]) -> Reasons:
    reasons: Reasons = {"rule": verdict.rule, "code": verdict.code, "policy": job.kind}
    return reasons | {"notes": list(verdict.notes)} if verdict.notes else reasons


def _failure_count(job: Job[Any]) -> Reasons:
    return {"failure": job.failures + 1, "of": job.max_attempts}


def _seconds(delay: timedelta) -> float:
    return round(delay.total_seconds(), 3)
