"""A batch: a group of jobs with one outcome."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from mulligan.records.document import Shape
from mulligan.records.job import FollowUp


class BatchState(StrEnum):
    DRAFT = "draft"
    PROCESSING = "processing"
    READY = "ready"
    PARTIAL = "partial"
    FAILED = "failed"
    EXPIRED = "expired"

    @property
    def is_settled(self) -> bool:
        """Every member has ended. The retry of a member reopens the batch."""
        return self in (BatchState.READY, BatchState.PARTIAL, BatchState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A draft as the client passes it to the store."""

    id: str
    name: str
    owner: str = ""
    success_at: float = 1.0
    abort_above: float | None = None
    expires_in: timedelta | None = None
    on_settled: FollowUp | None = None


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """A snapshot of one durable record.

    `generation` grows when a retry reopens a settled batch. `success_at` is the fraction of members that must succeed
    for `ready`. When the fraction of failed members exceeds `abort_above`, members that are not running are cancelled.
    """

    _shape: ClassVar = Shape(adds=("finished", "left"))

    id: str
    name: str
    owner: str
    state: BatchState
    generation: int
    total: int
    succeeded: int
    failed: int
    cancelled: int
    success_at: float
    abort_above: float | None
    created_at: datetime
    published_at: datetime | None
    settled_at: datetime | None
    aborted_at: datetime | None
    expires_at: datetime | None

    @property
    def finished(self) -> int:
        return self.succeeded + self.failed + self.cancelled

    @property
    def left(self) -> int:
        """Members that have not ended yet."""
        return self.total - self.finished


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRetry:
    """A request to retry failed or cancelled members, all in one transaction. `id` is the caller's.

    `asked` are the members whose task has a precondition.
    """

    id: str
    batch: str
    jobs: tuple[str, ...]
    asked: tuple[str, ...] = ()
    owner: str | None = None
    actor: str | None = None
    reason: str | None = None
