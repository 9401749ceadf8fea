"""Failure groups: similar failures of attempts, also of those that recovered later. Records and pure rules.

`GroupRow` is what the store keeps, and also what a page of the log adds to it: `merge` adds one to the other. Its times
are microseconds. `FailureGroup` is what people see.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import exp2, log2
from typing import Any

import msgspec

MICROSECONDS = 1_000_000
HOUR, DAY = 3_600 * MICROSECONDS, 86_400 * MICROSECONDS

# Impact: each failed attempt weighs 1, and 10 if its job failed permanently. The weight halves with each day of age.
# Each doubling of the number of owners adds the sum once more.
RETRIED_WEIGHT, FAILED_WEIGHT = 1.0, 10.0
HALF_LIFE = timedelta(days=1)
# Of what has no weight any more.
LEAST_WEIGHT = 1e-9

# A group is new for so long after its first failure.
NEW_FOR = timedelta(days=1)
# It is rising if it has at least so many failures in the current and the previous hour, and at least so many times the
# rate of the 24 hours before them.
RISING_LEAST, RISING_FACTOR = 10, 2.0
RISING_BEFORE = timedelta(hours=24)

# Lists are bounded; the rest is counted.
MOST_NAMES = 20
HOURS_KEPT, DAYS_KEPT = 48, 90
LONGEST_TITLE = 300


class GroupState(StrEnum):
    OPEN = "open"
    IGNORED = "ignored"
    RESOLVED = "resolved"
    REGRESSED = "regressed"


class Sample(msgspec.Struct, frozen=True, gc=False):
    """The last failure of a group."""

    job: str
    at: int
    attempt: int
    code: str
    error_class: str
    message: str
    error: str
    owner: str = ""


class Seen(msgspec.Struct, gc=False):
    """How often one name was seen, and when first and last."""

    number: int
    first: int
    last: int


Names = dict[str, Seen]


class GroupDocument(msgspec.Struct):
    """The parts of a group that are stored as JSON. `hours` and `days` count failures, and permanent ones of them."""

    sample: Sample
    kinds: Names = msgspec.field(default_factory=dict)
    services: Names = msgspec.field(default_factory=dict)
    versions: Names = msgspec.field(default_factory=dict)
    hours: dict[int, tuple[int, int]] = msgspec.field(default_factory=dict)
    days: dict[int, tuple[int, int]] = msgspec.field(default_factory=dict)
    more: dict[str, int] = msgspec.field(default_factory=dict)
    """How many kinds, services and versions were left out."""


@dataclass(slots=True)
class GroupRow:
    """The counts of a group, or what a page of the log adds to them."""

    id: str
    scope: str
    kind: str
    code: str
    error_class: str
    title: str
    first_seen_at: int
    last_seen_at: int
    failures: int
    cost: int
    heat: float
    document: GroupDocument


def merge(before: GroupRow, new: GroupRow) -> GroupRow:
    """Add what a later page of the log says. The order of pages does not change the counts."""
    last = max(before.last_seen_at, new.last_seen_at)
    newest = new if new.document.sample.at >= before.document.sample.at else before
    return replace(
        newest,
        first_seen_at=min(before.first_seen_at, new.first_seen_at),
        last_seen_at=last,
        failures=before.failures + new.failures,
        cost=before.cost + new.cost,
        heat=decayed(before.heat, last - before.last_seen_at) + decayed(new.heat, last - new.last_seen_at),
        document=_merge_documents(before.document, new.document, newest.document.sample, last),
    )


def decayed(heat: float, age: int) -> float:
    """The heat after this many microseconds."""
    return heat * exp2(-age / (HALF_LIFE.total_seconds() * MICROSECONDS))


def _merge_documents(before: GroupDocument, new: GroupDocument, sample: Sample, last: int) -> GroupDocument:
    more = dict(before.more)
    return GroupDocument(
        sample,
        **{name: _merge_names(getattr(before, name), getattr(new, name), name, more) for name in NAMED},
        hours=_merge_buckets(before.hours, new.hours, last - HOURS_KEPT * HOUR),
        days=_merge_buckets(before.days, new.days, last - DAYS_KEPT * DAY),
        more=more,
    )


NAMED = ("kinds", "services", "versions")


def _merge_names(before: Names, new: Names, what: str, more: dict[str, int]) -> Names:
    """Those seen last are kept."""
    merged = dict(before)
    for name, seen in new.items():
        known = merged.get(name)
        merged[name] = seen if known is None else add_seen(known, seen)
    if len(merged) > MOST_NAMES:
        newest = sorted(merged, key=lambda name: (merged[name].last, name))[-MOST_NAMES:]
        more[what] = more.get(what, 0) + len(merged) - MOST_NAMES
        merged = {name: merged[name] for name in newest}
    return merged


def add_seen(one: Seen, other: Seen) -> Seen:
    return Seen(one.number + other.number, min(one.first, other.first), max(one.last, other.last))


def _merge_buckets(
    before: dict[int, tuple[int, int]], new: dict[int, tuple[int, int]], since: int
) -> dict[int, tuple[int, int]]:
    merged = dict(before)
    for at, (failures, failed) in new.items():
        known = merged.get(at, (0, 0))
        merged[at] = (known[0] + failures, known[1] + failed)
    return {at: merged[at] for at in sorted(merged) if at > since}


def has_regressed(row: GroupRow, resolved_at: int) -> bool:
    """Whether it was seen in a version after the one it was resolved in: one that was first seen later. Versions have
    no order of their own. Without versions, any later failure counts."""
    return any((seen.first if version else seen.last) > resolved_at for version, seen in row.document.versions.items())


def impact_of(heat: float, owners: int) -> float:
    """How much a group hurts now: `heat` is decayed up to now."""
    return round(heat * (1 + log2(max(owners, 1))), 3)


def rank_of(heat: float, owners: int, last_seen_at: int) -> float:
    """The order by impact at any time: the weights of all groups halve alike."""
    weight = heat * (1 + log2(max(owners, 1)))
    return last_seen_at / (HALF_LIFE.total_seconds() * MICROSECONDS) + log2(max(weight, LEAST_WEIGHT))


def is_new(first_seen_at: int, now: int) -> bool:
    return now - first_seen_at < NEW_FOR.total_seconds() * MICROSECONDS


def is_rising(hours: Mapping[int, tuple[int, int]], first_seen_at: int, now: int) -> bool:
    """Whether it fails more often than before. A group that did not exist before is new, not rising."""
    since = now - now % HOUR - HOUR
    began = max(since - round(RISING_BEFORE.total_seconds()) * MICROSECONDS, first_seen_at - first_seen_at % HOUR)
    if began >= since:
        return False
    recent = sum(failures for at, (failures, _) in hours.items() if at >= since)
    before = sum(failures for at, (failures, _) in hours.items() if began <= at < since)
    return recent >= RISING_LEAST and recent / (now - since) >= RISING_FACTOR * before / (since - began)


@dataclass(frozen=True, slots=True)
class FailureSample:
    """The last failure of a group. `message` is for users; `error` is the technical line. Secrets are masked."""

    job: str
    at: datetime
    attempt: int
    code: str
    error_class: str
    message: str
    error: str


@dataclass(frozen=True, slots=True)
class NameCount:
    """How many failures one kind, service, version or owner has, and when the first and the last was."""

    name: str
    failures: int
    first_seen_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Failures in the hour or the day that begins at `at`; `failed` of them were permanent."""

    at: datetime
    failures: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Similar failures. `failures` counts attempts, `jobs` the jobs that they belong to.

    Of these jobs, `failed` have ended with such a failure, and `recovered` have succeeded since. `cost` is that of the
    failed attempts. For one owner, all numbers are those of the owner's jobs. Lists hold the newest names; `more` says
    how many others were left out. `is_new`: it was first seen within a day. `is_rising`: it fails at least twice as
    often as in the day before. `owners` counts the owners of its jobs; `top_owners`, those with most failures, are only
    in the answer to one group.
    """

    id: str
    state: GroupState
    title: str
    kind: str
    code: str
    error_class: str
    impact: float
    first_seen_at: datetime
    last_seen_at: datetime
    failures: int
    jobs: int
    failed: int
    recovered: int
    cost: int
    owners: int
    sample: FailureSample
    is_new: bool = False
    is_rising: bool = False
    top_owners: tuple[NameCount, ...] = ()
    kinds: tuple[NameCount, ...] = ()
    services: tuple[NameCount, ...] = ()
    versions: tuple[NameCount, ...] = ()
    more: Mapping[str, int] = field(default_factory=dict)
    hours: tuple[FailureCount, ...] = ()
    days: tuple[FailureCount, ...] = ()
    decided_at: datetime | None = None
    decided_by: str | None = None
    reason: str | None = None
    ignored_until: datetime | None = None
    ignored_below: int | None = None
    """Ignored until it has this many failures."""
    regressed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GroupPage:
    """One page of failure groups. `cursor` is None on the last page. `reached_at` is how far the log was folded.

    `counts` says how many groups of the wanted kind and code are in each state; counting stops at 10,000.
    """

    groups: tuple[FailureGroup, ...]
    cursor: str | None
    reached_at: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


GROUP_ORDERS = ("impact", "last_seen", "first_seen", "failures")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """What a person decides about a group: ignore, resolve or reopen it."""

    id: str
    """Of the request."""
    group: str
    decision: GroupState
    until: timedelta | None = None
    growth: float | None = None
    """Ignored until it has this many times its failures."""
    actor: str | None = None
    reason: str | None = None


def document_json(document: GroupDocument) -> str:
    return msgspec.json.encode(document).decode()


decode_document = msgspec.json.Decoder(GroupDocument).decode
Values = dict[str, Any]
