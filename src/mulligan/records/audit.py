"""The audit: who changed what through the HTTP API, and every key that was created or revoked."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change. It is written before the change is made; `status` and `ended_at` are added afterwards.

    `key` is the public id of the caller's key, `owner` that of its owner; both are None for a command on the server.
    `status` is the HTTP status of the answer; None: the change is under way, or its process died, and the event log
    tells whether it was made.
    """

    id: str
    at: datetime
    actor: str
    action: str
    """The route, such as `POST /jobs/{job_id}/retry`; or the command."""
    target: str | None = None
    key: str | None = None
    owner: str | None = None
    request_id: str | None = None
    ip: str | None = None
    before_hash: str | None = None
    """SHA-256 of the document of the target, read just before the change; None if the change has no target yet."""
    after_hash: str | None = None
    """SHA-256 of the body of the answer, which for most changes is the document of the target; None if it failed."""
    status: int | None = None
    ended_at: datetime | None = None
