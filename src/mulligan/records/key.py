"""Keys of the HTTP API: what each allows, and to whom it belongs."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Scope(StrEnum):
    """What a key allows. A route needs one of them."""

    JOBS_READ = "jobs:read"
    JOBS_ENQUEUE = "jobs:enqueue"
    JOBS_RETRY = "jobs:retry"
    """Retry, run now, redrive, and the same for batches."""
    JOBS_CANCEL = "jobs:cancel"
    """Cancel, snooze, expire a result, purge."""
    ARGS_REVEAL = "args:reveal"
    """See arguments and results unmasked."""
    WEBHOOKS_MANAGE = "webhooks:manage"
    KEYS_MANAGE = "keys:manage"
    OPERATE = "operate"
    """Pauses, services, duties, schedules, policies. Only an administrator's key can have it."""


ADMIN_ONLY = frozenset({Scope.OPERATE})
ADMIN_SCOPES = tuple(Scope)
OWNER_SCOPES = (Scope.JOBS_READ, Scope.JOBS_ENQUEUE, Scope.JOBS_RETRY, Scope.JOBS_CANCEL)
"""What a key of an owner allows if nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """`id` is the public part. `owner` is None for an administrator. The secret part is not stored, only its hash."""

    id: str
    owner: str | None
    name: str
    scopes: tuple[Scope, ...]
    last_four: str
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """To the minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey:
    """A new key with its token. Only the caller that created it ever sees the token."""

    key: Key
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to store. `digest` is the hash of its token, `request` the id of the request that creates it."""

    id: str
    owner: str | None
    name: str
    scopes: tuple[Scope, ...]
    digest: str
    last_four: str
    created_by: str | None
    expires_in: timedelta | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key with the hash of its token, and the time at which it was read."""

    key: Key
    digest: str
    now: datetime

    @property
    def is_usable(self) -> bool:
        expires = self.key.expires_at
        return self.key.revoked_at is None and (expires is None or expires > self.now)
