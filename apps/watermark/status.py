"""The words of campaigns and tokens, from what the engine says. There is no other record of a status."""

from enum import StrEnum

from mulligan import BatchState, State


class CampaignState(StrEnum):
    DRAFT = "DRAFT"
    PROCESSING = "PROCESSING"
    READY = "READY"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


class TokenStatus(StrEnum):
    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    ACTIVE = "ACTIVE"
    FAILED = "FAILED"
    CONSUMED = "CONSUMED"
    EXPIRED = "EXPIRED"


OF_BATCH = {
    BatchState.DRAFT: CampaignState.DRAFT,
    BatchState.PROCESSING: CampaignState.PROCESSING,
    BatchState.READY: CampaignState.READY,
    BatchState.PARTIAL: CampaignState.PARTIAL,
    BatchState.FAILED: CampaignState.FAILED,
    BatchState.EXPIRED: CampaignState.EXPIRED,
}
OF_JOB = {
    State.WAITING: TokenStatus.PENDING,
    State.QUEUED: TokenStatus.PENDING,
    State.RUNNING: TokenStatus.PROCESSING,
    State.SUCCEEDED: TokenStatus.ACTIVE,
    State.FAILED: TokenStatus.FAILED,
    # An operator cancelled it. For its owner it has no video, and can be retried.
    State.CANCELLED: TokenStatus.FAILED,
}


def token_status(state: State, *, is_expired: bool, is_consumed: bool) -> TokenStatus:
    """Expiry and downloads concern finished videos only."""
    status = OF_JOB[state]
    if status is not TokenStatus.ACTIVE:
        return status
    if is_expired:
        return TokenStatus.EXPIRED
    return TokenStatus.CONSUMED if is_consumed else status
