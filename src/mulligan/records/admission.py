"""Admission of requests: their rate, their marks while they are in flight, and their entries in the audit."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.records.rate import Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAuditEntry:
    id: str
    actor: str
    action: str
    target: str | None = None
    key: str | None = None
    owner: str | None = None
    request_id: str | None = None
    ip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """One request that wants to be admitted. `subject` is charged one token of its bucket, which `rate` fills.

    `change` is stored in the audit. With `is_marked`, its request id is a mark: the change must not be made twice at
    once. The mark is held by `change.id` until the request ends, or for two minutes if its process dies. `used_key` is
    a key whose time of last use is out of date.
    """

    subject: str
    rate: Rate
    change: NewAuditEntry | None = None
    is_marked: bool = False
    used_key: str | None = None

    @property
    def mark(self) -> str | None:
        return self.change.request_id if self.is_marked and self.change is not None else None


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A change that has ended: its entry in the audit, its mark, its status, and the hashes of the entry. `request` is
    the digest of a request that succeeded: from now on its mark stands for this request."""

    id: str
    mark: str | None
    status: int | None
    target: str | None = None
    before_hash: str | None = None
    after_hash: str | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """`first_at` is when the first request with the mark came: for 24 hours the same, whatever happens to it. `request`
    is the digest of the one that succeeded, if one did."""

    first_at: datetime | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class RateExceeded:
    """Nothing was stored. There is a token again after `retry_after`."""

    retry_after: timedelta


@dataclass(frozen=True, slots=True)
class InFlight:
    """Another request with the same mark has not ended. It was charged, and nothing else was stored."""


Admission = Admitted | RateExceeded | InFlight
