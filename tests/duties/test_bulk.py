"""Bulk operations: many jobs cancelled, snoozed or run by one durable operation."""

from collections.abc import Iterator
from typing import Any

import pytest

from mulligan import App, FinalError, Job, JobFilter, NotAllowed, RetryPolicy, State
from mulligan.errors import BadArgument, BadFilter, RequestIdUsed
from mulligan.records.redrive import RedriveState
from mulligan.settings import Settings
from mulligan.testing import sandbox
from mulligan.testing.sandbox import Sandbox


@pytest.fixture
def app() -> Iterator[App]:
    app = App(settings=Settings(database_url="sqlite:///:memory:"))

    def may(job: Job[Any]) -> None:
        if job.owner == "blocked":
            raise NotAllowed("the source is gone")

    @app.task(retry=RetryPolicy(1), can_retry=may)
    def send(number: int) -> int:
        if number < 0:
            raise FinalError("no")
        return number

    yield app
    app.close()


@pytest.fixture
def box(app: App) -> Iterator[Sandbox]:
    with sandbox(app) as box:
        yield box


def later(app: App, number: int, **options: Any) -> list[str]:
    """Jobs that wait for tomorrow."""
    send = app.tasks["send"].options(delay="1d", **options)
    return [job.id for job in app.enqueue_many([send.bind(n) for n in range(number)])]


def states(app: App, ids: list[str]) -> dict[State, int]:
    found = [app.job(job_id).state for job_id in ids]
    return {state: found.count(state) for state in State if state in found}


def test_all_jobs_of_a_filter_are_cancelled_at_the_rate(app: App, box: Sandbox) -> None:
    ids, others = later(app, 25, owner="ann"), later(app, 3)
    begun = app.bulk("cancel", JobFilter(owner="ann"), rate="10/s", actor="bob", reason="wrong input")
    assert (begun.verb, begun.state, begun.matched, begun.canary) == ("cancel", RedriveState.RUNNING, 25, 0)
    box.run()
    assert app.redrive_status(begun.id).retried == 10
    box.advance("3s")
    done = app.redrive_status(begun.id)
    assert (done.state, done.retried, done.skipped) == (RedriveState.DONE, 25, {})
    assert (states(app, ids), states(app, others)) == ({State.CANCELLED: 25}, {State.WAITING: 3})
    event = app.events(ids[0])[-1]
    assert (event.type, event.actor, event.data) == (
        "job.cancelled",
        "bob",
        {"reason": "wrong input", "redrive": begun.id},
    )


def test_each_job_that_a_bulk_operation_cancels_is_followed_by_one(app: App, box: Sandbox) -> None:
    tell = app.task("tell")(lambda job_id: job_id)
    followed = app.task("followed", on_cancelled=tell)(lambda: None)
    ids = [followed.options(owner="ann", delay="1d").enqueue().id for _ in range(25)]
    plain = later(app, 5, owner="ann")
    app.cancel(ids[0])
    begun = app.bulk("cancel", JobFilter(owner="ann"), rate="10/s")
    box.advance("5s")
    assert app.redrive_status(begun.id).retried == 29
    assert states(app, ids + plain) == {State.CANCELLED: 30}
    following = app.jobs(JobFilter(kind="tell"), limit=100).jobs
    assert sorted(job.result for job in following) == sorted(ids)
    assert {job.owner for job in following} == {"ann"}


def test_marked_jobs_are_snoozed(app: App, box: Sandbox) -> None:
    ids = later(app, 5)
    begun = app.bulk("snooze", ids=ids[:2], delay="3d")
    box.run()
    now = app.store.now()
    assert app.redrive_status(begun.id).state is RedriveState.DONE
    assert [(app.job(job_id).due_at - now).days >= 2 for job_id in ids] == [True, True, False, False, False]


def test_waiting_jobs_are_run_now_and_refused_ones_are_skipped(app: App, box: Sandbox) -> None:
    ids, blocked = later(app, 4), later(app, 2, owner="blocked")
    begun = app.bulk("run_now", JobFilter(kind="send"))
    box.run()
    done = app.redrive_status(begun.id)
    assert (done.state, done.retried, done.skipped) == (RedriveState.DONE, 4, {"not allowed": 2})
    assert (states(app, ids), states(app, blocked)) == ({State.SUCCEEDED: 4}, {State.WAITING: 2})


def test_jobs_that_are_over_are_run_again_only_if_asked_for(app: App, box: Sandbox) -> None:
    failed = app.tasks["send"].enqueue(-1)
    box.run()
    assert app.bulk("run_now", JobFilter(kind="send"), dry_run=True).matched == 0
    assert app.bulk("run_now", JobFilter(state="failed"), dry_run=True).matched == 1
    assert app.bulk("run_now", ids=[failed.id], dry_run=True).matched == 1


def test_jobs_that_come_later_or_have_ended_are_left_alone(app: App, box: Sandbox) -> None:
    first = later(app, 3)
    begun = app.bulk("cancel", JobFilter(kind="send"))
    box.advance("1s")
    second = later(app, 2)
    app.cancel(first[0]) if app.job(first[0]).state is State.WAITING else None
    box.advance("5s")
    assert app.redrive_status(begun.id).state is RedriveState.DONE
    assert states(app, second) == {State.WAITING: 2}


def test_a_dry_run_changes_nothing(app: App, box: Sandbox) -> None:
    ids = later(app, 3)
    planned = app.bulk("cancel", ids=ids, dry_run=True)
    box.advance("5s")
    assert (planned.id, planned.matched, app.redrives()) == ("", 3, [])
    assert states(app, ids) == {State.WAITING: 3}


def test_a_repeated_request_returns_the_same_operation(app: App, box: Sandbox) -> None:
    ids = later(app, 3)
    first = app.bulk("cancel", ids=ids, request_id="r1")
    assert app.bulk("cancel", ids=ids, request_id="r1").id == first.id
    with pytest.raises(RequestIdUsed):
        app.bulk("snooze", ids=ids, delay="1h", request_id="r1")
    box.run()
    assert app.redrive_status(first.id).state is RedriveState.DONE


def test_what_cannot_work_is_refused(app: App) -> None:
    with pytest.raises(BadArgument, match="ids"):
        app.bulk("cancel")
    with pytest.raises(BadArgument, match="verb"):
        app.bulk("retry", JobFilter())
    with pytest.raises(BadArgument, match="delay"):
        app.bulk("snooze", JobFilter())
    with pytest.raises(BadArgument, match="delay"):
        app.bulk("cancel", JobFilter(), delay="1h")
    with pytest.raises(BadFilter, match="waiting, queued"):
        app.bulk("snooze", JobFilter(state="failed"), delay="1h")
