"""Intake: what an app refuses while a person has paused it, and what goes on."""

from pathlib import Path
from typing import Any

import pytest

from mulligan import App, FinalError, IntakePaused, JobFilter, Owner, RetryPolicy, Service, State, TooManyJobs
from mulligan.errors import BadArgument, UnknownIntake
from mulligan.testing import sandbox


def shop() -> tuple[App, Any, Any]:
    app = App("sqlite:///:memory:")

    @app.task(queue="mail")
    def tell(job_id: str) -> None: ...

    @app.cron("* * * * *")
    @app.task(retry=RetryPolicy(1), on_failed=tell)
    def sweep() -> None:
        raise FinalError("no")

    return app, sweep, tell


def test_clients_are_refused_and_the_rest_goes_on() -> None:
    app, sweep, tell = shop()
    with sandbox(app) as box:
        before = sweep.enqueue()
        app.pause(intake="*", reason="maintenance", actor="ann")
        with pytest.raises(IntakePaused, match="until the intake is resumed, because maintenance"):
            sweep.enqueue()
        with pytest.raises(IntakePaused):
            app.enqueue_many([tell.bind("x"), sweep.bind()])
        with pytest.raises(IntakePaused):
            app.batch("import").add(sweep.bind())
        box.advance("90s")
        kinds = [job.kind for job in app.jobs().jobs]
        assert "tell" in kinds, "follow-ups are stored"
        assert kinds.count("sweep") >= 2, "schedules tick"
        assert app.job(before.id).state is State.FAILED
        assert app.retry(before.id).state is State.QUEUED
        assert app.run_schedule("sweep").kind == "sweep"
        app.redrive(JobFilter(kind="sweep"))
        app.resume(intake="*")
        assert sweep.enqueue().state is State.QUEUED


def test_the_intake_of_one_task_or_queue_is_paused() -> None:
    app, sweep, tell = shop()
    with sandbox(app):
        app.pause("1h", intake="mail")
        sweep.enqueue()
        with pytest.raises(IntakePaused) as refused:
            tell.enqueue("x")
        assert (refused.value.name, refused.value.until is not None) == ("mail", True)
        with pytest.raises(IntakePaused):
            sweep.options(queue="mail").enqueue()
        assert [(pause.what, pause.name) for pause in app.pauses()] == [("intake", "mail")]
        assert app.blocked_by(app.jobs().jobs) == {}, "jobs that were accepted run"


def test_an_unknown_name_is_refused() -> None:
    app, _, _ = shop()
    with sandbox(app):
        with pytest.raises(UnknownIntake, match="no task or queue is named 'mial'; did you mean 'mail'"):
            app.pause(intake="mial")
        with pytest.raises(BadArgument):
            app.pause(intake="*", queue="mail")


async def healthy() -> bool:
    return True


def test_the_probes_of_services_are_not_refused() -> None:
    app = App("sqlite:///:memory:", services=[Service("gateway", probe=healthy, cooldown="1s")])

    @app.task(service="gateway")
    def call() -> None: ...

    with sandbox(app) as box:
        call.enqueue()
        app.pause(intake="*")
        app.service("gateway").open()
        app.service("gateway").auto()
        box.advance("1m")
        assert app.jobs().jobs[-1].state is State.SUCCEEDED


def test_an_owner_has_no_more_unfinished_jobs_than_the_policies_file_says(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("owners: {acme: {max_live: 2}}")
    app = App("sqlite:///:memory:", policies=file, owners=[Owner("acme", max_live=9)])

    @app.task
    def tell(job_id: str) -> None: ...

    @app.task(retry=RetryPolicy(1), on_failed=tell)
    def send() -> None:
        raise FinalError("no")

    with sandbox(app) as box:
        acme = send.options(owner="acme")
        acme.enqueue()
        with pytest.raises(TooManyJobs):
            app.enqueue_many([acme.bind(), acme.bind()])
        acme.enqueue()
        with pytest.raises(TooManyJobs):
            acme.enqueue()
        box.run()
        assert [job.kind for job in app.jobs(JobFilter(owner="acme")).jobs].count("tell") == 2
        acme.enqueue()


def test_a_follow_up_counts_as_an_unfinished_job() -> None:
    app = App("sqlite:///:memory:", owners=[Owner("acme", max_live=1)])

    @app.task(queue="mail")
    def tell(job_id: str) -> None: ...

    @app.task(retry=RetryPolicy(1), on_failed=tell)
    def send() -> None:
        raise FinalError("no")

    with sandbox(app) as box:
        app.pause(queue="mail")
        send.options(owner="acme").enqueue()
        box.run()
        with pytest.raises(TooManyJobs) as refused:
            send.options(owner="acme").enqueue()
        assert refused.value.live == 1
