"""What counts mean: the outcome of a batch, and what it has to do next."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.batch_outcome import BatchAction, next_action, outcome

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROCESSING, READY, PARTIAL, FAILED = BatchState.PROCESSING, BatchState.READY, BatchState.PARTIAL, BatchState.FAILED


def batch(**fields: Any) -> BatchRecord:
    given = {"id": "b", "name": "n", "owner": "", "state": PROCESSING, "generation": 1, "total": 10, "succeeded": 0}
    given |= {"failed": 0, "cancelled": 0, "success_at": 1.0, "abort_above": None, "created_at": NOW}
    times = dict.fromkeys(("published_at", "settled_at", "aborted_at", "expires_at"))
    return BatchRecord(**{**given, **times, **fields})


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"total": 0}, READY),
        ({"succeeded": 10}, READY),
        ({"succeeded": 9, "failed": 1}, PARTIAL),
        ({"succeeded": 9, "cancelled": 1}, PARTIAL),
        ({"failed": 10}, FAILED),
        ({"cancelled": 10}, FAILED),
        ({"succeeded": 9, "failed": 1, "success_at": 0.9}, READY),
        ({"succeeded": 8, "failed": 2, "success_at": 0.9}, PARTIAL),
        # 0.07 * 100 is more than 7, and 0.57 * 100 less than 57.
        ({"total": 100, "succeeded": 7, "failed": 93, "success_at": 0.07}, READY),
        ({"total": 100, "succeeded": 57, "failed": 43, "success_at": 0.57}, READY),
    ],
)
def test_a_batch_is_what_its_members_became(counts: dict[str, Any], state: BatchState) -> None:
    assert outcome(batch(**counts)) is state


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"succeeded": 9}, None),
        ({"succeeded": 9, "failed": 1}, BatchAction.SETTLE),
        ({"total": 0}, BatchAction.SETTLE),
        ({"failed": 5, "abort_above": 0.5}, None),
        ({"failed": 6, "abort_above": 0.5}, BatchAction.ABORT),
        ({"failed": 6, "abort_above": 0.5, "aborted_at": NOW}, None),
        ({"failed": 6, "cancelled": 4, "abort_above": 0.5}, BatchAction.SETTLE),
        ({"state": BatchState.DRAFT, "total": 0}, None),
        ({"state": BatchState.DRAFT, "failed": 6, "abort_above": 0.5}, None),
        ({"state": READY, "succeeded": 10}, None),
        ({"state": PARTIAL, "succeeded": 9}, BatchAction.REOPEN),
        ({"state": READY, "succeeded": 9}, BatchAction.REOPEN),
        ({"state": FAILED, "failed": 9, "expires_at": NOW + timedelta(seconds=1)}, BatchAction.REOPEN),
        ({"state": FAILED, "failed": 9, "expires_at": NOW}, BatchAction.REFUSE),
        ({"state": BatchState.EXPIRED, "failed": 9}, BatchAction.REFUSE),
        ({"state": BatchState.EXPIRED, "failed": 10}, None),
    ],
)
def test_its_counts_say_what_comes_next(fields: dict[str, Any], step: BatchAction | None) -> None:
    assert next_action(batch(**fields), NOW) is step
