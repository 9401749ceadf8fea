"""Incoming hooks: addresses that a partner calls to have failed jobs retried."""

from dataclasses import dataclass, field
from datetime import datetime

MOST_HOOKS_PER_OWNER = 20
MOST_HOOKS_OF_ADMINISTRATORS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingHook:
    """A signed call of `POST /hooks/{id}` retries the failed jobs of the group or the batch, as a redrive with its
    default rate and canaries. `owner` is None for the jobs of all owners."""

    id: str
    name: str
    owner: str | None
    group: str | None
    batch: str | None
    created_at: datetime
    created_by: str | None = None
    called_at: datetime | None = None
    """When it was last called with a valid signature."""
    _secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedHook:
    """A new hook. `secret` signs the calls; it is shown this once."""

    hook: IncomingHook
    secret: str
