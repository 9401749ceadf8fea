"""Marks of failure groups: new, back, rising."""

from datetime import datetime
from typing import NamedTuple

from mulligan.records.failure_group import FailureGroup, GroupState
from mulligan.web.pages.words import minute_time


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
    if group.is_new:
        version = first_version(group)
        return Mark("new", f"New in {version}" if version else "New", "failed")
    return Mark("rising", "Rising", "held") if group.is_rising else None


def first_version(group: FailureGroup) -> str | None:
    """The only version in which it was seen. With several, the first one may have been left out."""
    return group.versions[0].name if len(group.versions) == 1 and not group.more.get("versions") else None
