"""A batch: jobs that succeed or fail together in the eyes of their owner, and what its counts mean."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

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
        """Every member is over; a retry of one can open it again."""
        return self in (BatchState.READY, BatchState.PARTIAL, BatchState.FAILED)


class BatchStep(StrEnum):
    """What a batch has to do next, by its counts."""

    SETTLE = "settle"
    ABORT = "abort"
    REOPEN = "reopen"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A draft as the client hands it to the store."""

    id: str
    name: str
    owner: str = ""
    success_at: float = 1.0
    abort_above: float | None = None
    expires_in: timedelta | None = None
    on_settled: FollowUp | None = None


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """One durable record. A snapshot: ask again to see what happened since.

    `generation` grows when a retry opens a batch that was settled. `success_at` is the share of members that must
    succeed for `ready`; above `abort_above`, a share of failed ones, members that are not running are cancelled.
    """

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
        """Members that are not over yet."""
        return self.total - self.finished


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRetry:
    """To start failed or cancelled members again, all in one transaction. `id` is the caller's."""

    id: str
    batch: str
    jobs: tuple[str, ...]
    owner: str | None = None
    actor: str | None = None
    reason: str | None = None


def outcome(batch: BatchRecord) -> BatchState:
    """What a batch whose members are all over has become. One without members has nothing left to do: ready."""
    # Divided, not multiplied: 7 of 100 is 0.07 to the last bit, but 0.07 * 100 is more than 7.
    if batch.total == 0 or batch.succeeded / batch.total >= batch.success_at:
        return BatchState.READY
    return BatchState.PARTIAL if batch.succeeded else BatchState.FAILED


def next_step(batch: BatchRecord, now: datetime) -> BatchStep | None:
    """What its counts ask for. Members of a draft wait; what is expired opens no more."""
    if batch.state is BatchState.PROCESSING:
        if batch.left <= 0:
            return BatchStep.SETTLE
        return BatchStep.ABORT if batch.aborted_at is None and fails_too_often(batch) else None
    if batch.state is BatchState.DRAFT or batch.left <= 0:
        return None
    return BatchStep.REFUSE if takes_none_back(batch, now) else BatchStep.REOPEN


def takes_none_back(batch: BatchRecord, now: datetime) -> bool:
    """It is settled and its date has passed, whether or not somebody has come by to say so."""
    if batch.state is BatchState.EXPIRED:
        return True
    return batch.state.is_settled and batch.expires_at is not None and batch.expires_at <= now


def fails_too_often(batch: BatchRecord) -> bool:
    return batch.abort_above is not None and batch.failed / batch.total > batch.abort_above
