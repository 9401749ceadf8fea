"""The rules of alerts: thresholds, defaults, and which terms are in force."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mulligan.errors import UnknownCheck
from mulligan.records.alert import AlertRule, AlertTerms, StoredRule
from mulligan.records.finding import Check, Level, Limits
from mulligan.values.check import is_number, not_allowed, one_of
from mulligan.values.duration import BadDuration, Duration, describe, parse

LONGEST = timedelta(days=7)
SECONDS = "seconds"


class BadTerm(ValueError):
    """`name` is the term that cannot work."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name


@dataclass(frozen=True, slots=True)
class Threshold:
    """The field of `Limits` that a check goes by. A duration is written in seconds."""

    field: str
    unit: str
    least: float
    most: float

    @property
    def default(self) -> float:
        return _to_number(getattr(Limits(), self.field))


_DAYS = 30 * 86_400.0
THRESHOLDS = {
    Check.JOBS_DEPTH: Threshold("depth", "jobs", 1, 1e9),
    Check.JOBS_WAITING: Threshold("wait", SECONDS, 1, _DAYS),
    Check.JOBS_STUCK: Threshold("stuck", "jobs", 1, 1_000),
    Check.JOBS_FAILING: Threshold("failing", "ratio", 0.001, 1),
    Check.JOBS_RETRIES: Threshold("retries", "ratio", 0.001, 1),
    Check.JOBS_CODES: Threshold("spike", "times", 1, 1_000),
    Check.SERVICES_TROUBLED: Threshold("outage", SECONDS, 1, _DAYS),
    Check.LEASES_EXPIRED: Threshold("lease", SECONDS, 1, _DAYS),
    Check.DUTIES_LATE: Threshold("duty", SECONDS, 1, _DAYS),
    Check.DUTIES_PAUSED: Threshold("pause", SECONDS, 1, 365 * 86_400.0),
    Check.CLOCK: Threshold("clock", SECONDS, 0.01, 3_600),
    Check.DISK: Threshold("disk", "bytes", 1, 1e15),
    Check.SQLITE_LOCK: Threshold("lock", SECONDS, 0.1, 60),
    Check.POSTGRES_SNAPSHOTS: Threshold("snapshot", SECONDS, 1, _DAYS),
    Check.LOG_LAG: Threshold("lag", SECONDS, 1, _DAYS),
    Check.LOG_SIZE: Threshold("log", "events", 1, 1e12),
    Check.LOG_CURSORS: Threshold("cursor", SECONDS, 1, 365 * 86_400.0),
    Check.LOG_PROJECTION: Threshold("projection", SECONDS, 1, _DAYS),
}


# A level that the check reaches, and how long that may last. docs/guides/alerts.md has the reasons.
_MINUTE = timedelta(minutes=1)
USUAL = AlertTerms(level=Level.PROBLEM, after=_MINUTE, resolve_after=5 * _MINUTE, is_on=True)
OF_CHECKS = {
    Check.JOBS_DEPTH: AlertTerms(level=Level.WARNING, after=5 * _MINUTE),
    Check.JOBS_WAITING: AlertTerms(level=Level.WARNING),
    Check.JOBS_STUCK: AlertTerms(after=timedelta(0)),
    Check.JOBS_FAILING: AlertTerms(level=Level.WARNING),
    Check.JOBS_RETRIES: AlertTerms(level=Level.WARNING),
    Check.JOBS_CODES: AlertTerms(level=Level.WARNING),
    Check.SERVICES_TROUBLED: AlertTerms(after=timedelta(0)),
    Check.JOBS_UNHANDLED: AlertTerms(after=2 * _MINUTE),
    Check.WORKERS_ALIVE: AlertTerms(level=Level.WARNING),
}


def check_named(name: str) -> Check:
    """The check with this code. Raises UnknownCheck."""
    try:
        return Check(name)
    except ValueError:
        raise UnknownCheck(str(name), [str(check) for check in Check]) from None


def find_rules(
    stored: Mapping[Check, StoredRule], now: datetime, in_code: Mapping[Check, AlertTerms] | None = None
) -> dict[Check, AlertRule]:
    """The rules in force: the defaults, then the terms of the code, then those that a person set. Without `in_code`,
    the terms of the code are those that a worker stored."""
    found = {}
    for check in Check:
        kept = stored.get(check, StoredRule(check=check))
        code = kept.in_code if in_code is None else in_code.get(check)
        found[check] = to_rule(kept, code, now)
    return found


def to_rule(kept: StoredRule, code: AlertTerms | None, now: datetime) -> AlertRule:
    terms = (kept.edited or AlertTerms()).over(code or AlertTerms()).over(OF_CHECKS.get(kept.check, AlertTerms()))
    terms = terms.over(USUAL)
    threshold = THRESHOLDS.get(kept.check)
    is_silenced = kept.silenced_at is not None and (kept.silenced_until is None or kept.silenced_until > now)
    assert terms.level and terms.after is not None and terms.resolve_after is not None and terms.is_on is not None
    return AlertRule(
        check=kept.check,
        level=terms.level,
        threshold=None if threshold is None else threshold.default if terms.threshold is None else terms.threshold,
        unit=None if threshold is None else threshold.unit,
        after=terms.after,
        resolve_after=terms.resolve_after,
        is_on=terms.is_on,
        is_in_code=code is not None,
        is_edited=kept.edited is not None,
        edited_at=kept.edited_at,
        edited_by=kept.edited_by,
        reason=kept.reason,
        is_silenced=is_silenced,
        silenced_until=kept.silenced_until if is_silenced else None,
        silenced_by=kept.silenced_by if is_silenced else None,
        silenced_because=kept.silenced_because if is_silenced else None,
    )


def to_limits(rules: Iterable[AlertRule]) -> Limits:
    """The thresholds of the rules, as the doctor takes them."""
    given = {
        threshold.field: _from_number(threshold, rule.threshold)
        for rule in rules
        if (threshold := THRESHOLDS.get(rule.check)) is not None and rule.threshold is not None
    }
    return replace(Limits(), **given)


def _from_number(threshold: Threshold, number: float) -> Any:
    if threshold.unit == SECONDS:
        return timedelta(seconds=number)
    return number if threshold.unit in ("ratio", "times") else int(number)


def _to_number(value: Any) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


# The doctor never finds a problem by these, and they cost: one counts all failed jobs, the other opens connections and
# wakes all workers.
WARNING_ONLY = (Check.JOBS_FAILED, Check.POSTGRES_NOTIFY)


def unused_checks(rules: Iterable[AlertRule]) -> frozenset[Check]:
    """Costly checks whose rules cannot fire."""
    return frozenset(
        rule.check for rule in rules if rule.check in WARNING_ONLY and (not rule.is_on or rule.level is Level.PROBLEM)
    )


# Terms, as they are given. Each raises ValueError, with what is possible.

_LEVEL = one_of((str(Level.WARNING), str(Level.PROBLEM)))


def check_terms(
    check: Check,
    *,
    threshold: Duration | None = None,
    level: str | None = None,
    after: Duration | None = None,
    resolve_after: Duration | None = None,
    is_on: bool | None = None,
) -> AlertTerms:
    if level is not None and not _LEVEL.fits(level):
        raise BadTerm("level", not_allowed("level", level, _LEVEL.allowed))
    if is_on is not None and not isinstance(is_on, bool):
        raise BadTerm("is_on", not_allowed("is_on", is_on, "True or False"))
    return AlertTerms(
        threshold=None if threshold is None else _check_threshold(check, threshold),
        level=None if level is None else Level(level),
        after=_check_length("after", after),
        resolve_after=_check_length("resolve_after", resolve_after),
        is_on=is_on,
    )


def _check_threshold(check: Check, given: Duration) -> float:
    known = THRESHOLDS.get(check)
    if known is None:
        raise BadTerm("threshold", f"check {check} has no threshold")
    is_time = known.unit == SECONDS
    try:
        value = parse(given).total_seconds() if is_time else given
    except BadDuration as error:
        raise BadTerm("threshold", f"threshold: {error}") from None
    if not is_number(value) or not known.least <= float(value) <= known.most:  # type: ignore[arg-type]
        raise BadTerm("threshold", not_allowed("threshold", given, _describe_range(known)))
    if known.unit in ("jobs", "bytes", "events") and float(value) != int(value):  # type: ignore[arg-type]
        raise BadTerm("threshold", not_allowed("threshold", given, "an integer"))
    return float(value)  # type: ignore[arg-type]


def _describe_range(known: Threshold) -> str:
    if known.unit == SECONDS:
        return (
            f"a duration from {describe(timedelta(seconds=known.least))} to {describe(timedelta(seconds=known.most))}"
        )
    return f"a number ({known.unit}) from {known.least:,.10g} to {known.most:,.10g}"


def _check_length(name: str, given: Duration | None) -> timedelta | None:
    if given is None:
        return None
    try:
        length = parse(given)
    except BadDuration as error:
        raise BadTerm(name, f"{name}: {error}") from None
    if length > LONGEST:
        raise BadTerm(name, not_allowed(name, length, f"at most {describe(LONGEST)}"))
    return length


def describe_value(value: float | None, unit: str | None) -> str:
    """A value or a threshold for people: `12,000 jobs`, `16m 40s`, `31 %`, `6.5 times`."""
    if value is None:
        return ""
    match unit:
        case "seconds":
            return describe(timedelta(seconds=value))
        case "ratio":
            return f"{value:.0%}"
        case "bytes" | "jobs" | "events":
            return f"{value:,.0f} {unit.removesuffix('s') if value == 1 else unit}"
    return f"{value:,.10g} {unit or ''}".rstrip()
