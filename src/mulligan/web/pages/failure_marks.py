"""Marks of failure groups: new, back, rising."""

from datetime import datetime, timedelta
from typing import NamedTuple

from mulligan.records.failure_group import FailureGroup, GroupState
from mulligan.web.pages.words import minute_time

NEW_FOR = timedelta(days=1)
# Failures of the last two hours, compared with those of the hours before.
RECENT, BEFORE = timedelta(hours=2), timedelta(hours=22)
LEAST_RISING, RISES_BY = 10, 2.0


class Mark(NamedTuple):
    """`sign` is its symbol; without one it is plain."""

    sign: str
    text: str
    tone: str


def mark_of(group: FailureGroup, now: datetime) -> Mark | None:
    match group.state:
        case GroupState.REGRESSED:
            return Mark("regressed", "Back, was resolved", "failed")
        case GroupState.RESOLVED:
            return Mark("", "Resolved", "")
        case GroupState.IGNORED:
            until = group.ignored_until
            return Mark("", f"Ignored until {minute_time(until, now)}" if until else "Ignored", "")
    if now - group.first_seen_at < NEW_FOR:
        version = first_version(group)
        return Mark("new", f"New in {version}" if version else "New", "failed")
    return Mark("rising", "Rising", "held") if is_rising(group, now) else None


def first_version(group: FailureGroup) -> str | None:
    """The only version in which it was seen. With several, the first one may have been left out."""
    return group.versions[0].name if len(group.versions) == 1 and not group.more.get("versions") else None


def is_rising(group: FailureGroup, now: datetime) -> bool:
    """Twice as many failures as in the hours before, and not only a few."""
    recent = sum(count.failures for count in group.hours if count.at > now - RECENT)
    before = sum(count.failures for count in group.hours if now - RECENT - BEFORE < count.at <= now - RECENT)
    return recent >= LEAST_RISING and recent >= RISES_BY * before * (RECENT / BEFORE)
