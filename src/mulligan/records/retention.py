"""Retention: how long jobs that are over are kept, and the records of clearing them away."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.lifecycle import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Jobs in this final state are kept for `age`, and at most the newest `count`; None: no limit of that sort."""

    state: State
    age: timedelta | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Pile:
    """How many jobs that are over are alike. Those that are held still keep others with their dedupe key
    out, or belong to a batch that is not over."""

    kind: str
    state: State
    code: str | None
    is_held: bool
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeRequest:
    """To clear these jobs away by hand. `id` is the caller's; `about` says in words which jobs were meant."""

    id: str
    jobs: Sequence[str]
    before: datetime
    about: str
    actor: str | None = None
    reason: str | None = None
