"""The sentences that open the pages of failures: the answer first, from fixed templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from mulligan.records.failure_group import FailureGroup, GroupState
from mulligan.web.pages.words import minute_time, number, plural, short_duration

# A group that was not seen for this long seems to be over.
QUIET = timedelta(minutes=5)
# From this fraction on, one group is the cause.
MOSTLY = 0.5


class Sentence(NamedTuple):
    """`lead` is the number that it begins with, in the colour of `tone`."""

    lead: str
    rest: str
    more: str = ""
    tone: str = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """What the first page knows. `groups` are those that need attention and hurt most; `largest` is the one with most
    failed jobs, `in_largest`. `counts` are those of all groups by state. `recent_failed` and `recent_recovered` are
    jobs of the time in the chart, which `spoken` names."""

    failed: int
    is_more: bool = False
    largest: FailureGroup | None = None
    in_largest: int = 0
    groups: Sequence[FailureGroup] = ()
    counts: Mapping[str, int]
    recent_failed: int = 0
    recent_recovered: int = 0
    spoken: str = "the last 24 hours"
    running: Mapping[str, datetime]
    now: datetime

    @property
    def open_groups(self) -> int:
        return sum(self.counts.get(state, 0) for state in (GroupState.OPEN, GroupState.REGRESSED))

    @property
    def outstanding(self) -> int:
        """Jobs of these groups that failed an attempt, and have neither failed for good nor succeeded since."""
        return sum(still_trying(group) for group in self.groups)


def still_trying(group: FailureGroup) -> int:
    return max(0, group.jobs - group.failed - group.recovered)


def is_coped_with(group: FailureGroup) -> bool:
    """Retries have put all of its jobs right."""
    return not group.failed and not still_trying(group)


def say_inbox(inbox: Inbox) -> Sentence:
    if not inbox.failed:
        return _nothing_failed(inbox)
    largest = inbox.largest
    if largest is None or not inbox.in_largest:
        return _nothing_open(inbox)
    most = number(inbox.in_largest)
    about = f"{say_since(largest, inbox.now)} {say_versions(largest, inbox.running, inbox.now)}".strip()
    if inbox.is_more:
        return Sentence(
            f"More than {number(inbox.failed)}",
            "jobs have failed.",
            f"The largest group that needs you has {most} of them: {about}",
        )
    if inbox.failed == 1:
        return Sentence("1", "job has failed.", about)
    if inbox.in_largest >= inbox.failed:
        return Sentence("", f"All {number(inbox.failed)} failed jobs have one cause.", about)
    if inbox.in_largest >= MOSTLY * inbox.failed:
        return Sentence(most, f"of {number(inbox.failed)} failed jobs have one cause.", about)
    groups = "The only open group" if inbox.open_groups == 1 else f"The largest of {plural(inbox.open_groups, 'group')}"
    return Sentence(number(inbox.failed), "jobs have failed.", f"{groups} has {most} of them: {about}")


def _nothing_failed(inbox: Inbox) -> Sentence:
    if inbox.outstanding:
        jobs = plural(inbox.outstanding, "job")
        have = "has" if inbox.outstanding == 1 else "have"
        return Sentence(
            "",
            "Nothing has failed for good.",
            f"{jobs} failed an attempt and {have} not succeeded since: retries go on.",
        )
    return Sentence("", "Nothing needs you.", _recently(inbox), "succeeded")


def _recently(inbox: Inbox) -> str:
    failed, recovered = inbox.recent_failed, inbox.recent_recovered
    coped = f"{plural(recovered, 'job')} failed at first and {'was' if recovered == 1 else 'were'} recovered by retries"
    if failed:
        seen = f"In {inbox.spoken} {plural(failed, 'job')} failed for good, but none is failed now."
        return f"{seen} {coped[0].upper()}{coped[1:]}." if recovered else seen
    return f"In {inbox.spoken} {coped}." if recovered else f"Nothing has failed in {inbox.spoken}."


def _nothing_open(inbox: Inbox) -> Sentence:
    """Jobs have failed, but no open group has them."""
    lead, rest = number(inbox.failed), "jobs have failed." if inbox.failed != 1 else "job has failed."
    if inbox.is_more:
        lead = f"More than {lead}"
    if inbox.counts.get(GroupState.IGNORED, 0) + inbox.counts.get(GroupState.RESOLVED, 0):
        return Sentence(
            lead, rest, "No open group has them: what they failed with is ignored or resolved.", "cancelled"
        )
    return Sentence(lead, rest, "They belong to no group yet. Workers group failures about a second later.")


def say_since(group: FailureGroup, now: datetime) -> str:
    """`charge has failed with HTTP_4XX since 13:59; the last one was at 14:26.`"""
    since = f"{group.kind} has failed with {group.code} since {minute_time(group.first_seen_at, now)}"
    if now - group.last_seen_at < QUIET or group.failures == 1:
        return f"{since}."
    return f"{since}; the last time was {_at(group.last_seen_at, now)}."


def _at(moment: datetime, now: datetime) -> str:
    return f"at {minute_time(moment, now)}"


def say_versions(group: FailureGroup, running: Mapping[str, datetime], now: datetime) -> str:
    """Which versions have it, and which version that runs now has not."""
    if not group.versions:
        return ""
    has_all = not group.more.get("versions")
    names = {seen.name for seen in group.versions}
    only = f"Only version {group.versions[0].name} has it." if len(names) == 1 and has_all else ""
    first = min(seen.first_seen_at for seen in group.versions)
    clean = {name: since for name, since in running.items() if name not in names and since > first}
    if not clean or not has_all:
        return only
    newest = max(clean, key=lambda name: clean[name])
    return f"{only} Version {newest}, which has run since {minute_time(clean[newest], now)}, does not have it.".strip()


def say_group(group: FailureGroup, running: Mapping[str, datetime], now: datetime) -> str:
    """What one group did: how many jobs, how long, in which versions, and what a person decided."""
    parts = (_jobs_of(group), say_versions(group, running, now), say_decision(group, now))
    return " ".join(filter(None, parts))


def _jobs_of(group: FailureGroup) -> str:
    lasted = group.last_seen_at - group.first_seen_at
    within = f" within {short_duration(lasted)}" if lasted >= timedelta(minutes=1) else ""
    trying, recovered = still_trying(group), f"{number(group.recovered)} recovered by retries"
    if group.failed:
        said = f"{plural(group.failed, 'job')} failed for good{within}"
        rest = [recovered] if group.recovered else []
        rest += [f"{number(trying)} may still recover"] if trying else []
        return f"{said}; {' and '.join(rest)}." if rest else f"{said}."
    if trying:
        said = f"{plural(trying, 'job')} failed an attempt{within} and may still recover; none has failed for good"
        return f"{said}, and {recovered}." if group.recovered else f"{said}."
    if group.recovered == 1:
        return "The one job that failed recovered by a retry."
    return f"All {plural(group.recovered, 'job')} that failed{within} recovered by retries."


def say_decision(group: FailureGroup, now: datetime) -> str:
    decided = minute_time(group.decided_at, now) if group.decided_at else ""
    by = f" by {group.decided_by}" if group.decided_by else ""
    why = f": {group.reason}" if group.reason else ""
    match group.state:
        case GroupState.REGRESSED:
            seen = f" and seen again at {minute_time(group.regressed_at, now)}" if group.regressed_at else ""
            return f"It was resolved{by} at {decided}{seen}."
        case GroupState.RESOLVED:
            return f"Resolved{by} at {decided}{why}."
        case GroupState.IGNORED:
            return f"Ignored{by} {_ignored_until(group, now)}{why}."
    return ""


def _ignored_until(group: FailureGroup, now: datetime) -> str:
    ends = []
    if group.ignored_until is not None:
        ends.append(f"until {minute_time(group.ignored_until, now)}")
    if group.ignored_below is not None:
        ends.append(f"until it has {number(group.ignored_below)} failures")
    return " or ".join(ends) or "until it is reopened"
