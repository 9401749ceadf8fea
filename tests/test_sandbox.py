import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mulligan import App, BatchState, Exponential, Fixed, RetryPolicy, State, Steps, attempt
from mulligan.store.messages import Claim
from mulligan.store.sqlite import SqliteStore
from mulligan.testing import flaky, hanging, sandbox


def test_the_time_of_the_app_is_that_of_its_store_and_simulated_in_a_sandbox(app: App) -> None:
    assert abs(app.now() - datetime.now(UTC)) < timedelta(minutes=1)
    with sandbox(app, now=datetime(2024, 2, 29, tzinfo=UTC)) as box:
        box.advance("1d")
        assert app.now() == box.now == datetime(2024, 3, 1, tzinfo=UTC)


def test_fails_twice_waits_one_and_five_minutes_succeeds() -> None:
    app = App("sqlite:////a/folder/that/does/not/exist.db")
    convert = app.task("convert", retry=RetryPolicy(4, Steps(["1m", "5m", "15m"])))(flaky(2))
    with sandbox(app) as box:
        job = convert.enqueue()
        box.run()
        assert app.job(job.id).due_at - box.now == timedelta(minutes=1)
        box.advance("1m")
        assert app.job(job.id).due_at - box.now == timedelta(minutes=5)
        box.advance("4m59s")
        assert app.job(job.id).state is State.WAITING
        box.advance("1s")
        assert (app.job(job.id).state, app.job(job.id).result) == (State.SUCCEEDED, 3)


def test_every_job_runs_at_its_own_time_while_time_passes() -> None:
    app = App("sqlite:///:memory:")
    ran = []
    with sandbox(app, now=datetime(2026, 1, 1, tzinfo=UTC)) as box:

        @app.task(retry=RetryPolicy(3, Fixed("1h")))
        async def hourly() -> None:
            ran.append(box.now)
            raise RuntimeError("once more")

        hourly.enqueue()
        box.advance("1d")
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        assert ran == [begin, begin + timedelta(hours=1), begin + timedelta(hours=2)]
        assert box.now == begin + timedelta(days=1)


def test_one_worker_serves_all_ticks_of_a_schedule_each_at_its_time() -> None:
    began: list[datetime] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        began.append(box.now)
        yield

    app = App("sqlite:///:memory:", lifespan=lifespan)
    ran: list[datetime] = []

    @app.cron("* * * * *")
    @app.task
    def minutely() -> None:
        ran.append(box.now)

    with sandbox(app, now=datetime(2026, 1, 1, tzinfo=UTC)) as box:
        start = box.now
        box.advance("3h")
        assert ran == [start + timedelta(minutes=number) for number in range(1, 181)]
        assert began == [start], "to start a worker takes longer than what a tick does"


def test_a_tick_of_a_schedule_costs_few_statements_and_no_claim_in_vain() -> None:
    app = App("sqlite:///:memory:")

    @app.cron("* * * * *")
    @app.task
    def minutely() -> None: ...

    with sandbox(app) as box:
        box.advance("10m")
        statements: list[str] = []
        assert isinstance(app.store, SqliteStore)
        app.store._database._connection.set_trace_callback(statements.append)
        box.advance("2h")
        claims = sum(text.startswith("-- Lanes to claim from") for text in statements)
        # What an advance costs by itself, and each of its ticks.
        assert len(statements) <= 40 + 23 * 120
        assert claims <= 2 + 120
        assert app.store.counts()["minutely"] == {"succeeded": 130}


def test_schedules_tick_while_a_task_takes_its_time() -> None:
    app = App("sqlite:///:memory:")
    ran: list[datetime] = []

    @app.cron("*/10 * * * *")
    @app.task
    def often() -> None:
        ran.append(box.now)

    @app.task(timeout="2h")
    async def slow() -> None:
        await asyncio.sleep(3600)

    with sandbox(app, now=datetime(2026, 1, 1, tzinfo=UTC)) as box:
        box.run()
        slow.enqueue()
        box.advance("1m")
        assert len(ran) == 6, "an hour has passed"


def test_a_job_that_another_worker_left_running_is_taken_back() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task")(flaky(0))
    with sandbox(app) as box:
        job = task.enqueue()
        claim = Claim(incarnation="lost", number=1, kinds=["task"], limit=1, lease=timedelta(minutes=1))
        assert app.store.claim(claim).leases
        box.advance("5m")
        assert (app.job(job.id).state, app.job(job.id).losses) == (State.SUCCEEDED, 0)
        assert app.job(job.id).attempt == 2


def test_nothing_sleeps_neither_the_task_nor_its_timeout() -> None:
    app = App("sqlite:///:memory:")

    @app.task(timeout="2h")
    async def slow() -> str:
        await asyncio.sleep(3600)
        return "an hour later"

    stuck = app.task("stuck", timeout="10m", retry=RetryPolicy(1))(hanging())
    began = time.monotonic()
    with sandbox(app) as box:
        start = box.now
        assert app.wait(slow.enqueue()) == "an hour later"
        assert box.now - start >= timedelta(hours=1)
        job = stuck.enqueue()
        box.run()
        assert app.job(job.id).error_code == "TIMEOUT"
    assert time.monotonic() - began < 30


def test_the_app_is_as_before_afterwards_and_its_database_was_never_touched(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/real.db")
    task = app.task("task")(flaky(0))
    with sandbox(app):
        task.enqueue()
    assert not (tmp_path / "real.db").exists()
    assert app.jobs().jobs == ()
    app.close()


def test_two_sandboxes_with_one_seed_do_the_same() -> None:
    def delays() -> list[float]:
        app = App("sqlite:///:memory:")
        task = app.task("task", retry=RetryPolicy(6, Exponential("10s", jitter=0.5)))(flaky(5))
        with sandbox(app, seed=3) as box:
            job = task.enqueue()
            box.advance("1h")
            return [event.data["delay"] for event in app.events(job.id) if event.type == "job.retried"]

    first = delays()
    assert first == delays()
    assert len(set(first)) == 5


def test_it_works_inside_an_async_test() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task")(flaky(0))

    async def scene() -> int | None:
        with sandbox(app) as box:
            job = await task.enqueue_async()
            box.run()
            return app.job(job.id).result

    assert asyncio.run(scene()) == 1


def test_a_job_made_by_a_job_runs_too() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def child(number: int) -> int:
        return number + 1

    @app.task
    def parent() -> str:
        return child.enqueue(attempt().number).id

    with sandbox(app) as box:
        job = parent.enqueue()
        box.run()
        assert app.job(app.job(job.id).result).result == 2


def test_a_task_that_is_past_its_deadline_never_runs() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task")(flaky(0))
    with sandbox(app) as box:
        job = task.options(delay="2h", deadline="1h").enqueue()
        box.advance("3h")
        found = app.job(job.id)
        assert (found.state, found.error_code, found.attempt) == (State.FAILED, "DEADLINE", 0)
        again = app.retry(job.id)
        box.run()
        assert app.job(again.id).state is State.SUCCEEDED, "a deadline that is over does not end a manual retry"


def test_a_batch_expires_at_its_date() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def fine() -> None: ...

    with sandbox(app) as box:
        batch = app.batch("spring", expires_in="1h")
        batch.add(fine.bind())
        batch.publish()
        box.advance("59m")
        assert batch.refresh().state is BatchState.READY
        box.advance("1m")
        assert batch.refresh().state is BatchState.EXPIRED
        (expired,) = [event for event in app.events() if event.type == "batch.expired"]
        assert expired.at == box.now


def test_a_job_fails_at_its_deadline_not_when_it_would_have_run() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def late() -> None: ...

    with sandbox(app) as box:
        job = late.options(delay="2h", deadline="1h").enqueue()
        box.advance("90m")
        found = app.job(job.id)
        assert (found.state, found.finished_at) == (State.FAILED, box.now - timedelta(minutes=30))


def test_time_passes_though_what_has_ended_is_not_let_go() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def late() -> None: ...

    with sandbox(app) as box:
        app.pause(duty="expire")
        job = late.options(delay="2h", deadline="1h").enqueue()
        box.advance("90m")
        assert app.job(job.id).state is State.WAITING
