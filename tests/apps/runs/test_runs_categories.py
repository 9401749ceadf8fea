"""R1: only runs of allowed categories are polled and claimed, and a changed configuration is taken up."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from apps.runs.app import open_verifier
from apps.runs.board import RunBoard
from apps.runs.configuration import BadConfiguration, Configuration, ConfigurationFile, read_configuration
from apps.runs.words import Word
from apps.runs.working import run_worker
from runs_world import World, honest

from live import eventually
from mulligan import JobFilter


@contextmanager
def worker(world: World) -> Iterator[None]:
    with run_worker(world.verifier, concurrency=2):
        yield


def test_r1_runs_of_other_categories_are_not_polled(world: World) -> None:
    world.configure(categories=["taxi"])
    world.submit(honest("a", "taxi"), honest("b", "cartpole"))
    world.verify_all()
    assert world.stored() == ["a"]


def test_r1_a_run_that_was_not_asked_for_is_not_stored(quick_world: World) -> None:
    """The leaderboard lists a run under a category that is not the run's own."""
    run = honest("a", "cartpole")
    quick_world.board.add("taxi", run.claim, "a", b"{}")
    quick_world.verify_all()
    assert quick_world.stored() == []


def test_r1_a_stored_run_of_a_category_that_is_no_longer_allowed_is_not_claimed(world: World) -> None:
    world.submit(honest("new", "taxi"), honest("retried", "taxi"), honest("other", "cartpole"))
    world.break_answers("broken", run="retried")
    world.app.pause(kind="verify", actor="test")
    with worker(world):
        world.poll()
        eventually(lambda: len(world.stored()) == 3)
        # A configuration that changes while the worker runs.
        world.configure(categories=["cartpole"])
        eventually(lambda: _queues(world) == {"default", "category:cartpole"})
        world.app.resume(kind="verify", actor="test")
        eventually(lambda: world.outcome("other") is not None)
        assert {world.job(run).state for run in ("new", "retried")} == {"queued"}
        board = RunBoard(world.verifier)
        shown = [board.find(run) for run in ("new", "retried", "other")]
        assert [each and each.is_stranded for each in shown] == [True, True, False]
        (taxi,) = [each for each in board.categories() if each.name == "taxi"]
        assert (taxi.is_allowed, taxi.pending) == (False, 2)
        assert world.board.fetched == ["other"]
        # Allowed again, they are claimed.
        world.configure(categories=["cartpole", "taxi"])
        eventually(lambda: world.outcome("new") is not None and world.job("retried").state == "waiting")


def _queues(world: World) -> set[str]:
    return {queue for each in world.app.workers() for queue in each.queues or ()}


def test_r1_a_due_retry_of_a_category_that_is_no_longer_allowed_is_not_claimed(world: World) -> None:
    world.submit(honest("a", "taxi", day=0))
    world.break_answers("broken", run="a")
    world.verify_all()
    world.configure(categories=["cartpole"])
    world.app.run_now(world.job("a").id, actor="ann")
    world.submit(honest("b", "cartpole", day=1))
    with worker(world):
        world.poll()
        eventually(lambda: "b" in world.stored() and world.outcome("b") is not None)
        eventually(lambda: world.job("a").state == "queued")
    shown = RunBoard(world.verifier).find("a")
    assert shown is not None
    assert (shown.word, shown.is_stranded, shown.error_class) == (Word.ERROR, True, "retryable")
    assert world.board.fetched == ["a", "b"]


def test_r3_a_changed_configuration_reaches_a_worker_that_runs(quick_world: World) -> None:
    world = quick_world
    world.configure(retry={"initial_backoff": 3600, "max_backoff": 3600})
    world.submit(honest("a"))
    world.break_answers("broken", times=100)
    with worker(world):
        world.poll()
        eventually(lambda: bool(world.stored()) and world.job("a").state == "waiting")
        world.configure(retry={"max_attempts": 2, "initial_backoff": 3600, "max_backoff": 3600})
        eventually(lambda: world.app.job(world.job("a").id).max_attempts == 2)
        world.app.run_now(world.job("a").id, actor="ann")
        eventually(lambda: world.job("a").state == "failed")
    assert world.job("a").failures == 2


def test_a_change_is_taken_up_once_however_many_threads_ask(tmp_path: Path) -> None:
    taken, both = list[Configuration](), threading.Barrier(2)

    def take(configuration: Configuration) -> None:
        taken.append(configuration)
        # Another thread in here would end this wait.
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.2 if len(taken) > 1 else 0)

    path = tmp_path / "runs.yaml"
    path.write_text("categories: [taxi]")
    file = ConfigurationFile(path, take)
    path.write_text("categories: [cartpole]")
    both.reset()
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(lambda: file.current) for _ in range(2)]
    assert [each.result().categories for each in asked] == [("cartpole",)] * 2
    assert [each.categories for each in taken] == [("taxi",), ("cartpole",)]


def test_a_broken_configuration_changes_nothing_and_is_said(quick_world: World) -> None:
    before = quick_world.verifier.configuration.current
    quick_world.file.write_text("categories: [taxi\n")
    assert quick_world.verifier.configuration.current == before
    assert "flow sequence" in (quick_world.verifier.configuration.problem or "")
    quick_world.file.unlink()
    assert quick_world.verifier.configuration.current == before
    assert "cannot be read" in (quick_world.verifier.configuration.problem or "")
    quick_world.file.write_text("{}")
    assert quick_world.verifier.configuration.current.categories == ()
    assert quick_world.verifier.configuration.problem is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("retry: {max_atempts: 3}", "max_atempts"),
        ("retry: {max_attempts: 0}", "max_attempts"),
        ("retry: {initial_backoff: soon}", "soon"),
        ("retry: {backoff_multiplier: 0}", "factor"),
        ("leaderboard: ftp://example.org", "leaderboard"),
        ("categories: [../../etc]", "categories"),
        ("timeout: 0", "timeout"),
        ("timeout: 241", "timeout"),
        ("- a list", "object"),
        ("x: !!python/object/apply:os.system [id]", "python"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_with_its_reason(content: str, said: str) -> None:
    with pytest.raises(BadConfiguration, match=said):
        read_configuration(content.encode())


def test_r3_the_defaults_are_those_of_the_document() -> None:
    retry = read_configuration(b"").retry
    assert (retry.max_attempts, retry.initial_backoff, retry.max_backoff, retry.backoff_multiplier) == (
        *(8, "60s"),
        *("3600s", 2.0),
    )


def test_the_schedule_starts_a_poll(quick_world: World) -> None:
    quick_world.submit(honest("a"))
    file, url = quick_world.file, quick_world.app.settings.database_url
    with open_verifier(url, file, ticks="* * * * * *") as verifier, run_worker(verifier, concurrency=1):
        eventually(lambda: quick_world.stored() == ["a"] and quick_world.outcome("a") is not None)
    assert quick_world.app.jobs(JobFilter(kind="tick")).jobs
