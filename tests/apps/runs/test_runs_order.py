"""R4: new runs and due retries compete by the leaderboard's submission date alone."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from runs_world import World, honest

from live import eventually, working
from mulligan.testing import sandbox


def at(day: int) -> datetime:
    return datetime(2024, 1, day, tzinfo=UTC)


def test_r4_the_ordering_example_of_the_document(quick_world: World) -> None:
    """
    submitted_date | status     | next_retry_at | processed_order
    2024-01-01     | error      | 2024-01-05    | 1 (oldest, retry ready)
    2024-01-03     | discovered | NULL          | 2 (new run)
    2024-01-04     | discovered | NULL          | 3 (new run)
    2024-01-04     | error      | 2024-01-06    | (not ready yet)
    """
    world, board = quick_world, quick_world.board
    with sandbox(world.app, now=at(4)) as box:
        world.submit(honest("oldest", day=0), honest("not-ready", day=3))
        world.break_answers("rate_limited", run="oldest", retry_after="86400")
        world.break_answers("rate_limited", run="not-ready", retry_after="172800")
        world.poll()
        box.run()
        assert (world.job("oldest").due_at, world.job("not-ready").due_at) == (at(5), at(6))
        box.advance("23h59m")
        board.fetched.clear()
        world.submit(honest("newer", day=3), honest("new", day=2))
        world.poll()
        # Only the poll is due. The runs are stored, and one minute later the retry is due as well.
        world.app.pause(kind="verify", actor="test")
        box.advance("1m")
        world.app.resume(kind="verify", actor="test")
        box.run()
        assert board.fetched == ["oldest", "new", "newer"]
        box.advance("1d")
        assert board.fetched == ["oldest", "new", "newer", "not-ready"]


def test_r4_submission_counts_across_categories(world: World) -> None:
    """A queue for each category, and one order."""
    days = [5, 1, 4, 2, 6, 3]
    for day in days:
        world.submit(honest(f"day-{day}", ("frozen-lake", "cartpole", "taxi")[day % 3], day=day))
    with working(world.app, queues=["default"]):
        world.poll()
        eventually(lambda: len(world.stored()) == len(days))
    with working(world.app, queues=world.verifier.queues, concurrency=1):
        eventually(lambda: len(world.board.fetched) == len(days))
    assert world.board.fetched == [f"day-{day}" for day in sorted(days)]


def test_r4_a_retry_that_is_not_due_blocks_nothing(world: World) -> None:
    world.submit(honest("old", day=0))
    world.break_answers("broken", run="old")
    world.verify_all()
    world.submit(*(honest(f"new-{number}", day=1) for number in range(3)))
    world.verify_all()
    assert sorted(world.board.fetched) == ["new-0", "new-1", "new-2", "old"]
    assert world.job("old").state == "waiting"


def test_r4_a_due_retry_is_not_starved_by_newer_runs(quick_world: World) -> None:
    world = quick_world
    world.submit(honest("old", day=0))
    world.break_answers("broken", run="old")
    with sandbox(world.app, now=at(10)) as box:
        world.poll()
        box.advance("59s")
        world.app.pause(kind="verify", actor="test")
        world.submit(*(honest(f"new-{number}", day=1 + number) for number in range(5)))
        world.poll()
        box.advance("1s")
        world.app.resume(kind="verify", actor="test")
        box.run()
    assert world.board.fetched[:2] == ["old", "old"]


def test_r4_dates_at_the_ends_of_the_calendar(world: World) -> None:
    early, late = honest("early"), honest("late")
    world.submit(
        replace(late, claim=replace(late.claim, submitted_at=datetime(9999, 12, 31, tzinfo=UTC))),
        replace(early, claim=replace(early.claim, submitted_at=datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=1))),
    )
    world.verify_all(concurrency=1)
    assert world.board.fetched == ["early", "late"]
