"""The real worker with its threads on a real SQLite file. No test sleeps longer than necessary."""

import asyncio
import contextlib
import fcntl
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from live import SOON, eventually, working
from mulligan import (
    App,
    FinalError,
    Fixed,
    JobCancelled,
    RateLimitedError,
    RetryPolicy,
    Snooze,
    State,
    attempt,
)
from mulligan.errors import StoreClosed, StoreUnavailable
from mulligan.failure.decision import Release
from mulligan.records.job import ReportedCall
from mulligan.settings import Settings
from mulligan.store.messages import Outcome, Settled
from mulligan.store.sqlite import SqliteStore
from mulligan.wiring import AppParts


def quick(tmp_path: Path, *, lease: float = 1.0) -> App:
    """An app whose leases are short."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    return App(settings=Settings(database_url=url, worker_lease_ttl=timedelta(seconds=lease)))


def test_async_and_plain_functions_run_and_their_results_come_back(app: App) -> None:
    @app.task
    async def swift(number: int) -> int:
        return number + 1

    @app.task
    def steady(number: int) -> str:
        return threading.current_thread().name + str(number)

    with working(app):
        assert app.wait(swift.enqueue(1), timeout=SOON) == 2
        assert app.wait(steady.enqueue(1), timeout=SOON).startswith("mulligan-task")


def test_a_thousand_jobs_run_once_each(app: App) -> None:
    seen: list[int] = []

    @app.task
    async def note(number: int) -> None:
        seen.append(number)

    app.enqueue_many([note.bind(number) for number in range(1000)])
    app.run_until_idle(timeout="60s")
    assert sorted(seen) == list(range(1000))
    assert app.store.counts() == {"note": {"succeeded": 1000}}


def test_no_more_jobs_run_at_once_than_the_worker_has_slots(app: App) -> None:
    running, most = 0, 0

    @app.task
    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    app.enqueue_many([busy.bind() for _ in range(40)])
    app.run_until_idle(concurrency=3, timeout="60s")
    assert most == 3


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Loud(Exception):
    def __str__(self) -> str:
        return "x" * 10_000_000


class Interrupting(Exception):
    def __getattr__(self, name: str) -> None:
        raise KeyboardInterrupt

    def __str__(self) -> str:
        raise KeyboardInterrupt


def _recurse() -> None:
    _recurse()


def _exit() -> None:
    sys.exit(3)


def _raise(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


POISON: dict[str, Callable[[], None]] = {
    "an exception without words": _raise(Mute()),
    "an exception of ten megabytes": _raise(Loud()),
    "sys.exit": _exit,
    "an interrupt": _raise(KeyboardInterrupt()),
    "endless recursion": _recurse,
    "a stop iteration": _raise(StopIteration("value")),
    "a cancellation of its own": _raise(asyncio.CancelledError()),
    "a generator's exit": _raise(GeneratorExit()),
    "an exception that interrupts its reader": _raise(Interrupting()),
    "a group": _raise(BaseExceptionGroup("many", [ValueError("a"), Mute()])),
    "surrogates and zeros": _raise(ValueError("a\ud800b\0c")),
}


@pytest.mark.parametrize("how", ["async", "thread"])
def test_whatever_a_task_raises_the_worker_survives_and_the_failure_is_recorded(app: App, how: str) -> None:
    policy = RetryPolicy(1)
    jobs = {}
    for name, body in POISON.items():
        if how == "async":

            async def poison(body: Any = body) -> None:
                body()

        else:

            def poison(body: Any = body) -> None:  # type: ignore[misc]
                body()

        jobs[name] = app.task(name, retry=policy)(lambda: None)
        app.tasks[name].function = poison
        app.tasks[name].is_async = how == "async"

    @app.task
    async def healthy() -> str:
        return "alive"

    enqueued = {name: task.enqueue() for name, task in jobs.items()}
    last = healthy.options(priority="low").enqueue()
    app.run_until_idle(timeout="60s")
    assert app.wait(last, timeout=SOON) == "alive"
    for name, job in enqueued.items():
        found = app.job(job.id)
        assert (found.state, found.failures) == (State.FAILED, 1), name
        failed = app.events(job.id)[-1]
        assert failed.type == "job.failed", name
        assert len(str(failed.data)) < 200_000, name


def test_damaged_arguments_fail_that_job_and_no_other(app: App, tmp_path: Path) -> None:
    import sqlite3

    @app.task
    async def add(left: int, right: int) -> int:
        return left + right

    broken, nonsense, fine = (add.enqueue(1, 2) for _ in range(3))
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.execute("PRAGMA ignore_check_constraints = 1")
    connection.execute("UPDATE mulligan_jobs SET arguments = '{not json' WHERE id = ?", (broken.id,))
    connection.execute("UPDATE mulligan_jobs SET arguments = '[1, 2]', tags = 'x' WHERE id = ?", (nonsense.id,))
    connection.commit()
    connection.close()
    app.run_until_idle(timeout="60s")
    assert app.wait(fine) == 3
    assert app.job(broken.id).error_code == "INVALID_INPUT"
    assert app.jobs().damaged, "the row with damaged tags is named, not hidden"
    assert app.store.counts() == {"add": {"succeeded": 1, "failed": 2}}


@pytest.mark.parametrize("how", ["async", "thread"])
def test_a_task_that_takes_too_long_fails_with_timeout(app: App, how: str) -> None:
    @app.task(timeout="200ms", retry=RetryPolicy(1))
    async def slow_async() -> None:
        await asyncio.sleep(60)

    @app.task(timeout="200ms", retry=RetryPolicy(1))
    def slow_thread() -> None:
        while True:
            time.sleep(0.01)

    job = (slow_async if how == "async" else slow_thread).enqueue()
    app.run_until_idle(timeout="60s")
    assert app.job(job.id).error_code == "TIMEOUT"


def test_code_that_does_not_stop_is_left_behind_and_the_worker_goes_on(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mulligan.worker.slots.GRACE_SECONDS", 0.1)
    release = threading.Event()

    @app.task(timeout="100ms", retry=RetryPolicy(1))
    def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(BaseException):
                release.wait(0.05)

    @app.task
    async def other() -> str:
        return "done"

    job = stubborn.enqueue()
    with working(app, concurrency=3):
        eventually(lambda: app.job(job.id).state is State.FAILED)
        assert app.wait(other.enqueue(), timeout=SOON) == "done"
        release.set()
    assert app.job(job.id).error_code == "TIMEOUT"
    assert "'stubborn' does not stop" in caplog.text
    assert [event.type for event in app.events(job.id)].count("job.failed") == 1


@pytest.mark.parametrize("how", ["async", "thread"])
def test_a_running_job_that_is_cancelled_stops_and_is_cancelled(tmp_path: Path, how: str) -> None:
    with quick(tmp_path) as app:
        started = threading.Event()

        @app.task
        async def long_async() -> None:
            started.set()
            await asyncio.sleep(60)

        @app.task
        def long_thread() -> None:
            started.set()
            while not attempt().cancelled:
                time.sleep(0.01)
            raise RuntimeError("stopped as asked")

        with working(app):
            job = (long_async if how == "async" else long_thread).enqueue()
            assert started.wait(SOON)
            assert app.cancel(job.id, actor="ann", reason="wrong file").state is State.RUNNING
            with pytest.raises(JobCancelled):
                app.wait(job, timeout=SOON)
        types = [event.type for event in app.events(job.id)]
        assert types == ["job.enqueued", "job.started", "job.cancel_requested", "job.cancelled"]


def test_a_success_before_the_worker_learns_of_the_cancellation_wins(app: App) -> None:
    @app.task
    async def quick_one() -> str:
        await asyncio.to_thread(app.cancel, attempt().job.id)
        return "done"

    job = quick_one.enqueue()
    app.run_until_idle(timeout="60s")
    assert app.wait(job) == "done"


def test_a_task_that_snoozes_or_is_told_to_slow_down_uses_up_no_attempt(app: App) -> None:
    @app.task(retry=RetryPolicy(1))
    async def patient() -> int:
        if attempt().number == 1:
            raise Snooze("20ms")
        if attempt().number == 2:
            raise RateLimitedError("slow down", retry_after="30ms")
        return attempt().number

    job = patient.enqueue()
    with working(app):
        assert app.wait(job, timeout=SOON) == 3
    found = app.job(job.id)
    assert (found.failures, found.snoozes, found.attempt) == (0, 2, 3)
    delays = [event.data["delay"] for event in app.events(job.id) if event.type == "job.snoozed"]
    assert delays == [0.02, 0.03]


def test_progress_is_seen_while_the_job_runs_and_is_reset_when_it_goes_back(tmp_path: Path) -> None:
    with quick(tmp_path) as app:
        seen = threading.Event()

        @app.task(retry=RetryPolicy(2, Fixed("1h")))
        def work() -> None:
            attempt().progress(0.5, "half way")
            assert seen.wait(SOON)
            raise RuntimeError("and then it broke")

        with working(app):
            job = work.enqueue()
            eventually(lambda: app.job(job.id).progress == 0.5)
            assert app.job(job.id).progress_text == "half way"
            seen.set()
            eventually(lambda: app.job(job.id).state is State.WAITING)
        assert (app.job(job.id).progress, app.job(job.id).progress_text) == (0, "")


def test_a_task_that_blocks_the_loop_keeps_its_lease_and_runs_once(tmp_path: Path) -> None:
    with quick(tmp_path, lease=1.0) as app, quick(tmp_path, lease=1.0) as other:
        runs = []

        async def blocking() -> None:
            runs.append(1)
            time.sleep(2.5)  # noqa: ASYNC251

        first = app.task("blocking")(blocking)
        other.task("blocking")(blocking)
        job = first.enqueue()
        with working(app):
            eventually(lambda: runs)
            with working(other):
                eventually(lambda: app.job(job.id).state is State.SUCCEEDED)
        assert len(runs) == 1
        assert app.job(job.id).losses == 0


def test_jobs_of_kinds_a_worker_does_not_know_wait_for_one_that_does(app: App, tmp_path: Path) -> None:
    newer = App(f"sqlite:///{tmp_path}/jobs.db")

    @newer.task
    async def from_the_future() -> str:
        return "welcome"

    @app.task
    async def known() -> None: ...

    job = from_the_future.enqueue()
    known.enqueue()
    app.run_until_idle(timeout="60s")
    assert app.job(job.id).state is State.QUEUED
    newer.run_until_idle(timeout="60s")
    assert newer.wait(job) == "welcome"
    newer.close()


def test_a_worker_takes_only_its_queues(app: App) -> None:
    @app.task(queue="bulk")
    async def bulk() -> None: ...

    @app.task
    async def normal() -> None: ...

    waiting, done = bulk.enqueue(), normal.enqueue()
    with working(app, queues=["default"]):
        app.wait(done, timeout=SOON)
    assert app.job(waiting.id).state is State.QUEUED


def test_stopping_lets_jobs_finish_and_releases_the_rest_without_counting(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Event()

    @app.task
    async def short() -> str:
        started.set()
        await asyncio.sleep(0.2)
        return "finished"

    @app.task
    async def endless() -> None:
        await asyncio.Event().wait()

    job, stuck = short.enqueue(), endless.enqueue()

    async def scene() -> None:
        worker = app.wiring.build_worker(2)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(started.wait)
        worker.stop()
        await app.wait_async(job, timeout=SOON)
        assert app.job(stuck.id).state is State.RUNNING, "it may still finish"
        worker.stop()
        await running

    asyncio.run(scene())
    assert app.wait(job) == "finished"
    released = app.job(stuck.id)
    assert (released.state, released.failures, released.losses, released.attempt) == (State.QUEUED, 0, 0, 1)
    assert app.workers() == []


class LosesReplies(SqliteStore):
    """A store whose replies are lost: the operation was done, but the caller gets an error."""

    lost: list[str]

    def _lose(self, name: str, answer: Any) -> Any:
        if name not in self.lost:
            self.lost.append(name)
            raise StoreUnavailable(f"the reply of {name} was lost")
        return answer

    def claim(self, claim: Any) -> Any:
        answer = super().claim(claim)
        return self._lose("claim", answer) if answer.leases else answer

    def settle(self, outcomes: Any) -> Any:
        return self._lose("settle", super().settle(outcomes))


def test_a_lost_reply_runs_no_code_twice_and_settles_once(app: App) -> None:
    runs = []

    @app.task
    async def effect(number: int) -> None:
        runs.append(number)

    def open_store(url: str, _services: object) -> SqliteStore:
        store = LosesReplies(url)
        store.lost = []
        return store

    with app.wiring.use(AppParts(open_store=open_store)):
        jobs = app.enqueue_many([effect.bind(number) for number in range(20)])
        app.run_until_idle(timeout="60s")
        assert app.store.lost == ["claim", "settle"]  # type: ignore[attr-defined]
        assert sorted(runs) == list(range(20))
        for job in jobs:
            types = [event.type for event in app.events(job.id)]
            assert types == ["job.enqueued", "job.started", "job.succeeded"]


def test_an_end_that_cannot_be_settled_does_not_block_others(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    async def odd(number: int) -> int:
        if number == 3:
            attempt().calls = (ReportedCall("x", object(), None, None),)  # type: ignore[arg-type]
        return number

    jobs = app.enqueue_many([odd.bind(number) for number in range(6)])

    async def work() -> None:
        async with app.worker(concurrency=6):
            for number, job in enumerate(jobs):
                if number != 3:
                    assert await app.wait_async(job, timeout="20s") == number

    asyncio.run(work())
    assert f"the end of job {jobs[3].id} (odd) cannot be settled" in caplog.text


class SilentAboutJobs(SqliteStore):
    """A store that does not answer when a task first asks for its job."""

    silence: list[str]

    def job(self, job_id: str, *, owner: str | None = None) -> Any:
        if not self.silence:
            self.silence.append(job_id)
            raise StoreUnavailable("no answer")
        return super().job(job_id, owner=owner)


def test_a_task_that_cannot_read_its_job_is_released_and_nothing_is_counted(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.worker.claiming.LEARNED", 0)

    @app.task(retry=RetryPolicy(max_attempts=1))
    async def looks() -> str:
        return attempt().job.kind

    def open_store(url: str, _services: object) -> SqliteStore:
        store = SilentAboutJobs(url)
        store.silence = []
        return store

    with app.wiring.use(AppParts(open_store=open_store)):
        job = looks.enqueue()
        app.run_until_idle(timeout="60s")
        assert app.store.silence == [job.id]  # type: ignore[attr-defined]
        done = app.job(job.id)
        assert (done.result, done.attempt, done.failures, done.crashes) == ("looks", 2, 0, 0)


def test_a_store_that_does_not_answer_for_a_while_costs_no_attempt(app: App, tmp_path: Path) -> None:
    runs = []

    @app.task
    async def effect() -> None:
        runs.append(1)

    app.migrate()
    with working(app):
        job = effect.enqueue()
        eventually(lambda: app.job(job.id).state is State.SUCCEEDED)
        with (tmp_path / "jobs.db-lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            enqueued: list[Any] = []
            threading.Thread(target=lambda: enqueued.append(effect.enqueue())).start()
            time.sleep(0.5)
            assert not enqueued
        eventually(lambda: enqueued)
        eventually(lambda: app.job(enqueued[0].id).state is State.SUCCEEDED)
    assert len(runs) == 2


def test_a_worker_process_switches_threads_sooner(tmp_path: Path) -> None:
    usual = sys.getswitchinterval()
    with quick(tmp_path) as app:

        @app.task
        def look() -> float:
            os.kill(os.getpid(), signal.SIGTERM)
            return sys.getswitchinterval()

        job = look.enqueue()
        app.run()
        assert app.job(job.id).result < usual
    assert sys.getswitchinterval() == usual


def test_a_worker_process_collects_garbage_less_often(tmp_path: Path) -> None:
    # Those that pytest has collected are frozen, and a process with frozen objects keeps them.
    gc.unfreeze()
    usual, frozen = gc.get_threshold(), gc.get_freeze_count()
    with quick(tmp_path) as app:

        @app.task
        def look() -> tuple[int, int]:
            os.kill(os.getpid(), signal.SIGTERM)
            return gc.get_threshold()[0], gc.get_freeze_count()

        job = look.enqueue()
        app.run()
        threshold, kept = app.job(job.id).result
        assert threshold > usual[0]
        assert kept > frozen
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, frozen)
    gc.freeze()


class Knot:
    """A reference cycle, which only a collection frees."""

    def __init__(self) -> None:
        self.me = self


def test_a_worker_process_collects_garbage_every_second(tmp_path: Path) -> None:
    left: list[weakref.ref[Knot]] = []
    with quick(tmp_path) as app:

        @app.task
        async def leave() -> None:
            left.append(weakref.ref(Knot()))

        @app.task
        async def look() -> bool:
            async with asyncio.timeout(SOON):
                while left[0]() is not None:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGTERM)
            return True

        leave.enqueue()
        job = look.enqueue()
        app.run(concurrency=1)
        assert app.job(job.id).result is True


KILLED = """
    import logging, sys
    from datetime import timedelta
    from mulligan import App
    from mulligan.settings import Settings

    logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
    app = App(settings=Settings(database_url=sys.argv[1], worker_lease_ttl=timedelta(seconds=1)))

    @app.task
    async def effect() -> str:
        print("started", flush=True)
        import asyncio
        await asyncio.sleep(600)
        return "never"

    app.run()
"""


def test_a_job_whose_worker_was_killed_runs_again_and_is_charged_a_loss(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    with quick(tmp_path) as app:

        @app.task
        async def effect() -> str:
            return "second try"

        job = effect.enqueue()
        worker = subprocess.Popen(
            [sys.executable, script, f"sqlite:///{tmp_path}/jobs.db"], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "started\n"
        os.kill(worker.pid, signal.SIGKILL)
        worker.communicate()
        with working(app):
            assert app.wait(job, timeout=SOON) == "second try"
        found = app.job(job.id)
        assert (found.attempt, found.failures, found.losses) == (2, 0, 0), (
            "a loss is not a failure, and a success clears it"
        )
        released = next(event for event in app.events(job.id) if event.type == "job.released")
        assert (released.code, released.attempt) == ("WORKER_LOST", 1)


def test_sigterm_ends_a_worker_process_and_nothing_is_counted(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    with quick(tmp_path) as app:
        effect = app.task("effect")(lambda: None)
        job = effect.enqueue()
        worker = subprocess.Popen(
            [sys.executable, script, f"sqlite:///{tmp_path}/jobs.db"], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "started\n"
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.stdout.readline().startswith("stopping: 1 jobs in flight may finish")
        assert app.job(job.id).state is State.RUNNING
        os.kill(worker.pid, signal.SIGTERM)
        worker.communicate(timeout=SOON)
        assert worker.returncode == 0
        found = app.job(job.id)
        assert (found.state, found.failures, found.losses, found.crashes) == (State.QUEUED, 0, 0, 0)


def test_the_idempotency_key_is_the_same_for_every_attempt_of_a_job(app: App) -> None:
    keys = []

    @app.task(retry=RetryPolicy(3, Fixed(0)))
    async def pay() -> None:
        keys.append((attempt().idempotency_key("charge"), attempt().number))
        if attempt().number < 3:
            raise RuntimeError("again")

    job = pay.enqueue()
    app.run_until_idle(retries=True, timeout="60s")
    assert keys == [(f"{job.id}:charge", number) for number in (1, 2, 3)]
    assert attempt().idempotency_key("charge") != attempt().idempotency_key("charge"), (
        "outside a worker each key is new"
    )


def test_a_final_error_is_not_retried(app: App) -> None:
    @app.task
    async def reject() -> None:
        raise FinalError("Only PDF files are supported.", code="NOT_PDF")

    job = reject.enqueue()
    app.run_until_idle(retries=True, timeout="60s")
    found = app.job(job.id)
    assert (found.error_code, found.error_class, found.attempt) == ("NOT_PDF", "final", 1)
    assert found.error_message == "Only PDF files are supported."


def test_run_until_idle_with_a_timeout_gives_up_and_releases(app: App) -> None:
    @app.task
    async def endless() -> None:
        await asyncio.Event().wait()

    job = endless.enqueue()
    with pytest.raises(TimeoutError):
        app.run_until_idle(timeout="300ms")
    assert app.job(job.id).state is State.QUEUED


def test_a_task_that_cancels_itself_has_failed_and_is_not_started_for_ever(app: App) -> None:
    @app.task(retry=RetryPolicy(2, Fixed(0)))
    async def suicidal() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    job = suicidal.enqueue()
    app.run_until_idle(retries=True, timeout="60s")
    assert (app.job(job.id).state, app.job(job.id).failures) == (State.FAILED, 2)


def test_an_attempt_that_lost_its_lease_does_not_disturb_the_next_one_in_the_same_worker(
    tmp_path: Path,
) -> None:
    import sqlite3

    with quick(tmp_path, lease=60.0) as app:
        release, started = threading.Event(), []

        @app.task
        def stubborn() -> int:
            number = attempt().number
            started.append(number)
            while number == 1 and not release.is_set():
                with contextlib.suppress(BaseException):
                    release.wait(0.05)
            return number

        with working(app, concurrency=2):
            job = stubborn.enqueue()
            eventually(lambda: started == [1])
            with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
                connection.execute("UPDATE mulligan_jobs SET lease_until = 1")
                connection.commit()
            (lease,) = app.store.adopt(app.workers()[0].incarnation, before=10**6, held=[])
            outcome = Outcome(lease, Release({"why": "test"}), reclaimed_by="another")
            assert app.store.settle([outcome]) == [Settled.ACCEPTED]
            assert app.wait(job, timeout=SOON) == 2
            release.set()
            eventually(lambda: any(event.type == "job.refused" for event in app.events(job.id)))
        types = [event.type for event in app.events(job.id)]
        assert types.count("job.succeeded") == 1
        assert app.job(job.id).losses == 0


def test_a_worker_told_to_stop_does_not_wait_for_a_silent_store(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.worker.worker.GRACE_SECONDS", 0.2)
    monkeypatch.setattr("mulligan.worker.worker.PATIENCE_SECONDS", 0.2)
    app.task("idle")(lambda: None)
    app.migrate()

    async def scene(lock: Any) -> None:
        worker = app.wiring.build_worker(1)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(eventually, app.workers)
        fcntl.flock(lock, fcntl.LOCK_EX)
        await asyncio.sleep(1.2)
        worker.stop()
        async with asyncio.timeout(SOON):
            await running

    with (tmp_path / "jobs.db-lock").open() as lock:
        asyncio.run(scene(lock))


class AnswersLate(SqliteStore):
    """A store that claims at once but holds back its answer until the test releases it."""

    claimed: threading.Event
    answers: threading.Event

    def claim(self, claim: Any) -> Any:
        answer = super().claim(claim)
        if any(lease.kind == "late" for lease in answer.leases):
            self.claimed.set()
            assert self.answers.wait(SOON)
        return answer


def test_a_worker_that_stops_releases_the_jobs_of_a_claim_it_no_longer_waits_for(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.worker.worker.GRACE_SECONDS", 0.2)
    monkeypatch.setattr("mulligan.worker.worker.PATIENCE_SECONDS", 0.2)
    finish, late = asyncio.Event(), app.task("late")(lambda: None)

    @app.task
    async def long() -> None:
        await finish.wait()

    def open_store(url: str, _services: object) -> SqliteStore:
        store = AnswersLate(url)
        store.claimed, store.answers = threading.Event(), threading.Event()
        return store

    async def scene(store: Any) -> None:
        worker = app.wiring.build_worker(2)
        running = asyncio.create_task(worker.run())
        first = long.enqueue()
        await asyncio.to_thread(eventually, lambda: app.job(first.id).state is State.RUNNING)
        second = late.enqueue()
        assert await asyncio.to_thread(store.claimed.wait, SOON)
        worker.stop()
        await asyncio.to_thread(eventually, lambda: app.job(second.id).state is State.QUEUED)
        assert (app.job(second.id).losses, app.job(first.id).state) == (0, State.RUNNING)
        store.answers.set()
        finish.set()
        await running
        assert (app.job(second.id).state, app.job(second.id).attempt) == (State.QUEUED, 1)

    with app.wiring.use(AppParts(open_store=open_store)):
        app.migrate()
        asyncio.run(scene(app.store))


def test_a_lock_held_for_too_long_raises_an_error_in_the_caller(app: App, tmp_path: Path) -> None:
    app.settings = replace(app.settings, store_timeout=timedelta(seconds=0.1))
    task = app.task("task")(lambda: None)
    app.migrate()
    with (tmp_path / "jobs.db-lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="is locked by another program for too long"):
            task.enqueue()
    assert app.jobs().jobs == (), "a refused job is not stored later"


def test_a_worker_whose_app_was_closed_raises_store_closed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mulligan.worker.worker.GRACE_SECONDS", 0.3)
    monkeypatch.setattr("mulligan.worker.worker.PATIENCE_SECONDS", 0.3)

    @app.task
    def closing() -> None:
        app.close()

    closing.enqueue()
    with pytest.raises(StoreClosed, match=r"app.close\(\) was called"):
        app.run_until_idle(timeout="60s")


def test_a_worker_whose_app_was_closed_counts_the_outcomes_it_could_not_store(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    all_threads = threading.Barrier(3, action=app.close)

    @app.task
    def closing() -> None:
        all_threads.wait(30)

    app.enqueue_many(closing.bind() for _ in range(3))
    began = time.monotonic()
    with pytest.raises(StoreClosed):
        app.run_until_idle(concurrency=3)
    assert time.monotonic() - began < 5, "the worker does not wait for settles that nothing makes any more"
    assert "3 outcomes could not be stored; their jobs run again" in caplog.messages
    assert {job.state for job in app.jobs().jobs} == {State.RUNNING}, "another worker reclaims them"
