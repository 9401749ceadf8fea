"""Hooks on real workers: around each attempt, around the worker, after a failure for good."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import hooked_tasks
import pytest

from live import SOON, eventually, working
from mulligan import App, FinalError, Fixed, JobFilter, RetryPolicy, State, attempt
from mulligan.attempt import Attempt
from mulligan.errors import BadHook, BadTask, InvalidArguments, LifespanFailed
from mulligan.testing import sandbox

once = RetryPolicy(1)
again = RetryPolicy(3, backoff=Fixed("0s"))


def run(app: App) -> None:
    app.run_until_idle(retries=True, timeout="20s")


# Around


def plain_hook(name: str, seen: list[str]) -> Callable[[Attempt], Any]:
    @contextlib.contextmanager
    def hook(_attempt: Attempt) -> Iterator[None]:
        seen.append(f"{name} in")
        yield
        seen.append(f"{name} out")

    return hook


def async_hook(name: str, seen: list[str]) -> Callable[[Attempt], Any]:
    @contextlib.asynccontextmanager
    async def hook(_attempt: Attempt) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        seen.append(f"{name} in")
        yield
        await asyncio.sleep(0)
        seen.append(f"{name} out")

    return hook


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("sorts", ["pp", "aa", "pa", "ap", "pap", "apa"])
def test_hooks_nest_in_the_order_of_their_registration(app: App, sorts: str, is_async: bool) -> None:
    seen: list[str] = []
    for number, sort in enumerate(sorts):
        app.around((plain_hook if sort == "p" else async_hook)(str(number), seen))

    def body() -> int:
        seen.append("body")
        return 7

    async def body_async() -> int:
        return body()

    job = app.task("work")(body_async if is_async else body).enqueue()
    run(app)
    numbers = range(len(sorts))
    assert seen == [*(f"{n} in" for n in numbers), "body", *(f"{n} out" for n in reversed(numbers))]
    assert app.job(job.id).result == 7


def test_a_plain_hook_shares_thread_and_context_with_a_plain_task(app: App) -> None:
    told: ContextVar[str] = ContextVar("told", default="")
    threads = set()

    @app.around
    def hook(wrapped: Attempt) -> Iterator[None]:
        assert wrapped is attempt()
        threads.add(threading.get_ident())
        told.set(f"attempt {wrapped.number} of {wrapped.job.kind}")
        yield
        threads.add(threading.get_ident())

    @app.task
    def work() -> str:
        threads.add(threading.get_ident())
        return told.get()

    job = work.enqueue()
    run(app)
    assert app.wait(job, timeout=SOON) == "attempt 1 of work"
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_hook_may_take_no_argument_and_be_a_bare_async_generator(app: App) -> None:
    seen = []

    @app.around
    async def hook() -> AsyncIterator[None]:
        seen.append(attempt().number)
        yield

    @app.task
    async def work() -> None:
        pass

    work.enqueue()
    run(app)
    assert seen == [1]


def test_every_attempt_is_wrapped(app: App) -> None:
    numbers = []

    @app.around
    def hook(wrapped: Attempt) -> Iterator[None]:
        numbers.append(wrapped.number)
        yield

    @app.task(retry=again)
    def work() -> None:
        if attempt().number < 3:
            raise OSError("not yet")

    job = work.enqueue()
    run(app)
    assert (numbers, app.job(job.id).state) == ([1, 2, 3], State.SUCCEEDED)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("maker", [plain_hook, async_hook])
def test_an_error_of_a_hook_before_the_body_is_a_failure_like_others(
    app: App, maker: Callable[..., Any], is_async: bool
) -> None:
    seen: list[str] = []
    ran = []
    app.around(maker("outer", seen))

    @app.around
    def refuse() -> Iterator[None]:
        raise FinalError("no licence", code="NO_LICENCE")
        yield

    def body() -> None:
        ran.append(1)

    async def body_async() -> None:
        ran.append(1)

    job = app.task("work")(body_async if is_async else body).enqueue()
    run(app)
    found = app.job(job.id)
    assert (found.state, found.error_code, ran, seen) == (State.FAILED, "NO_LICENCE", [], ["outer in"])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_hook_sees_the_failure_but_cannot_make_it_a_success(app: App, is_async: bool) -> None:
    seen = []

    @app.around
    def swallow() -> Iterator[None]:
        with contextlib.suppress(KeyError):
            yield
        seen.append("swallowed")

    @app.around
    async def look() -> AsyncIterator[None]:
        try:
            yield
        except KeyError as error:
            seen.append(repr(error))
            raise

    def body() -> None:
        raise KeyError("order")

    async def body_async() -> None:
        raise KeyError("order")

    job = app.task("work", retry=once)(body_async if is_async else body).enqueue()
    run(app)
    assert seen == ["KeyError('order')", "swallowed"]
    assert (app.job(job.id).state, app.job(job.id).failures) == (State.FAILED, 1)


def test_a_hook_may_say_what_a_failure_is(app: App) -> None:
    @app.around
    def translate() -> Iterator[None]:
        try:
            yield
        except KeyError as error:
            raise FinalError("no such order", code="NO_ORDER") from error

    @app.task
    def work() -> None:
        raise KeyError("order")

    job = work.enqueue()
    run(app)
    assert (app.job(job.id).error_code, app.job(job.id).attempt) == ("NO_ORDER", 1)


def test_an_error_of_a_hook_after_the_body_fails_the_attempt(app: App) -> None:
    @app.around
    def commit() -> Iterator[None]:
        yield
        if attempt().number == 1:
            raise OSError("the commit failed")

    @app.task(retry=again)
    def work() -> str:
        return "done"

    job = work.enqueue()
    run(app)
    assert (app.wait(job, timeout=SOON), app.job(job.id).failures) == ("done", 1)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_hook_that_hangs_is_ended_by_the_timeout(app: App, is_async: bool) -> None:
    @app.around
    async def hang() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(600)

    def body() -> None:
        pass

    async def body_async() -> None:
        pass

    job = app.task("work", retry=once, timeout="0.2s")(body_async if is_async else body).enqueue()
    run(app)
    assert (app.job(job.id).state, app.job(job.id).error_code) == (State.FAILED, "TIMEOUT")


def test_a_hook_that_returns_no_context_manager_fails_with_a_helpful_message(app: App) -> None:
    @app.around
    def wrong(_attempt: Attempt) -> int:
        return 7

    @app.task(retry=once)
    def work() -> None:
        pass

    job = work.enqueue()
    run(app)
    assert "must be a function that returns a context manager" in app.events(job.id)[-1].data["detail"]


def test_a_value_that_cannot_be_a_hook_is_refused_at_once(app: App) -> None:
    async def coroutine() -> None:
        pass

    for wrong in (None, 7, coroutine, divmod):
        with pytest.raises(BadHook, match=r"around is .*, but it must be a function that returns a context manager"):
            app.around(wrong)  # type: ignore[type-var]
    with pytest.raises(BadHook, match="but it must be a function that returns a context manager"):
        App("sqlite:///:memory:", lifespan=coroutine)


# Lifespan


def test_a_lifespan_is_entered_before_the_first_claim_and_left_after_the_last_settle(tmp_path: Path) -> None:
    seen: list[tuple[str, State]] = []

    @contextlib.asynccontextmanager
    async def lifespan(mine: App) -> AsyncIterator[str]:
        assert mine is app
        seen.append(("begin", app.job(job.id).state))
        yield "a pool"
        seen.append(("end", app.job(job.id).state))

    with App(f"sqlite:///{tmp_path}/jobs.db", lifespan=lifespan) as app:

        @app.task
        def work() -> str:
            return str(attempt().resources)

        job = work.enqueue()
        run(app)
        assert seen == [("begin", State.QUEUED), ("end", State.SUCCEEDED)]
        assert app.wait(job, timeout=SOON) == "a pool"
        job = work.enqueue()
        with working(app):
            assert app.wait(job, timeout=SOON) == "a pool"
            assert len(seen) == 3
        assert [word for word, _ in seen] == ["begin", "end"] * 2
    assert attempt().resources is None


def test_a_plain_lifespan_works_and_so_does_the_sandbox() -> None:
    seen = []

    def lifespan() -> Iterator[int]:
        seen.append("begin")
        yield 7
        seen.append("end")

    app = App("sqlite:///never.db", lifespan=lifespan)

    @app.around
    async def hook() -> AsyncIterator[None]:
        seen.append("hook")
        yield

    @app.task(isolate=True)
    def work() -> int:
        return int(attempt().resources)

    with sandbox(app) as box:
        job = work.enqueue()
        box.run()
        assert (app.wait(job, timeout=SOON), seen) == (7, ["begin", "hook", "end"])


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_in_the_lifespan_stops_the_worker_with_one_sentence(tmp_path: Path, is_async: bool) -> None:
    def plain() -> Iterator[None]:
        raise ValueError("the pool is empty")
        yield

    async def awaited() -> AsyncIterator[None]:
        raise ValueError("the pool is empty")
        yield

    with App(f"sqlite:///{tmp_path}/jobs.db", lifespan=awaited if is_async else plain) as app:
        job = app.task("work")(lambda: None).enqueue()
        sentence = "the lifespan of the app failed before the first claim: ValueError: the pool is empty"
        with pytest.raises(LifespanFailed, match=f"^{sentence}$"):
            run(app)
        with pytest.raises(LifespanFailed):
            asyncio.run(_enter(app))
        assert (app.job(job.id).state, app.job(job.id).attempt) == (State.QUEUED, 0)


async def _enter(app: App) -> None:
    async with app.worker():
        raise AssertionError("it must not begin")


def test_an_error_at_the_end_of_the_lifespan_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    def lifespan() -> Iterator[None]:
        yield
        raise OSError("the pool does not close")

    with App(f"sqlite:///{tmp_path}/jobs.db", lifespan=lifespan) as app:
        job = app.task("work")(lambda: None).enqueue()
        with pytest.raises(LifespanFailed, match="failed at the end, after all was settled: OSError: the pool"):
            run(app)
        assert app.job(job.id).state is State.SUCCEEDED


def test_a_worker_that_times_out_still_leaves_its_lifespan(tmp_path: Path) -> None:
    seen = []

    def lifespan() -> Iterator[None]:
        yield
        seen.append("end")

    with App(f"sqlite:///{tmp_path}/jobs.db", lifespan=lifespan) as app:

        @app.task
        async def work() -> None:
            await asyncio.sleep(600)

        work.enqueue()
        work.options(delay="1h").enqueue()
        with pytest.raises(TimeoutError, match=r"^not idle after 200ms: 1 waiting, 1 (queued|running)$"):
            app.run_until_idle(timeout="0.2s")
        assert seen == ["end"]


def test_the_command_reports_it_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mulligan", "worker", "hooked_tasks:app"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOOKED_TASKS_BROKEN": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 5
    sentence = "the lifespan of the app failed before the first claim: ValueError: the pool is empty"
    assert done.stderr.splitlines()[-1] == f"Error: {sentence}"
    assert "Traceback" not in done.stderr


# In child processes


@pytest.fixture
def hooked() -> Iterator[App]:
    with hooked_tasks.app as app:
        yield app


def test_hooks_and_lifespan_run_in_children_too(hooked: App) -> None:
    jobs = [task.enqueue() for task in (hooked_tasks.in_child, hooked_tasks.in_child_async, hooked_tasks.in_thread)]
    hooked.run_until_idle(concurrency=1, timeout="20s")
    (child, theirs), (child_again, _), (mine, ours) = [hooked.wait(job, timeout=SOON) for job in jobs]
    assert (child, child_again, mine) == (theirs, theirs, ours)
    assert ours == os.getpid() != theirs
    kinds = {"in_child": theirs, "in_child_async": theirs, "in_thread": ours}
    for kind, pid in kinds.items():
        lines = [line for where, line in hooked_tasks.diary() if where == pid and line.endswith(f" {kind}")]
        assert lines == [f"awaited in {kind}", f"plain in {kind}", f"plain out {kind}", f"awaited out {kind}"]
    for pid in (ours, theirs):
        own = [line for where, line in hooked_tasks.diary() if where == pid]
        assert (own[0], own[-1]) == ("begin", "end")
        assert (own.count("begin"), own.count("end")) == (1, 1)


def test_a_hook_in_a_child_sees_the_failure_and_the_timeout(hooked: App) -> None:
    failed = hooked_tasks.fails_in_child.enqueue()
    hung = hooked_tasks.hangs_in_child.options(deadline="10m").enqueue()
    with working(hooked):
        eventually(lambda: hooked.job(failed.id).state is State.FAILED)
        eventually(lambda: hooked.job(hung.id).failures)
        hooked.cancel(hung.id)
    lines = [line for _, line in hooked_tasks.diary()]
    assert "plain saw no such order" in lines
    assert "awaited out hangs_in_child" in lines, "it was asked to stop and could clean up"
    assert {event.code for event in hooked.events(hung.id) if event.code} == {"TIMEOUT"}


def test_a_lifespan_that_fails_in_children_only_stops_the_worker(hooked: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with hooked.worker():
            raise AssertionError("it must not begin")

    # This process has entered its own lifespan by then.
    monkeypatch.setattr(hooked.hooks, "lifespan", None)
    monkeypatch.setenv("HOOKED_TASKS_BROKEN", "1")
    with pytest.raises(BadTask, match=r"child process, which cannot load it: the lifespan of the app failed .* empty$"):
        asyncio.run(work())


# After a failure for good


def test_on_failed_runs_with_the_id_of_the_failed_job(app: App) -> None:
    seen = []

    @app.task(queue="cleaning", priority="high")
    def clean_up(job_id: str) -> None:
        seen.append((job_id, app.job(job_id).error_code, attempt().job.owner))

    @app.task(retry=again, on_failed=clean_up)
    def work() -> None:
        raise OSError("always")

    job = work.options(owner="acme").enqueue()
    run(app)
    assert seen == [(job.id, app.job(job.id).error_code, "acme")]
    (followed,) = app.jobs(JobFilter(kind="clean_up")).jobs
    assert (followed.queue, followed.priority, followed.state) == ("cleaning", -10, State.SUCCEEDED)
    app.retry(job.id)
    run(app)
    assert len(seen) == 2


def test_an_on_failed_that_fails_has_its_own_policy_and_comes_to_an_end(app: App) -> None:
    seen = []

    @app.task(retry=once)
    def last(job_id: str) -> None:
        seen.append(("last", app.job(job_id).kind))
        raise OSError("this one too")

    @app.task(retry=RetryPolicy(2, backoff=Fixed("0s")), on_failed=last)
    async def clean_up(job_id: str) -> None:
        seen.append(("clean up", app.job(job_id).kind))
        raise OSError("no")

    @app.task(retry=once, on_failed=clean_up)
    def work() -> None:
        raise OSError("no")

    work.enqueue()
    run(app)
    assert seen == [("clean up", "work"), ("clean up", "work"), ("last", "clean_up")]


def test_jobs_enqueued_together_or_in_a_foreign_transaction_are_followed_too(app: App, tmp_path: Path) -> None:
    import sqlite3

    seen = []

    @app.task
    def clean_up(job_id: str) -> None:
        seen.append(job_id)

    @app.task(retry=once, on_failed=clean_up)
    def work(_number: int) -> None:
        raise FinalError("no")

    jobs = app.enqueue_many([work.bind(1), work.bind(2)])
    connection = sqlite3.connect(tmp_path / "jobs.db")
    with connection:
        jobs.append(work.options(connection=connection).enqueue(3))
    connection.close()
    run(app)
    assert sorted(seen) == sorted(job.id for job in jobs)


def test_a_value_that_cannot_be_on_failed_is_refused_at_once(app: App) -> None:
    @app.task
    def fine(job_id: str) -> None: ...

    @app.task
    def takes_nothing() -> None: ...

    @app.task(service=lambda job_id: job_id)
    def chooses(job_id: str) -> None: ...

    @App("sqlite:///:memory:").task
    def elsewhere(job_id: str) -> None: ...

    for wrong, words in (
        (print, "must be a task of the same app"),
        (takes_nothing, "is called with one argument, the failed job's id"),
        (chooses, "the service of 'chooses' must be a name"),
        (elsewhere, "must be a task of the same app"),
    ):
        with pytest.raises(BadTask, match=words):
            app.task("work", on_failed=wrong)(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(BadTask, match="cannot be its own on_failed"):
        app.task("fine", on_failed=fine)(lambda: None)


def test_an_on_failed_whose_annotation_does_not_fit_is_named_before_work_begins(app: App) -> None:
    @app.task
    def counts(job_id: int) -> None: ...

    @app.task(on_failed=counts)
    def work() -> None: ...

    with pytest.raises(InvalidArguments, match="'counts'"):
        run(app)
    with pytest.raises(InvalidArguments, match="'counts'"):
        work.enqueue()


# Versions


def test_the_version_is_on_the_job_and_in_its_events(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db", version="2026.11") as app:
        job = app.task("work")(lambda: None).enqueue()
        run(app)
        assert app.job(job.id).version == "2026.11"
        assert [found.id for found in app.jobs(JobFilter(version="2026.11")).jobs] == [job.id]
        assert app.jobs(JobFilter(version="2026.10")).jobs == ()
        assert any("version 2026.11" in str(line) for line in app.explain(job.id).happened)
    with pytest.raises(BadTask, match="the version of an app is '', but it must be one line"):
        App("sqlite:///:memory:", version="")
