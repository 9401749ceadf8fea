"""Retention: how long ended jobs are kept, and the records of deleting them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.lifecycle import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Jobs in this final state are kept for `age`, and at most the newest `count` of them; None: no such limit."""

    state: State
    age: timedelta | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class EndedCount:
    """How many ended jobs have this kind, state and code. Jobs that are held still hold their dedupe key, or belong to
    a batch that has not ended."""

    kind: str
    state: State
    code: str | None
    is_held: bool
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeRequest:
    """A request to delete these jobs. `id` is the caller's; `about` describes the jobs in words."""

    id: str
    jobs: Sequence[str]
    before: datetime
    about: str
    actor: str | None = None
    reason: str | None = None
