"""The outcome of a batch, computed from the counts of its members."""

from datetime import datetime
from enum import StrEnum

from mulligan.records.batch import BatchRecord, BatchState


class BatchAction(StrEnum):
    """What to do with a batch next, by its counts."""

    SETTLE = "settle"
    ABORT = "abort"
    REOPEN = "reopen"
    REFUSE = "refuse"


def outcome(batch: BatchRecord) -> BatchState:
    """The state of a batch whose members have all ended. A batch without members is ready."""
    # Divide, do not multiply: 7 / 100 equals 0.07 exactly, but 0.07 * 100 is greater than 7.
    if batch.total == 0 or batch.succeeded / batch.total >= batch.success_at:
        return BatchState.READY
    return BatchState.PARTIAL if batch.succeeded else BatchState.FAILED


def next_action(batch: BatchRecord, now: datetime) -> BatchAction | None:
    """What the counts require. Members of a draft wait; an expired batch is not reopened."""
    if batch.state is BatchState.PROCESSING:
        if batch.left <= 0:
            return BatchAction.SETTLE
        return BatchAction.ABORT if batch.aborted_at is None and fails_too_often(batch) else None
    if batch.state is BatchState.DRAFT or batch.left <= 0:
        return None
    return BatchAction.REFUSE if has_expired(batch, now) else BatchAction.REOPEN


def has_expired(batch: BatchRecord, now: datetime) -> bool:
    """Whether the batch is settled and past its expiry date, even if it is not marked as expired yet."""
    if batch.state is BatchState.EXPIRED:
        return True
    return batch.state.is_settled and batch.expires_at is not None and batch.expires_at <= now


def fails_too_often(batch: BatchRecord) -> bool:
    return batch.abort_above is not None and batch.failed / batch.total > batch.abort_above
