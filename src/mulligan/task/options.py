"""The options of one enqueue, and their checks. Each raises InvalidArguments with what is possible."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from mulligan.errors import InvalidArguments
from mulligan.records.batch import BatchRecord
from mulligan.records.limit import EVERY_OWNER
from mulligan.task.checks import MOST_COST
from mulligan.values.check import LONGEST_NAME, NAME, Requirement, integer, not_allowed, one_of, string
from mulligan.values.duration import Duration, parse
from mulligan.values.ids import is_id

LONGEST_KEY = 500
MOST_TAGS = 50
MOST_ATTEMPTS = 1_000_000
SCOPES = ("active", "succeeded")

_ID = _DEDUPE = string(LONGEST_KEY)
_BATCH = string(LONGEST_NAME)
_SCOPE = one_of(SCOPES)
_ATTEMPTS = integer(1, MOST_ATTEMPTS)
_COST = integer(0, MOST_COST)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """How one job is enqueued. None means the value of the task."""

    owner: str = ""
    queue: str | None = None
    priority: int | None = None
    delay: timedelta = timedelta(0)
    deadline: timedelta | None = None
    submitted_at: datetime | None = None
    dedupe: str | None = None
    dedupe_scope: str = "active"
    dedupe_for: timedelta | None = None
    tags: tuple[str, ...] = ()
    batch: str | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    cost: int | None = None
    id: str | None = None
    connection: Any = field(default=None, repr=False, compare=False)


def _require(kind: str, option: str, value: Any, requirement: Requirement, *, called: str | None = None) -> Any:
    if not requirement.fits(value):
        raise InvalidArguments(kind, not_allowed(called or option, value, requirement.allowed), option=option)
    return value


def check_id(kind: str, given: UUID | str) -> str:
    if given == "":
        raise InvalidArguments(kind, "an id must not be empty: every such job would be the same one", option="id")
    text = str(given) if isinstance(given, UUID) else str(_require(kind, "id", given, _ID))
    return text.lower() if is_id(text.lower()) else text


def batch_id(kind: str, batch: BatchRecord | str | None) -> str | None:
    if batch is None:
        return None
    return str(_require(kind, "batch", batch.id if isinstance(batch, BatchRecord) else batch, _BATCH))


def check_owner(kind: str, owner: str) -> str:
    if owner == EVERY_OWNER:
        raise InvalidArguments(
            kind, "owner is '*', which stands for every owner; a job has one, or none", option="owner"
        )
    return owner


def owner_in(kind: str, batch: BatchRecord | str, owner: str) -> str:
    """The owner of a batch's member, which is the batch's owner."""
    if not isinstance(batch, BatchRecord) or owner == batch.owner:
        return owner
    if owner:
        raise InvalidArguments(kind, f"owner is {owner!r}, but the batch belongs to {batch.owner!r}", option="owner")
    return batch.owner


def check_label(kind: str, option: str, name: str) -> str:
    return str(_require(kind, option, name, NAME))


def check_key(kind: str, dedupe: str) -> str:
    if dedupe == "":
        raise InvalidArguments(
            kind, "a dedupe key must not be empty: every such job would be the same one", option="dedupe"
        )
    return str(_require(kind, "dedupe", dedupe, _DEDUPE))


def check_scope(kind: str, scope: str) -> str:
    return str(_require(kind, "dedupe_scope", scope, _SCOPE))


def check_attempts(kind: str, number: int | None, *, at_most_once: bool) -> int | None:
    if number is None:
        return None
    if at_most_once and number != 1:
        raise InvalidArguments(
            kind, f"max_attempts is {number!r:.80}, but this task runs at most once", option="max_attempts"
        )
    return int(_require(kind, "max_attempts", number, _ATTEMPTS))


def check_length(kind: str, timeout: Duration | None) -> timedelta | None:
    length = None if timeout is None else parse(timeout)
    if length is not None and not length:
        raise InvalidArguments(
            kind, not_allowed("timeout", timeout, "greater than zero, such as '30s'"), option="timeout"
        )
    return length


def check_price(kind: str, cost: int | None) -> int | None:
    return None if cost is None else int(_require(kind, "cost", cost, _COST))


def check_moment(kind: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (AttributeError, OverflowError):
        pass
    raise InvalidArguments(
        kind, not_allowed("submitted_at", moment, "a datetime with a time zone"), option="submitted_at"
    )


def check_tags(kind: str, tags: Iterable[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InvalidArguments(kind, not_allowed("tags", tags, "a list of strings"), option="tags")
    found = tuple(str(_require(kind, "tags", tag, NAME, called="a tag")) for tag in tags)
    if len(found) > MOST_TAGS:
        raise InvalidArguments(kind, f"at most {MOST_TAGS} tags, not {len(found)}", option="tags")
    return found
