"""R2, R3 and R5, with the numbers of the document, in simulated time; the leaderboard and its faults are real."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from apps.runs.app import open_verifier
from apps.runs.reports import status
from apps.runs.words import ShownRun, Word, describe
from apps.runs.working import run_worker
from runs_world import HUNDREDTH, NEVER, World, honest

from live import eventually
from mulligan import JobFilter
from mulligan.store.messages import Claim
from mulligan.testing import sandbox

DELAYS = [60, 120, 240, 480, 960, 1920, 3600]


class SimulatedWorld:
    def __init__(self, world: World, box: object) -> None:
        self.world, self.box = world, box

    def poll(self) -> None:
        self.world.poll()
        self.box.run()  # type: ignore[attr-defined]

    def advance(self, seconds: float) -> None:
        self.box.advance(timedelta(seconds=seconds))  # type: ignore[attr-defined]

    def seconds_until(self, run: str) -> float:
        """Until the next retry."""
        job = self.world.job(run)
        assert job.state == "waiting", job
        return (job.due_at - self.box.now).total_seconds()  # type: ignore[attr-defined,no-any-return]

    def show(self, run: str):  # type: ignore[no-untyped-def]
        return describe(self.world.run(run), self.world.job(run), self.world.verifier.configuration.current)


@pytest.fixture
def simulated(quick_world: World) -> Iterator[SimulatedWorld]:
    with simulate(quick_world) as found:
        yield found


@contextmanager
def simulate(world: World) -> Iterator[SimulatedWorld]:
    with sandbox(world.app) as box:
        yield SimulatedWorld(world, box)


def test_r3_the_backoff_is_that_of_the_document(simulated: SimulatedWorld) -> None:
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("broken", times=100)
    simulated.poll()
    seen = []
    while world.job("a").state == "waiting":
        seen.append(simulated.seconds_until("a"))
        simulated.advance(seen[-1])
    assert seen == DELAYS
    assert (world.job("a").state, world.job("a").attempt, len(world.board.fetched)) == ("failed", 8, 8)


def test_r3_a_retry_is_not_made_before_its_time(simulated: SimulatedWorld) -> None:
    simulated.world.submit(honest("a"))
    simulated.world.break_answers("broken")
    simulated.poll()
    simulated.advance(59)
    assert simulated.world.board.fetched == ["a"]
    simulated.advance(1)
    assert simulated.world.board.fetched == ["a", "a"]
    assert simulated.world.outcome("a") == "NeedsReview"


def test_r3_the_keys_of_the_configuration_are_those_of_the_document(quick_world: World) -> None:
    retry = {"max_attempts": 4, "initial_backoff": "10s", "backoff_multiplier": 3.0, "max_backoff": "60s"}
    quick_world.configure(retry=retry)
    assert quick_world.verifier.configuration.current.retry.max_attempts == 4
    quick_world.submit(honest("a"))
    quick_world.break_answers("broken", times=100)
    with simulate(quick_world) as simulated:
        simulated.poll()
        seen = []
        while quick_world.job("a").state == "waiting":
            seen.append(simulated.seconds_until("a"))
            simulated.advance(seen[-1])
        assert seen == [10, 30, 60]


def test_r3_a_changed_configuration_is_taken_up_by_stored_runs(simulated: SimulatedWorld) -> None:
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("broken", times=100)
    simulated.poll()
    world.configure(retry={"max_attempts": 2, "initial_backoff": "5s"})
    assert world.verifier.configuration.current.retry.max_attempts == 2
    simulated.advance(60)
    assert (world.job("a").state, world.job("a").failures) == ("failed", 2)


def test_r2_a_final_error_is_not_retried(simulated: SimulatedWorld) -> None:
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("garbage")
    simulated.poll()
    job = world.job("a")
    assert (job.state, job.error_class, job.error_code, job.attempt) == ("failed", "final", "REPLAY_INVALID", 1)


@pytest.mark.parametrize(
    ("fault", "code"),
    [("broken", "HTTP_5XX"), ("silent", "TIMEOUT"), ("slow", "TIMEOUT"), ("cut", "HTTP_BROKEN")],
)
def test_r2_a_retryable_error_counts(quick_world: World, fault: str, code: str) -> None:
    quick_world.configure(timeout=0.3)
    quick_world.submit(honest("a"))
    quick_world.break_answers(fault)
    with simulate(quick_world) as simulated:
        simulated.poll()
        job = quick_world.job("a")
        assert (job.state, job.last_class, job.last_code, job.failures) == ("waiting", "retryable", code, 1)


def test_r2_a_rate_limit_with_a_hint_waits_exactly_that_long_and_costs_no_attempt(simulated: SimulatedWorld) -> None:
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("rate_limited", retry_after="7", times=9)
    simulated.poll()
    for asked in range(1, 10):
        job = world.job("a")
        assert (job.last_class, job.failures, job.retry_count, len(world.board.fetched)) == (
            "rate_limited",
            0,
            0,
            asked,
        )
        assert simulated.seconds_until("a") == 7
        simulated.advance(6.9)
        assert len(world.board.fetched) == asked
        simulated.advance(0.1)
    assert world.outcome("a") == "NeedsReview", "nine are more than the eight attempts"


def test_r2_hinted_waits_have_no_limit(quick_world: World) -> None:
    """Of a run that was stored when they had one, too."""
    world = quick_world
    world.submit(honest("new"), honest("stored"))
    world.break_answers("rate_limited", retry_after="600", times=4)
    world.verify_all()
    with world.verifier.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE mulligan_jobs SET snoozes = 150 WHERE kind = 'verify'")
        connection.exec_driver_sql(f"UPDATE mulligan_jobs SET max_snoozes = 100 WHERE id = '{world.job('stored').id}'")
    for run in ("new", "stored"):
        world.app.run_now(world.job(run).id, actor="ann")
    world.app.run_until_idle(timeout="30s")
    for run in ("new", "stored"):
        assert (world.job(run).state, world.job(run).snoozes) == ("waiting", 151)


def test_r2_a_hint_longer_than_the_longest_backoff_is_kept(simulated: SimulatedWorld) -> None:
    simulated.world.submit(honest("a"))
    simulated.world.break_answers("rate_limited", retry_after="172800")
    simulated.poll()
    assert simulated.seconds_until("a") == timedelta(days=2).total_seconds()


@pytest.mark.parametrize("hint", [None, "soon", ""])
def test_r2_a_rate_limit_without_a_usable_hint_backs_off_and_counts(
    simulated: SimulatedWorld, hint: str | None
) -> None:
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("rate_limited", retry_after=hint, times=100)
    simulated.poll()
    seen = []
    while world.job("a").state == "waiting":
        seen.append(simulated.seconds_until("a"))
        simulated.advance(seen[-1])
    assert seen == DELAYS
    job = world.job("a")
    assert (job.state, job.error_class, job.error_code) == ("failed", "rate_limited", "RATE_LIMITED")


def test_r2_hinted_waits_and_failures_are_counted_apart(simulated: SimulatedWorld) -> None:
    """The backoff after a hinted wait goes on where the failures before it left off."""
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("broken")
    world.break_answers("rate_limited", retry_after="5")
    world.break_answers("broken")
    simulated.poll()
    assert simulated.seconds_until("a") == 60
    simulated.advance(60)
    assert simulated.seconds_until("a") == 5
    simulated.advance(5)
    assert (simulated.seconds_until("a"), world.job("a").failures) == (120, 2)


def test_r5_a_success_clears_the_retry_fields_shown(simulated: SimulatedWorld) -> None:
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("broken")
    simulated.poll()
    shown = simulated.show("a")
    assert (shown.word, shown.retry_count, shown.error_class) == ("Error", 1, "retryable")
    assert shown.next_retry_at == world.job("a").due_at
    simulated.advance(60)
    shown = simulated.show("a")
    assert (shown.word, shown.retry_count, shown.next_retry_at) == ("NeedsReview", 0, None)
    assert (shown.error_class, shown.error_code, shown.error) == (None, None, None)


def test_r5_a_final_failure_keeps_the_error_and_its_class(simulated: SimulatedWorld) -> None:
    world = simulated.world
    world.submit(honest("a"), honest("b"))
    world.break_answers("garbage", run="a")
    world.break_answers("broken", run="b", times=100)
    simulated.poll()
    simulated.advance(sum(DELAYS))
    shown = simulated.show("a")
    assert (shown.word, shown.next_retry_at, shown.error_class, shown.error_code) == (
        *("Error", None),
        *("final", "REPLAY_INVALID"),
    )
    assert shown.error == "The replay cannot be read."
    shown = simulated.show("b")
    assert (shown.word, shown.next_retry_at, shown.error_class, shown.retry_count) == ("Error", None, "retryable", 7)


def test_r5_the_words_of_a_run_on_its_way(simulated: SimulatedWorld) -> None:
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("broken")
    simulated.poll()
    assert simulated.show("a").word == "Error"
    world.app.cancel(world.job("a").id, actor="ann")
    shown = simulated.show("a")
    assert (shown.word, shown.next_retry_at) == ("Error", None)


def test_r3_a_retry_that_is_due_or_running_keeps_its_number(quick_world: World) -> None:
    """The document clears the time of the next retry when the run is processed, and its number when it succeeds."""
    world = quick_world
    world.submit(honest("a"))
    world.break_answers("broken")
    world.verify_all()
    world.app.run_now(world.job("a").id, actor="ann")

    def show() -> ShownRun:
        return describe(world.run("a"), world.job("a"), world.verifier.configuration.current)

    assert world.job("a").state == "queued"
    assert (show().word, show().retry_count, show().next_retry_at) == ("Error", 1, world.job("a").due_at)
    a_while = timedelta(hours=1)
    world.app.store.claim(Claim(incarnation="another", number=1, kinds=("verify",), limit=1, lease=a_while))
    assert (show().word, show().retry_count, show().next_retry_at) == ("Processing", 1, None)
    assert "1/7" in status(world.verifier, Word.PROCESSING, limit=10, as_json=False)


def test_r2_a_poll_waits_as_long_as_the_leaderboard_asks(simulated: SimulatedWorld) -> None:
    """Ticks meanwhile do not ask again."""
    world = simulated.world
    world.submit(honest("a"))
    world.break_answers("rate_limited", route="runs", retry_after="300")
    tick = world.app.tasks["tick"]
    for _ in range(11):
        tick.enqueue()
        simulated.advance(27)
    assert world.board.listed == 1
    simulated.advance(4)
    assert world.stored() == ["a"]


def test_r1_a_category_that_cannot_be_listed_stops_no_other(simulated: SimulatedWorld) -> None:
    world = simulated.world
    world.submit(honest("a", "cartpole"), honest("b", "taxi"))
    world.break_answers("broken", route="runs", category="frozen-lake", times=100)
    world.break_answers("garbage", route="runs", category="cartpole")
    simulated.poll()
    assert world.stored() == ["b"]
    (poll,) = world.app.jobs(JobFilter(kind="poll")).jobs
    assert (poll.state, poll.last_code) == ("waiting", "HTTP_5XX"), "the first failure is that of the poll"
    simulated.advance(5)
    assert world.stored() == ["a", "b"]


def test_r1_the_leaderboard_is_polled_as_often_as_the_configuration_says(simulated: SimulatedWorld) -> None:
    """A changed interval counts from the next poll on."""
    world, tick = simulated.world, simulated.world.app.tasks["tick"]
    world.configure(categories=["taxi"], poll_interval=20)
    polled = []
    for second in range(0, 95, 5):
        before = world.board.listed
        tick.enqueue()
        simulated.advance(5)
        polled += [second] * (world.board.listed - before)
        if second == 60:
            world.configure(poll_interval=5)
    assert polled == [0, 20, 40, 60, 80, 85, 90]


def test_r3_what_is_logged(simulated: SimulatedWorld, caplog: pytest.LogCaptureFixture) -> None:
    """The list of the document: first attempt and retry apart, a scheduled retry with its delay, the end, a success."""
    caplog.set_level("DEBUG", logger="mulligan.worker")
    world = simulated.world
    world.submit(honest("mended"), honest("lost"))
    world.break_answers("broken", run="mended")
    world.break_answers("broken", run="lost", times=100)
    simulated.poll()
    simulated.advance(sum(DELAYS))
    mended, lost = world.job("mended").id, world.job("lost").id
    told = [
        (record.job_id, record.event, record.attempt, record.levelname)
        for record in caplog.records
        if getattr(record, "event", None) is not None
    ]
    assert (mended, "job.started", 1, "DEBUG") in told and (mended, "job.started", 2, "INFO") in told
    assert (mended, "job.retried", 1, "INFO") in told and (mended, "job.succeeded", 2, "INFO") in told
    delays = [record.delay_ms for record in caplog.records if getattr(record, "event", "") == "job.retried"]
    assert sorted(delays) == sorted([60_000, *(1_000 * delay for delay in DELAYS)])
    (end,) = [record for record in caplog.records if getattr(record, "event", "") == "job.failed"]
    assert (end.job_id, end.because, end.levelname) == (lost, "attempts exhausted", "WARNING")


def test_r3_the_state_of_a_retry_survives_a_restart(world: World) -> None:
    world.submit(honest("a"))
    world.break_answers("broken", times=2)
    world.verify_all()
    before = world.job("a")
    with open_verifier(world.app.settings.database_url, world.file, ticks=NEVER) as verifier:
        after = verifier.app.job(before.id)
        assert (after.state, after.failures, after.due_at) == ("waiting", 1, before.due_at)
        assert (after.last_class, after.last_code) == ("retryable", "HTTP_5XX")


def test_r3_a_worker_picks_up_retries_when_they_are_due(world: World) -> None:
    """In real time, with the numbers of the document divided by a hundred."""
    world.configure(retry=HUNDREDTH)
    world.submit(honest("a"))
    world.break_answers("broken", times=2)
    with run_worker(world.verifier, concurrency=1):
        world.poll()
        eventually(lambda: bool(world.stored()) and world.outcome("a") is not None)
    assert world.board.fetched == ["a", "a", "a"]
    waits = [event.data["delay"] for event in world.app.events(world.job("a").id) if event.type == "job.retried"]
    assert waits == [0.6, 1.2]
