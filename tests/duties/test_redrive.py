"""Redrives run at their rate, canaries first, once for each job, whichever worker runs them and whichever dies."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from conformance.bench import failing
from live import eventually, working
from mulligan import App, InsufficientCredits, JobFilter, NotAllowed, RetryPolicy, State
from mulligan.console.redrives import Redrives
from mulligan.duties.redrive import RunRedrives
from mulligan.errors import BadFilter, BadRate, RedriveNotFound, RequestIdUsed, StoreUnavailable
from mulligan.lifecycle import REDRIVE_FINISHED, REDRIVE_STARTED, REDRIVE_STOPPED
from mulligan.records.job import Job, NewJob
from mulligan.records.redrive import HOLD, PATIENCE, Redrive, RedriveState
from mulligan.settings import Settings
from mulligan.store.messages import Claim, Outcome
from mulligan.store.sqlite import SqliteStore
from mulligan.task.registry import Registry
from mulligan.testing import sandbox
from mulligan.testing.sandbox import Sandbox
from mulligan.testing.virtual import VirtualClock
from mulligan.values.clock import Ids

FAILED = JobFilter(state="failed")
LONG_AHEAD = datetime(2100, 1, 1, tzinfo=UTC)


class Outage:
    """A service that a task depends on."""

    def __init__(self) -> None:
        self.is_on = True
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        if self.is_on:
            raise ConnectionError("the gateway is down")


@pytest.fixture
def outage() -> Outage:
    return Outage()


@pytest.fixture
def app(outage: Outage) -> Iterator[App]:
    app = App(settings=Settings(database_url="sqlite:///:memory:"))

    def may(job: Job[Any]) -> None:
        if job.owner == "poor":
            raise InsufficientCredits(5, 1)
        if job.owner == "blocked":
            raise NotAllowed("the source is gone")

    @app.task(retry=RetryPolicy(1), can_retry=may)
    def send(number: int) -> int:
        outage.call()
        return number

    yield app
    app.close()


@pytest.fixture
def box(app: App) -> Iterator[Sandbox]:
    with sandbox(app) as box:
        yield box


def failed(app: App, box: Sandbox, number: int, **options: Any) -> list[str]:
    send = app.tasks["send"].options(**options)
    jobs = app.enqueue_many([send.bind(n) for n in range(number)])
    box.run()
    assert {app.job(job.id).state for job in jobs} == {State.FAILED}
    return [job.id for job in jobs]


def states(app: App, ids: list[str]) -> dict[State, int]:
    found = [app.job(job_id).state for job_id in ids]
    return {state: found.count(state) for state in State if state in found}


def test_after_an_outage_all_failed_jobs_are_retried_at_the_rate(app: App, box: Sandbox, outage: Outage) -> None:
    ids = failed(app, box, 120)
    box.advance("1h")
    outage.is_on = False
    begun = app.redrive(JobFilter(kind="send"), rate="10/s", actor="ann", reason="the gateway is back")
    assert (begun.state, begun.matched, begun.retried) == (RedriveState.CANARY, 120, 0)
    box.run()
    now = app.redrive_status(begun.id)
    assert (now.state, now.retried, now.succeeded) == (RedriveState.RUNNING, 10, 10)
    box.advance("5s")
    assert app.redrive_status(begun.id).retried == 60
    box.advance("10s")
    done = app.redrive_status(begun.id)
    assert (done.state, done.retried, done.skipped) == (RedriveState.DONE, 120, {})
    assert states(app, ids) == {State.SUCCEEDED: 120}
    types = [event.type for event in app.events(limit=1_000) if not event.job]
    assert types == [REDRIVE_STARTED, REDRIVE_FINISHED]
    told = app.explain(ids[0])
    assert f"as part of redrive {begun.id}" in " ".join(told.happened)


def test_a_redrive_into_an_outage_stops_with_its_canaries(app: App, box: Sandbox, outage: Outage) -> None:
    ids = failed(app, box, 50)
    before = outage.calls
    begun = app.redrive(FAILED)
    box.advance("1h")
    stopped = app.redrive_status(begun.id)
    assert (stopped.state, stopped.retried, stopped.failed_again) == (RedriveState.STOPPED, 5, 5)
    assert stopped.because == "5 of 5 canaries did not succeed (5 failed again); allowed are 50%"
    assert outage.calls == before + 5
    assert states(app, ids) == {State.FAILED: 50}
    (event,) = [event for event in app.events(limit=1000) if event.type == REDRIVE_STOPPED]
    assert event.data["because"] == stopped.because


def test_an_outage_that_begins_later_stops_it_too(app: App, box: Sandbox, outage: Outage) -> None:
    failed(app, box, 300)
    outage.is_on = False
    begun = app.redrive(FAILED, rate="10/s")
    box.advance("3s")
    outage.is_on = True
    box.advance("1m")
    stopped = app.redrive_status(begun.id)
    assert stopped.state is RedriveState.STOPPED and stopped.because is not None
    assert "of the last 50 did not succeed" in stopped.because
    assert stopped.retried < 100, "a look back of fifty, and what is under way"


def test_canaries_that_no_worker_runs_stop_it_after_a_quarter_of_an_hour(
    app: App, box: Sandbox, outage: Outage
) -> None:
    failed(app, box, 9)
    outage.is_on = False
    begun = app.redrive(FAILED)
    app.tick()
    assert app.redrive_status(begun.id).retried == 5
    # As if every worker that could run them were gone.
    box._clock.advance(PATIENCE)
    app.tick()
    stopped = app.redrive_status(begun.id)
    assert (stopped.state, stopped.silent) == (RedriveState.STOPPED, 5)
    assert stopped.because == "5 of 5 canaries did not succeed (5 did not end within 15m); allowed are 50%"


def test_without_canaries_it_runs_at_once(app: App, box: Sandbox, outage: Outage) -> None:
    failed(app, box, 9)
    outage.is_on = False
    begun = app.redrive(FAILED, canary=0)
    assert begun.state is RedriveState.RUNNING
    box.run()
    assert app.redrive_status(begun.id).state is RedriveState.DONE


def test_jobs_that_their_task_refuses_are_skipped_and_counted_by_reason(app: App, box: Sandbox, outage: Outage) -> None:
    ids = [*failed(app, box, 3, owner="poor"), *failed(app, box, 2, owner="blocked"), *failed(app, box, 4)]
    outage.is_on = False
    begun = app.redrive(FAILED, canary=2)
    box.run()
    done = app.redrive_status(begun.id)
    assert (done.matched, done.retried) == (9, 4)
    assert done.skipped == {"insufficient credits": 3, "not allowed": 2}
    assert states(app, ids) == {State.SUCCEEDED: 4, State.FAILED: 5}


def test_jobs_that_failed_after_it_began_are_not_picked_up(app: App, box: Sandbox, outage: Outage) -> None:
    early = failed(app, box, 3)
    begun = app.redrive(FAILED, rate="1/m", canary=0, abort_above=1)
    box.advance("1s")
    late = failed(app, box, 3)
    box.advance("1h")
    done = app.redrive_status(begun.id)
    assert (done.state, done.matched, done.retried) == (RedriveState.DONE, 3, 3)
    retries = {job: sum(event.type == "job.retry_requested" for event in app.events(job)) for job in early + late}
    assert retries == dict.fromkeys(early, 1) | dict.fromkeys(late, 0), "once each, though all failed again"


def test_jobs_retried_meanwhile_are_counted_as_moved_on(app: App, box: Sandbox, outage: Outage) -> None:
    ids = failed(app, box, 4)
    outage.is_on = False
    begun = app.redrive(FAILED, canary=0, rate="1/m")
    app.retry(ids[-1])
    box.advance("1h")
    done = app.redrive_status(begun.id)
    assert (done.retried, done.skipped) == (3, {"moved on": 1})
    assert app.job(ids[-1]).manual_retries == 1


def test_a_dry_run_counts_and_changes_nothing(app: App, box: Sandbox) -> None:
    ids = failed(app, box, 12)
    found = app.redrive(JobFilter(kind="send"), dry_run=True)
    assert (found.is_dry, found.id, found.matched, found.sample) == (True, "", 12, tuple(ids[:10]))
    assert [(match.kind, match.code, match.number) for match in found.matches] == [("send", "NETWORK", 12)]
    assert app.redrives() == [] and states(app, ids) == {State.FAILED: 12}


def test_a_repeated_request_returns_the_same_redrive(app: App, box: Sandbox) -> None:
    failed(app, box, 3)
    begun = app.redrive(FAILED, request_id="incident-7")
    assert app.redrive(FAILED, request_id="incident-7") == begun
    assert [redrive.id for redrive in app.redrives()] == [begun.id]
    assert app.redrive(FAILED).id != begun.id


def test_a_repeated_request_after_the_end_returns_the_same_redrive(app: App, box: Sandbox, outage: Outage) -> None:
    failed(app, box, 3)
    outage.is_on = False
    begun = app.redrive(FAILED, request_id="incident-7")
    box.advance("1m")
    assert app.redrive(FAILED, dry_run=True).matched == 0
    again = app.redrive(FAILED, request_id="incident-7")
    assert (again.id, again.is_repeated, begun.is_repeated) == (begun.id, True, False)
    with pytest.raises(RequestIdUsed, match=r"has other terms .rate 50/s, canary 5"):
        app.redrive(FAILED, request_id="incident-7", rate="1/d")


def test_a_time_in_the_filter_may_move_on_when_it_is_asked_again(app: App, box: Sandbox) -> None:
    failed(app, box, 3)
    hour = timedelta(hours=1)
    begun = app.redrive(JobFilter(since=box.now - hour), request_id="incident-7")
    box.advance("1m")
    assert app.redrive(JobFilter(since=box.now - hour), request_id="incident-7").id == begun.id


@pytest.mark.parametrize("other", [JobFilter(kind="send"), JobFilter(tag="eu"), JobFilter(until=LONG_AHEAD)])
def test_a_request_id_is_refused_for_other_jobs(app: App, box: Sandbox, other: JobFilter) -> None:
    failed(app, box, 3)
    begun = app.redrive(FAILED, request_id="incident-7")
    with pytest.raises(
        RequestIdUsed, match=f"{begun.id}, which is about other jobs .jobs of state failed.; repeat the same call"
    ):
        app.redrive(other, request_id="incident-7")
    assert [one.id for one in app.redrives()] == [begun.id]


@pytest.mark.parametrize("request_id", [None, "incident-7"])
def test_when_nothing_matches_nothing_is_stored(app: App, box: Sandbox, request_id: str | None) -> None:
    found = app.redrive(FAILED, request_id=request_id)
    assert (found.id, found.matched, found.state, found.because) == ("", 0, RedriveState.DONE, "nothing matches")
    assert (
        replace(
            app.redrive(FAILED, dry_run=True, request_id=request_id), began_at=found.began_at, ended_at=found.ended_at
        )
        == found
    )
    assert app.redrives() == []
    assert app.events() == []
    failed(app, box, 1)
    assert app.redrive(FAILED, request_id=request_id).matched == 1


def test_a_cancelled_one_retries_no_more(app: App, box: Sandbox, outage: Outage) -> None:
    ids = failed(app, box, 10)
    outage.is_on = False
    begun = app.redrive(FAILED, rate="1/s")
    box.run()
    cancelled = app.cancel_redrive(begun.id, actor="ann", reason="enough")
    assert cancelled.state is RedriveState.CANCELLED
    box.advance("1h")
    assert states(app, ids) == {State.SUCCEEDED: 1, State.FAILED: 9}
    assert app.cancel_redrive(begun.id) == app.redrive_status(begun.id)
    with pytest.raises(RedriveNotFound, match="there is no redrive 'nothing'"):
        app.redrive_status("nothing")


def test_owners_redrive_their_own_jobs_only(app: App, box: Sandbox, outage: Outage) -> None:
    mine, others = failed(app, box, 2, owner="ann"), failed(app, box, 2, owner="bob")
    outage.is_on = False
    begun = app.redrive(FAILED, owner="ann")
    box.run()
    assert (states(app, mine), states(app, others)) == ({State.SUCCEEDED: 2}, {State.FAILED: 2})
    assert app.redrives(owner="bob") == []
    with pytest.raises(RedriveNotFound):
        app.cancel_redrive(begun.id, owner="bob")


def test_cancelled_jobs_are_redriven_if_the_filter_says_so(app: App, box: Sandbox, outage: Outage) -> None:
    job = app.tasks["send"].enqueue(1)
    app.cancel(job.id)
    outage.is_on = False
    assert app.redrive(JobFilter(kind="send"), dry_run=True).matched == 0
    begun = app.redrive(JobFilter(state="cancelled"))
    box.run()
    assert (app.redrive_status(begun.id).retried, app.job(job.id).state) == (1, State.SUCCEEDED)


@pytest.mark.parametrize(
    ("fields", "options", "error"),
    [
        ({"state": "queued"}, {}, "only jobs that are over are redriven"),
        ({}, {"canary": -1}, "from 0 to 100"),
        ({}, {"canary": 101}, "from 0 to 100"),
        ({}, {"abort_above": 1.5}, "a fraction from 0 to 1"),
        ({}, {"rate": "fast"}, "is not a rate"),
    ],
)
def test_what_cannot_be_is_refused(app: App, box: Sandbox, fields: Any, options: Any, error: str) -> None:
    with pytest.raises((BadFilter, BadRate), match=error):
        app.redrive(JobFilter(**fields), **options)


def test_a_pause_of_the_duty_blocks_all_redrives(app: App, box: Sandbox, outage: Outage) -> None:
    failed(app, box, 3)
    outage.is_on = False
    begun = app.redrive(FAILED)
    app.pause("10m", duty="redrive")
    box.advance("9m")
    assert app.redrive_status(begun.id).retried == 0
    box.advance("2m")
    assert app.redrive_status(begun.id).state is RedriveState.DONE


# Workers that die, and two at once


class Scene:
    """Failed jobs, and workers of the test whose store calls can be cut off."""

    def __init__(self, jobs: int = 6, kinds: tuple[str, ...] = ("send",)) -> None:
        self.clock = VirtualClock()
        self.store = SqliteStore("sqlite:///:memory:", now=self.clock.now, threaded=False)
        self.ids = Ids(self.clock, Random(1))
        self.tasks = tasks(*kinds)
        self.redrives = Redrives(lambda: self.store, self.ids)
        self._claims = 0
        for kind in kinds:
            self.fail(kind, jobs)

    def fail(self, kind: str, number: int) -> None:
        self.store.enqueue([NewJob(id=self.ids(), kind=kind, arguments="{}") for _ in range(number)])
        self.fail_all(kind)

    def fail_all(self, kind: str) -> None:
        self._claims += 1
        claim = Claim(incarnation="w", number=self._claims, kinds=[kind], limit=100, lease=timedelta(minutes=1))
        self.store.settle([Outcome(lease, failing()) for lease in self.store.claim(claim).leases])

    def begin(self, **options: Any) -> Redrive:
        given: dict[str, Any] = {"rate": "1000/s", "canary": 0, "abort_above": 1.0}
        return self.redrives.start(FAILED, **given | options)

    def worker(self, name: str, store: Any = None, known: Registry | None = None, limit: int = 2) -> RunRedrives:
        return RunRedrives(store or self.store, known or self.tasks, clock=self.clock, worker=name, limit=limit)

    @property
    def redrive(self) -> Redrive:
        return self.store.redrives()[0]

    def retries(self) -> list[int]:
        jobs = self.store.jobs(JobFilter(), limit=1_000).jobs
        return [sum(event.type == "job.retry_requested" for event in self.store.events(job=job.id)) for job in jobs]


def tasks(*kinds: str) -> Registry:
    app = App(settings=Settings(database_url="sqlite:///:memory:"))
    for kind in kinds:
        app.task(name=kind)(_nothing)
    return app.tasks


def _nothing() -> None: ...


class Cut:
    """A connection to the store that breaks before or after its n-th call: the process is dead then."""

    def __init__(self, store: SqliteStore, calls: int, *, is_carried_out: bool) -> None:
        self._store = store
        self._left = calls
        self._is_carried_out = is_carried_out

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left < 0 and not self._is_carried_out:
                raise StoreUnavailable("cut")
            answer = getattr(self._store, name)(*args, **options)
            if self._left < 0:
                raise StoreUnavailable("cut")
            return answer

        return call


@pytest.mark.parametrize("is_carried_out", [True, False])
@pytest.mark.parametrize("calls", range(13))
def test_killed_between_any_two_calls_it_continues_where_it_was(calls: int, is_carried_out: bool) -> None:
    scene = Scene(6)
    scene.begin()
    with pytest.raises(StoreUnavailable):
        scene.worker("first", Cut(scene.store, calls, is_carried_out=is_carried_out)).step()
    scene.clock.advance(HOLD)
    scene.worker("second").step()
    assert (scene.redrive.state, scene.redrive.retried, scene.redrive.skipped) == (RedriveState.DONE, 6, {})
    assert scene.retries() == [1] * 6


def test_while_one_worker_runs_it_another_leaves_it_alone() -> None:
    scene = Scene(6)
    scene.begin(rate="2/s")
    assert scene.worker("first").step() == 2
    scene.clock.advance(timedelta(seconds=1))
    assert scene.worker("second").step() == 0
    assert scene.worker("first").step() == 2
    scene.clock.advance(HOLD)
    assert scene.worker("second").step() == 2
    assert scene.redrive.course.held_by == "second"


def test_two_that_race_for_every_step_retry_each_job_once() -> None:
    """Between any two calls of one worker the other makes a whole step; reservations end at once."""
    scene = Scene(12)
    scene.begin()
    rival = scene.worker("rival")

    class Raced:
        def __getattr__(self, name: str) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                answer = getattr(scene.store, name)(*args, **options)
                scene.clock.advance(HOLD)
                rival.step()
                return answer

            return call

    scene.worker("slow", Raced()).step()
    while not scene.redrive.state.is_over:
        scene.clock.advance(HOLD)
        scene.worker("slow").step()
    assert scene.redrive.retried == 12 and scene.retries() == [1] * 12


def test_a_worker_moves_jobs_of_kinds_it_knows_and_leaves_the_others_to_others() -> None:
    scene = Scene(3, kinds=("send", "other"))
    scene.begin()
    assert scene.worker("first", known=tasks("send")).step() == 3
    assert (scene.redrive.state, set(scene.redrive.course.cursors)) == (RedriveState.RUNNING, {"other"})
    scene.clock.advance(HOLD)
    assert scene.worker("second", known=tasks("other")).step() == 3
    assert scene.redrive.state is RedriveState.DONE


def test_a_precondition_that_breaks_is_a_refusal_and_one_that_needs_the_store_waits_for_it() -> None:
    scene = Scene(2)
    app = App(settings=Settings(database_url="sqlite:///:memory:"))
    answers: list[Exception] = [StoreUnavailable("away"), ValueError("a mistake"), ValueError("a mistake")]

    def may(_job: Job[Any]) -> None:
        raise answers.pop(0)

    app.task(name="send", can_retry=may)(_nothing)
    scene.begin()
    worker = scene.worker("first", known=app.tasks)
    with pytest.raises(StoreUnavailable):
        worker.step()
    assert scene.redrive.skipped == {}
    worker.step()
    assert (scene.redrive.state, scene.redrive.skipped) == (RedriveState.DONE, {"not allowed": 2})


def test_slow_preconditions_make_smaller_chunks_and_no_worker_takes_over() -> None:
    scene, asked = Scene(9), []
    app = App(settings=Settings(database_url="sqlite:///:memory:"))
    rival = scene.worker("rival", limit=9)

    def may(job: Job[Any]) -> None:
        asked.append(job.id)
        scene.clock.advance(timedelta(seconds=2))
        assert rival.step() == 0

    app.task(name="send", can_retry=may)(_nothing)
    scene.begin()
    worker = scene.worker("slow", known=app.tasks, limit=9)
    while not scene.redrive.state.is_over:
        worker.step()
    assert scene.redrive.retried == 9 and len(asked) == 9, "each job was asked about once"


def test_several_redrives_run_at_once_and_retry_no_job_twice() -> None:
    scene = Scene(8)
    for _ in range(2):
        scene.begin(rate="4/s")
    for _ in range(8):
        scene.worker("first").step()
        scene.clock.advance(timedelta(seconds=1))
    found = scene.store.redrives()
    assert {redrive.state for redrive in found} == {RedriveState.DONE}
    assert sum(redrive.retried for redrive in found) == 8 and scene.retries() == [1] * 8
    assert all(redrive.matched == redrive.looked_at == 8 for redrive in found)


def test_real_workers_carry_it_out(tmp_path: Any) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    is_down = [True]

    @app.task(retry=RetryPolicy(1))
    def send() -> None:
        if is_down[0]:
            raise ConnectionError("down")

    with app:
        app.enqueue_many([send.bind() for _ in range(8)])
        app.run_until_idle(timeout="60s")
        is_down[0] = False
        begun = app.redrive(JobFilter(code="NETWORK"), canary=2)
        with working(app):
            eventually(lambda: app.redrive_status(begun.id).state is RedriveState.DONE)
            eventually(lambda: app.store.counts()["send"] == {"succeeded": 8})
        (duty,) = [duty for duty in app.duties() if duty.name == "redrive"]
        assert duty.last is not None
