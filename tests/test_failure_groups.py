"""Failure groups by the verbs of the app."""

from datetime import timedelta

import pytest

from mulligan import App
from mulligan.errors import BadArgument, GroupNotFound


def test_a_retry_of_a_group_that_does_not_exist_starts_no_redrive() -> None:
    with App("sqlite:///:memory:") as app:
        with pytest.raises(GroupNotFound):
            app.retry_failure("0123456789ab")
        assert list(app.redrives()) == []


@pytest.mark.parametrize("step", ["30s", "0s", "90s"])
def test_a_trend_has_steps_of_whole_minutes(step: str) -> None:
    with App("sqlite:///:memory:") as app, pytest.raises(BadArgument, match="a whole number of minutes"):
        app.failure_trend(step=step)


def test_a_trend_has_a_limited_number_of_steps() -> None:
    with App("sqlite:///:memory:") as app:
        assert app.failure_trend().points == ()
        now = app.store.now()
        with pytest.raises(BadArgument, match=r"at most 2,000 steps before the end"):
            app.failure_trend(step="1m", since=now - timedelta(days=2))
