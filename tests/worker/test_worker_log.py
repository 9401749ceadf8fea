"""A worker's log lines: the level first, then the sentence."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan.failure.decision import Cancel, Decision, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.verdict import Failure, Ledger, Verdict
from mulligan.records.job import Fence, Lease
from mulligan.store.messages import Outcome
from mulligan.worker.log import log_decision

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = timedelta(seconds=90)
WHAT = Verdict(code="BUSY", error_class=ErrorClass.RETRYABLE, failure=Failure(type="OSError", message="no"))
MISFIT = Verdict(code="VERSION_MISMATCH", error_class=ErrorClass.RETRYABLE, ledger=Ledger.MISFITS, detail="x")


def outcome(decision: Decision, attempt: int = 2) -> Outcome:
    def load() -> Any:
        raise AssertionError("the record is not needed")

    lease = Lease(Fence("j1", attempt, "w", 1), "send", "", "{}", NOW, NOW, load)
    return Outcome(lease, decision, 0.5)


@pytest.mark.parametrize(
    ("decision", "level", "said"),
    [
        (Succeed(None), logging.INFO, "job j1 (send) succeeded at attempt 2"),
        (Fail(WHAT, {"because": "enough"}), logging.WARNING, "failed for good with BUSY (OSError: no): enough"),
        (Retry(LATER, WHAT, {}), logging.INFO, "failed at attempt 2 with BUSY (OSError: no), retried in 1m 30s"),
        (Postpone(LATER, MISFIT, {"misfit": 1}), logging.WARNING, "was not run: x; another worker may take it in 1m"),
        (Postpone(LATER, MISFIT, {"misfit": 2}), logging.INFO, "was not run: x; another worker may take it in 1m"),
        (Postpone(LATER, WHAT, {}), logging.INFO, "was snoozed"),
        (Park(LATER, LATER, WHAT, {"because": "b"}), logging.INFO, "with BUSY (OSError: no), b: no attempt is used up"),
        (Park(LATER, LATER, WHAT, {}, is_held=True), logging.DEBUG, "no attempt is used up"),
        (
            Release({"crash": 1, "of": 3}, verdict=WHAT),
            logging.WARNING,
            "crashed its process with BUSY (OSError: no)",
        ),
        (Release({}), logging.INFO, "was released"),
        (Cancel({}), logging.INFO, "was cancelled"),
    ],
)
def test_each_decision_has_its_level_and_sentence(
    decision: Decision, level: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mulligan.worker")
    log_decision(outcome(decision))
    (record,) = caplog.records
    assert record.levelno == level
    assert said in record.getMessage()


def test_a_first_success_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mulligan.worker")
    log_decision(outcome(Succeed(None), attempt=1))
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]


def test_a_line_that_no_handler_wants_is_not_formatted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mulligan.worker")
    # Formatting it would raise.
    log_decision(outcome(Retry("soon", WHAT, {})))  # type: ignore[arg-type]
    assert caplog.records == []
