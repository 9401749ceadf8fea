"""R1: what a replay is worth."""

import pytest
from apps.runs.environments import ENVIRONMENTS, environment_of
from apps.runs.leaderboard import players
from apps.runs.outcome import Outcome
from apps.runs.replay import Replay, verify_claim
from runs_world import World, honest

from live import working
from mulligan import JobFilter

RECORD = 10_000.0


@pytest.mark.parametrize("category", ENVIRONMENTS)
def test_r1_an_honest_run_passes_in_every_category(category: str) -> None:
    run = honest("a", category, seed=7)
    found = verify_claim(run.claim, Replay(run.actions), RECORD)
    assert (found.outcome, found.score) == (Outcome.PASSED, run.claim.score), found.reason


@pytest.mark.parametrize("category", ENVIRONMENTS)
@pytest.mark.parametrize("cheat", players.CHEATS, ids=lambda cheat: cheat.__name__)
def test_r1_a_cheated_run_fails(category: str, cheat: object) -> None:
    run = cheat(honest("a", category, seed=7))  # type: ignore[operator]
    found = verify_claim(run.claim, Replay(run.actions), RECORD)
    assert found.outcome is Outcome.FAILED, found.reason
    assert found.reason


def test_r1_another_version_of_the_environment_needs_a_review() -> None:
    run = players.use_old_version(honest("a", "cartpole"))
    found = verify_claim(run.claim, Replay(run.actions), RECORD)
    assert found.outcome is Outcome.NEEDS_REVIEW
    assert "CartPole-v99" in found.reason and environment_of("cartpole") in found.reason


def test_r1_a_cheated_run_of_another_version_fails() -> None:
    run = players.inflate(players.use_old_version(honest("a", "cartpole")))
    assert verify_claim(run.claim, Replay(run.actions), RECORD).outcome is Outcome.FAILED


def test_r1_another_environment_fails() -> None:
    run = honest("a", "cartpole")
    claim = players.replace(run.claim, environment="FrozenLake-v1")
    assert verify_claim(claim, Replay(run.actions), RECORD).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("record", "outcome"),
    [(None, Outcome.NEEDS_REVIEW), (-1, Outcome.NEEDS_REVIEW), (0, Outcome.PASSED), (RECORD, Outcome.PASSED)],
)
def test_r1_a_new_record_needs_a_review(record: float | None, outcome: Outcome) -> None:
    """A frozen lake that was fallen into scores nothing, which equals a record of nothing."""
    run = honest("a", "frozen-lake", seed=1)
    assert run.claim.score == 0
    assert verify_claim(run.claim, Replay(run.actions), record).outcome is outcome


def test_r1_runs_are_polled_stored_and_verified(world: World) -> None:
    first = honest("first", "cartpole", seed=3)
    world.submit(first, honest("second", "cartpole", seed=3), players.inflate(honest("third", "cartpole", seed=3)))
    world.verify_all(concurrency=1)
    assert [world.outcome(run) for run in ("first", "second", "third")] == ["NeedsReview", "Passed", "Failed"]
    assert {world.job(run).state for run in ("first", "second", "third")} == {"succeeded"}
    assert world.job("third").failures == 0, "a run that does not hold is a result, not an error"


def test_r1_each_run_is_stored_once(world: World) -> None:
    world.submit(honest("a"), honest("b"))
    world.verify_all()
    # The leaderboard lists them again, from the beginning, and one changed meanwhile.
    with world.verifier.database.transaction() as connection:
        connection.execute(world.verifier.tables.positions.delete())
    world.submit(players.inflate(honest("a")), honest("c"))
    world.verify_all()
    assert world.stored() == ["a", "b", "c"]
    assert sorted(world.board.fetched) == ["a", "b", "c"]


def test_r1_a_poll_that_fails_in_the_middle_loses_no_run_and_doubles_none(world: World) -> None:
    """The second category is refused: the runs of the first are there, and the repeated poll finds the rest."""
    world.submit(honest("a", "frozen-lake"), honest("b", "cartpole"))
    world.configure(categories=["frozen-lake", "cartpole"])
    world.break_answers("broken", route="runs", category="cartpole")
    world.verify_all()
    (waiting,) = world.app.jobs(JobFilter(kind="poll")).jobs
    assert (world.stored(), waiting.state, waiting.last_code) == (["a"], "waiting", "HTTP_5XX")
    world.app.run_now(waiting.id, actor="ann")
    world.app.run_until_idle(timeout="60s")
    assert world.stored() == ["a", "b"]
    assert sorted(world.board.fetched) == ["a", "b"]


def test_r1_more_runs_than_a_page_of_the_leaderboard(quick_world: World) -> None:
    run = honest("a")
    for number in range(450):
        quick_world.submit(players.replace(run, claim=players.replace(run.claim, id=f"run-{number}")))
    quick_world.poll()
    poll = quick_world.app.jobs().jobs[0]
    with working(quick_world.app, queues=["default"]):
        assert quick_world.app.wait(poll.id, timeout="60s") == 450
    assert len(quick_world.stored()) == 450
    assert quick_world.board.fetched == []
