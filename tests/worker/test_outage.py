"""The log of a store that does not answer."""

import logging
from datetime import timedelta

import pytest

from mulligan.errors import StoreUnavailable
from mulligan.testing.virtual import VirtualClock
from mulligan.worker.store_calls import STEADY_SECONDS, OutageLog

AWAY = StoreUnavailable("it is locked")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def outage(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> OutageLog:
    caplog.set_level(logging.INFO, "mulligan.worker")
    return OutageLog(clock)


def test_an_outage_is_logged_when_it_begins_and_when_nothing_failed_for_a_while(
    outage: OutageLog, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        outage.failed("claim", AWAY)
    outage.answered("claim")
    assert caplog.messages == ["the store does not answer, trying again: it is locked"]
    clock.advance(timedelta(seconds=STEADY_SECONDS))
    outage.answered("beat")
    outage.answered("claim")
    assert caplog.messages[1:] == ["the store answers again"]
    outage.failed("beat", AWAY)
    assert len(caplog.messages) == 3, "a new outage is logged again"


def test_an_outage_of_some_calls_is_not_over_because_others_are_answered(
    outage: OutageLog, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as reads of a SQLite file whose lock is held."""
    for _ in range(20):
        outage.failed("claim", AWAY)
        clock.advance(timedelta(seconds=15))
        outage.answered("upkeep")
    assert len(caplog.messages) == 1
    outage.answered("claim")
    assert caplog.messages[1:] == ["the store answers again"]
