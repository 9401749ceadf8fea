"""What an app does about stuck jobs: by the code, the environment, and a manual run of the duty."""

from datetime import timedelta
from pathlib import Path

import pytest

from mulligan import App, State
from mulligan.errors import BadSetting
from mulligan.settings import load
from mulligan.store.messages import Claim
from mulligan.testing import sandbox


def test_the_environment_overrides_the_code() -> None:
    assert App("sqlite:///:memory:").settings.stuck == "report"
    assert App("sqlite:///:memory:", stuck="process").settings.stuck == "process"
    assert (
        load({"stuck": "process"}, environment={"MULLIGAN_STUCK": "Requeue"}, folder=Path("/nowhere")).stuck
        == "requeue"
    )


def test_any_other_word_is_refused() -> None:
    with pytest.raises(BadSetting, match="stuck is 'restart', but it must be one of report, process, requeue"):
        App("sqlite:///:memory:", stuck="restart")
    with pytest.raises(BadSetting, match="MULLIGAN_STUCK is 'restart'"):
        load(environment={"MULLIGAN_STUCK": "restart"}, folder=Path("/nowhere"))


@pytest.mark.parametrize(("stuck", "state", "failures"), [("report", State.WAITING, 1), ("requeue", State.QUEUED, 0)])
def test_a_manual_run_of_the_duty_does_as_the_app_says(stuck: str, state: State, failures: int) -> None:
    app = App("sqlite:///:memory:", stuck=stuck)

    @app.task
    def send() -> None: ...

    with sandbox(app) as box:
        job = send.enqueue()
        app.store.claim(Claim(incarnation="w", number=1, kinds=("send",), limit=1, lease=timedelta(days=1)))
        box._clock.advance(timedelta(hours=1))
        assert app.run_duty("reclaim", actor="ann").did == 1
        assert (app.job(job.id).state, app.job(job.id).failures) == (state, failures)
