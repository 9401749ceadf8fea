"""Failure groups by the verbs of the app."""

import pytest

from mulligan import App
from mulligan.errors import GroupNotFound


def test_a_retry_of_a_group_that_does_not_exist_starts_no_redrive() -> None:
    with App("sqlite:///:memory:") as app:
        with pytest.raises(GroupNotFound):
            app.retry_failure("0123456789ab")
        assert list(app.redrives()) == []
