"""Results that expire: the setting, the verb of the app, and `wait`."""

from datetime import timedelta

import pytest

from mulligan import App, ResultExpired, State
from mulligan.errors import RequestMismatch
from mulligan.settings import Settings
from mulligan.testing import sandbox


def test_results_end_before_their_jobs_and_a_caller_that_waits_gets_an_error() -> None:
    app = App(settings=Settings(database_url="sqlite:///:memory:", retention_results=timedelta(hours=1)))

    @app.task
    def convert(text: str) -> str:
        return text.upper()

    with sandbox(app) as box:
        job = convert.enqueue("a")
        box.run()
        assert app.wait(job) == "A"
        box.advance("2h")
        assert app.run_duty("prune").did == 1
        with pytest.raises(ResultExpired, match="succeeded, but its result expired at 2"):
            app.wait(job)
        found = app.job(job.id)
        assert (found.state, found.result) == (State.SUCCEEDED, None)
        assert app.explain(job.id).happened[-1].endswith(": Its result expired and was deleted.")
        assert app.explain(job.id).next[-1].startswith("Its result expired at ")


def test_results_are_kept_as_long_as_their_jobs_unless_asked() -> None:
    app = App("sqlite:///:memory:")
    convert = app.task("convert")(lambda: "A")
    with sandbox(app) as box:
        job = convert.enqueue()
        box.run()
        box.advance("6d")
        app.run_duty("prune")
        assert app.wait(job) == "A"
        assert app.expire_result(job.id, actor="ann", reason="private").result_expired_at == box.now
        assert app.explain(job.id).happened[-1].endswith(': Its result was deleted by ann (reason: "private").')
        first = app.expire_result(job.id, request_id="r")
        assert app.expire_result(job.id, request_id="r") == first
        with pytest.raises(RequestMismatch):
            app.expire_result(job.id, request_id="r", reason="another")
        with pytest.raises(ResultExpired) as expired:
            app.wait(job)
        assert (expired.value.job_id, expired.value.at) == (job.id, box.now)
