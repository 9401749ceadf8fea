"""The options of one enqueue, and their checks."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from mulligan.errors import InvalidArguments
from mulligan.records.batch import BatchRecord
from mulligan.records.limit import EVERYBODY
from mulligan.values.clock import is_id
from mulligan.values.text import LONGEST_NAME, encodes, is_name, name_allowed

LONGEST_KEY = 500
MOST_TAGS = 50
SCOPES = ("active", "succeeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """How one job is to be enqueued; what is None is left to the task."""

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
    id: str | None = None
    connection: Any = field(default=None, repr=False, compare=False)


def check_id(kind: str, given: UUID | str) -> str:
    if given == "":
        raise InvalidArguments(kind, "an id must not be empty: every such job would be the same one")
    text = str(given) if isinstance(given, UUID) else check_text(kind, "id", given, LONGEST_KEY)
    return text.lower() if is_id(text.lower()) else text


def batch_id(kind: str, batch: BatchRecord | str | None) -> str | None:
    if batch is None:
        return None
    return check_text(kind, "batch", batch.id if isinstance(batch, BatchRecord) else batch, LONGEST_NAME)


def check_owner(kind: str, owner: str) -> str:
    if owner == EVERYBODY:
        raise InvalidArguments(kind, "owner is '*', which stands for every owner; a job has one, or none")
    return owner


def owner_in(kind: str, batch: BatchRecord | str, owner: str) -> str:
    """A batch has one owner, and its members have the same."""
    if not isinstance(batch, BatchRecord) or owner == batch.owner:
        return owner
    if owner:
        raise InvalidArguments(kind, f"owner is {owner!r}, but the batch belongs to {batch.owner!r}")
    return batch.owner


def check_label(kind: str, what: str, name: str) -> str:
    if not is_name(name):
        raise InvalidArguments(kind, f"{what} must be {name_allowed()}, not {name!r:.300}")
    return name


def check_text(kind: str, what: str, value: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest or "\0" in value or not encodes(value):
        allowed = f"text of at most {longest} characters that a database can hold (no NUL, no lone surrogate)"
        raise InvalidArguments(kind, f"{what} must be {allowed}, not {value!r:.300}")
    return value


def check_key(kind: str, dedupe: str) -> str:
    if dedupe == "":
        raise InvalidArguments(kind, "a dedupe key must not be empty: every such job would be the same one")
    return check_text(kind, "dedupe", dedupe, LONGEST_KEY)


def check_scope(kind: str, scope: str) -> str:
    if scope not in SCOPES:
        raise InvalidArguments(kind, f"dedupe_scope must be one of {', '.join(map(repr, SCOPES))}, not {scope!r}")
    return scope


def check_moment(kind: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (AttributeError, OverflowError):
        pass
    raise InvalidArguments(kind, f"submitted_at must be a datetime with a time zone, not {moment!r:.200}")


def check_tags(kind: str, tags: Iterable[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InvalidArguments(kind, f"tags must be a list of texts, not the text {tags!r:.300}")
    found = tuple(check_label(kind, "each tag", tag) for tag in tags)
    if len(found) > MOST_TAGS:
        raise InvalidArguments(kind, f"at most {MOST_TAGS} tags, not {len(found)}")
    return found
