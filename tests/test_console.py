import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mulligan import (
    App,
    Conflict,
    FinalError,
    Fixed,
    IllegalMove,
    InsufficientCredits,
    Job,
    JobNotFound,
    NotAllowed,
    RetryPolicy,
    Service,
    Snooze,
    State,
    StillRunning,
    attempt,
)
from mulligan.errors import KeyNotAllowed, KeyNotFound
from mulligan.records.key import Scope
from mulligan.store.messages import Beat, Claim, WorkerRecord
from mulligan.testing import flaky, sandbox


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make the calls from as many threads at the same moment; what each returned or raised."""
    barrier = threading.Barrier(len(calls))
    answers: list[Any] = [None] * len(calls)

    def make(index: int, call: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            answers[index] = call()
        except Exception as error:
            answers[index] = error

    threads = [threading.Thread(target=make, args=(index, call)) for index, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_two_people_retry_one_failed_job_and_it_runs_once(app: App) -> None:
    runs = []

    @app.task(retry=RetryPolicy(1))
    async def fails_first() -> None:
        runs.append(attempt().number)
        if attempt().number == 1:
            raise RuntimeError("first")

    job = fails_first.enqueue()
    app.run_until_idle(timeout="60s")
    answers = at_once(*[lambda who=who: app.retry(job.id, actor=who) for who in ("ann", "ben", "cy", "dee")])  # type: ignore[misc]
    losers = [answer for answer in answers if isinstance(answer, IllegalMove)]
    assert len(losers) == 3
    assert "cannot retry" in str(losers[0]) and "it is queued" in str(losers[0])
    app.run_until_idle(timeout="60s")
    assert runs == [1, 2]
    assert app.job(job.id).manual_retries == 1


def test_a_manual_retry_replaces_the_automatic_one(app: App) -> None:
    runs = []

    @app.task(retry=RetryPolicy(4, Fixed("300ms")))
    async def fails_first() -> None:
        runs.append(attempt().job.trigger)
        if attempt().number == 1:
            raise RuntimeError("first")

    job = fails_first.enqueue()
    app.run_until_idle(timeout="60s")
    assert app.job(job.id).state is State.WAITING
    answers = at_once(*[lambda: app.retry(job.id, actor="ann")] * 2)
    assert sorted(type(answer) for answer in answers if isinstance(answer, Exception)) == [IllegalMove]
    app.run_until_idle(retries=True, timeout="60s")
    assert runs == ["automatic", "manual"]
    found = app.job(job.id)
    assert (found.state, found.failures, found.attempt, found.manual_retries) == (State.SUCCEEDED, 0, 2, 1)


def test_a_retry_against_a_worker_that_takes_the_job_meanwhile_is_one_run() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", retry=RetryPolicy(2, Fixed("1m")))(flaky(9))
    with sandbox(app) as box:
        job = task.enqueue()
        box.advance("1m")
        assert app.job(job.id).state is State.FAILED
        app.retry(job.id)
        with pytest.raises(IllegalMove, match="it is queued; a queued job can be: cancel, snooze"):
            app.retry(job.id)


def test_a_fresh_start_has_all_its_attempts_and_run_now_has_what_is_left() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", retry=RetryPolicy(3, Fixed("1m")))(flaky(99))
    with sandbox(app) as box:
        job = task.enqueue()
        box.advance("1h")
        assert app.job(job.id).attempt == 3
        app.run_now(job.id, actor="ann")
        box.advance("1h")
        found = app.job(job.id)
        assert (found.attempt, found.failures, found.manual_retries) == (4, 4, 0)
        assert (found.retry_count, found.max_retries) == (2, 2), "what is shown never exceeds the limit"
        app.retry(job.id, actor="ann")
        box.advance("1h")
        found = app.job(job.id)
        assert (found.attempt, found.failures, found.manual_retries) == (7, 3, 1)


def test_the_retries_of_a_job_are_those_that_were_made() -> None:
    app = App("sqlite:///:memory:")

    @app.task(retry=RetryPolicy(3, Fixed("1m")))
    def rejects() -> None:
        raise FinalError("no")

    @app.task(retry=RetryPolicy(3, Fixed("1m")))
    def breaks() -> None:
        raise RuntimeError("broken")

    with sandbox(app) as box:
        final, broken = rejects.enqueue(), breaks.enqueue()
        late = breaks.options(deadline="90s").enqueue()
        never = breaks.options(deadline="30s", delay="1h").enqueue()
        box.run()
        assert (app.job(final.id).state, app.job(final.id).retry_count) == (State.FAILED, 0)
        assert (app.job(broken.id).state, app.job(broken.id).retry_count) == (State.WAITING, 1)
        box.advance("1h")
        assert {app.job(each.id).state for each in (broken, late, never)} == {State.FAILED}
        assert [app.job(each.id).retry_count for each in (broken, late, never)] == [2, 1, 0]
        app.retry(final.id)
        box.run()
        assert app.job(final.id).retry_count == 0


def test_a_deadline_takes_no_retry_that_was_made_from_the_count() -> None:
    app = App("sqlite:///:memory:", services=[Service("gw", min_calls=3, cooldown="1m")])

    @app.task(service="gw", retry=RetryPolicy(4, Fixed("1m")))
    def call() -> None:
        raise ConnectionRefusedError

    @app.task(retry=RetryPolicy(4, Fixed("1m")))
    def polls() -> None:
        raise RuntimeError("broken") if attempt().number == 1 else Snooze("10m")

    with sandbox(app) as box:
        early = [call.options(deadline="30m").enqueue() for _ in range(2)]
        box.run()
        during = call.options(deadline="30m").enqueue()
        snoozed = polls.options(deadline="30m").enqueue()
        box.advance("2m")
        pending = polls.options(deadline="30m").enqueue()
        box.run()
        app.pause(None, kind="polls", actor="ann")
        box.advance("1h")
        found = [app.job(job.id) for job in (*early, during, snoozed, pending)]
    assert {(job.state, job.error_code) for job in found} == {(State.FAILED, "DEADLINE")}
    assert [job.failures for job in found] == [1, 1, 0, 1, 1]
    assert [job.retry_count for job in found] == [1, 1, 0, 1, 0]


def test_a_job_that_is_cancelled_before_its_retry_was_not_retried() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", retry=RetryPolicy(4, Fixed("1m")))(flaky(99))
    with sandbox(app) as box:
        once, twice = task.enqueue(), task.enqueue()
        box.run()
        app.cancel(once.id)
        box.advance("1m")
        app.cancel(twice.id)
        assert [app.job(each.id).retry_count for each in (once, twice)] == [0, 1]


def test_run_now_hurries_a_waiting_job_and_keeps_its_counters() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", retry=RetryPolicy(4, Fixed("1h")))(flaky(1))
    with sandbox(app) as box:
        job = task.enqueue()
        box.run()
        app.run_now(job.id)
        box.run()
        assert (app.job(job.id).state, app.job(job.id).failures) == (State.SUCCEEDED, 1)


def test_snooze_puts_a_queued_job_off_and_cancel_ends_it() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task")(flaky(0))
    with sandbox(app) as box:
        job = task.enqueue()
        snoozed = app.snooze(job.id, "1h", actor="ann", reason="not now")
        assert (snoozed.state, snoozed.waiting_for) == (State.WAITING, "snooze")
        box.advance("59m")
        assert app.job(job.id).state is State.WAITING
        assert app.cancel(job.id).state is State.CANCELLED
        box.advance("2h")
        assert app.job(job.id).attempt == 0
        snooze = next(event for event in app.events(job.id) if event.type == "job.snoozed")
        assert (snooze.actor, snooze.data) == ("ann", {"reason": "not now", "delay": 3600.0})
        app.retry(job.id)
        box.run()
        assert app.job(job.id).state is State.SUCCEEDED


def test_the_tasks_own_precondition_is_asked_and_its_answer_reaches_the_person() -> None:
    app = App("sqlite:///:memory:")
    asked: list[Job[Any]] = []

    def can_retry(job: Job[Any]) -> None:
        asked.append(job)
        raise NotAllowed("The source file is gone. Upload it again.")

    def too_dear(job: Job[Any]) -> None:
        raise InsufficientCredits(required=5, available=2)

    gone = app.task("gone", retry=RetryPolicy(1), can_retry=can_retry)(flaky(9))
    buggy = app.task("buggy", retry=RetryPolicy(1), can_retry=lambda _: 1 / 0)(flaky(9))
    dear = app.task("dear", retry=RetryPolicy(1), can_retry=too_dear)(flaky(9))
    with sandbox(app) as box:
        job, other, third = gone.enqueue(), dear.enqueue(), buggy.enqueue()
        with pytest.raises(IllegalMove):
            app.retry(job.id)
        assert not asked, "the state is looked at first"
        box.run()
        with pytest.raises(NotAllowed, match="Upload it again"):
            app.retry(job.id)
        with pytest.raises(InsufficientCredits, match="needs 5 credits, 2 are available"):
            app.run_now(other.id)
        with pytest.raises(NotAllowed, match="can_retry of task 'buggy' failed: division by zero"):
            app.retry(third.id)
        assert app.job(job.id).state is State.FAILED


def test_a_precondition_that_gives_no_answer_allows_nothing() -> None:
    app = App("sqlite:///:memory:")
    answer: asyncio.Future[bool] = asyncio.Future(loop=asyncio.new_event_loop())
    task = app.task("task", retry=RetryPolicy(1), can_retry=lambda _: answer)(flaky(9))
    with sandbox(app) as box:
        job = task.enqueue()
        box.run()
        with pytest.raises(NotAllowed, match="it cannot be async"):
            app.retry(job.id)
    answer.get_loop().close()


def test_the_job_of_another_owner_is_not_found_just_as_one_that_does_not_exist() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", retry=RetryPolicy(1))(flaky(9))
    with sandbox(app) as box:
        job = task.options(owner="acme").enqueue()
        box.run()
        for look in (app.job, app.explain, app.retry, app.cancel, app.run_now):
            with pytest.raises(JobNotFound) as foreign:
                look(job.id, owner="other")
            with pytest.raises(JobNotFound) as missing:
                look("none", owner="other")
            assert str(foreign.value).replace(job.id, "none") == str(missing.value)
        assert app.jobs(owner="other").jobs == ()
        assert app.events(job.id, owner="other") == []
        assert app.retry(job.id, owner="acme").state is State.QUEUED


def test_a_failed_job_whose_key_another_holds_by_now_is_a_conflict_that_names_the_other() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", retry=RetryPolicy(1))(flaky(9))
    with sandbox(app) as box:
        failed = task.options(dedupe="k").enqueue()
        box.run()
        twin = task.options(dedupe="k", delay="1h").enqueue()
        assert not twin.is_duplicate
        with pytest.raises(Conflict, match=twin.id):
            app.retry(failed.id)
        assert app.job(failed.id).state is State.FAILED


def test_every_manual_move_is_recorded_with_actor_and_reason() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", retry=RetryPolicy(1))(flaky(9))
    with sandbox(app) as box:
        job = task.enqueue()
        box.run()
        app.retry(job.id, actor="ann\0", reason="the gateway is back" + "!" * 10_000)
        event = app.events(job.id)[-2]
        assert (event.type, event.actor) == ("job.retry_requested", "ann\ufffd")
        assert event.data["reason"].startswith("the gateway is back!!")
        assert len(event.data["reason"]) <= 500


def _running(app: App, job_id: str) -> None:
    app.store.claim(Claim(incarnation="w", number=1, kinds=["work"], limit=1, lease=timedelta(days=9)))
    assert app.job(job_id).state is State.RUNNING


def test_a_stuck_job_is_listed_and_retried_through_its_precondition(app: App) -> None:
    asked = []

    @app.task(timeout="1h", can_retry=lambda job: asked.append(job.state))
    def work() -> None: ...

    with sandbox(app) as box:
        job = work.enqueue()
        _running(app, job.id)
        box._clock.advance(timedelta(minutes=59))
        with pytest.raises(StillRunning):
            app.retry(job.id, actor="ann")
        with pytest.raises(StillRunning):
            app.run_now(job.id)
        assert (app.stuck(), app.process_stuck(), asked) == ([], [], [])
        box._clock.advance(timedelta(minutes=2))
        assert [found.id for found in app.stuck()] == [job.id]
        assert app.stuck(owner="acme") == []
        with pytest.raises(IllegalMove):
            app.run_now(job.id)
        assert app.retry(job.id, actor="ann").state is State.QUEUED
        assert asked == [State.RUNNING]


def test_stuck_jobs_fail_by_their_own_policy(app: App) -> None:
    @app.task(retry=RetryPolicy(1))
    def work() -> None: ...

    with sandbox(app) as box:
        job = work.enqueue()
        _running(app, job.id)
        box._clock.advance(timedelta(hours=1))
        (failed,) = app.process_stuck(actor="ann", reason="its disk is full")
        assert (failed.state, failed.error_code, failed.failures) == (State.FAILED, "TIMEOUT", 1)
        (event,) = [event for event in app.events(job.id) if event.type == "job.failed"]
        assert event.data["detail"].endswith("its lease was taken away: its disk is full")


def test_a_queue_says_what_waits_in_it_and_who_takes_it(app: App) -> None:
    @app.task(queue="bulk")
    def work() -> None: ...

    @app.task
    def other() -> None: ...

    with sandbox(app) as box:
        first = work.enqueue()
        box._clock.advance(timedelta(minutes=5))
        app.pause("1h", queue="bulk", reason="maintenance")
        bulk, default = app.queues()
        assert (bulk.name, bulk.ready, bulk.since, bulk.running) == ("bulk", 1, first.queued_at, 0)
        assert bulk.paused is not None and bulk.paused.reason == "maintenance"
        assert (bulk.unhandled, bulk.workers, bulk.slots) == (("work",), 0, 0)
        assert (default.name, default.ready, default.since, default.unhandled) == ("default", 0, None, ())
        _working(app, kinds=("work",), queues=("bulk",), concurrency=8)
        bulk, default = app.queues()
        assert (bulk.unhandled, bulk.workers, bulk.slots, default.workers) == ((), 1, 8, 0)


def _working(app: App, *, kinds: tuple[str, ...], queues: tuple[str, ...] | None, concurrency: int) -> None:
    worker = WorkerRecord(
        incarnation="w", host="h", pid=1, queues=queues, kinds=kinds, concurrency=concurrency, version="1"
    )
    app.store.beat(Beat(worker=worker, lease=timedelta(minutes=1)))


def test_a_link_is_for_keys_of_the_owner_and_not_beyond_the_scopes_of_its_creator(app: App) -> None:
    key = app.create_key(owner="acme", name="ci", scopes=["jobs:read", "keys:manage"]).key
    assert app.sign_in_link(key.id, owner="acme", within=key.scopes)
    with pytest.raises(KeyNotFound):
        app.sign_in_link(key.id, owner="other")
    with pytest.raises(KeyNotAllowed, match="does not have jobs:read itself"):
        app.sign_in_link(key.id, within={Scope.KEYS_MANAGE})


def test_in_the_sandbox_a_pause_ends_by_itself(app: App) -> None:
    @app.task
    def work() -> str:
        return "done"

    with sandbox(app) as box:
        app.pause("30m", duty="DELAYED_JOBS", actor="ann")
        job = work.options(delay="1m").enqueue()
        box.advance("20m")
        assert app.job(job.id).state is State.WAITING
        assert "Promoting delayed jobs is paused" in " ".join(app.explain(job.id).next)
        box.advance("20m")
        assert app.job(job.id).state is State.SUCCEEDED
