"""Huge and hostile answers: the right code, nothing leaks, nothing is lost."""

from datetime import UTC, datetime

import msgspec
import pytest
from apps.runs.board import RunBoard
from apps.runs.leaderboard.players import Submission
from apps.runs.words import Word
from msgspec.structs import replace
from runs_world import World, honest

NESTED = b"[" * 100_000


def _code(world: World, run: str) -> tuple[str, str | None, str | None]:
    job = world.job(run)
    return job.state, job.error_class, job.error_code


@pytest.mark.parametrize(
    ("replay", "code"),
    [
        (b"", "REPLAY_INVALID"),
        (b"null", "REPLAY_INVALID"),
        (b'{"actions": "0000"}', "REPLAY_INVALID"),
        (b'{"actions": [0.5]}', "REPLAY_INVALID"),
        (b'{"actions": [true]}', "REPLAY_INVALID"),
        (b'{"actions": [1e400]}', "REPLAY_INVALID"),
        (b'{"actions": [' + b"9" * 5_000 + b"]}", "REPLAY_INVALID"),
        (b'{"actions": ' + NESTED, "REPLAY_INVALID"),
        (b'{"x": ' + NESTED + b', "actions": []}', "REPLAY_INVALID"),
        (b"\xff\xfe", "REPLAY_INVALID"),
        (b'{"actions": [' + b"0," * 100_001 + b"0]}", "REPLAY_INVALID"),
        (b'{"actions": [' + b"0," * 600_000 + b"0]}", "REPLAY_TOO_LARGE"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[:30]),
)
def test_r1_a_replay_that_cannot_be_read_is_a_final_error(quick_world: World, replay: bytes, code: str) -> None:
    quick_world.board.add("frozen-lake", honest("a").claim, "a", replay)
    quick_world.verify_all()
    assert _code(quick_world, "a") == ("failed", "final", code)


@pytest.mark.parametrize("actions", [[], [-1], [4], [2**63 - 1], [0] * 100_000])
def test_r1_a_replay_that_breaks_the_rules_is_a_failed_run(quick_world: World, actions: list[int]) -> None:
    quick_world.submit(Submission(honest("a").claim, actions))
    quick_world.verify_all()
    assert quick_world.outcome("a") == "Failed"


def test_r1_an_endless_replay_is_cut_off(quick_world: World) -> None:
    quick_world.submit(honest("a"))
    quick_world.break_answers("endless")
    quick_world.verify_all()
    assert _code(quick_world, "a") == ("failed", "final", "REPLAY_TOO_LARGE")


def test_r1_an_endless_list_is_cut_off_and_asked_again(quick_world: World) -> None:
    quick_world.submit(honest("a"))
    quick_world.break_answers("endless", route="runs")
    quick_world.verify_all()
    (poll,) = quick_world.app.jobs().jobs
    assert (poll.state, poll.last_code) == ("waiting", "LISTING_INVALID")


def test_r1_a_missing_replay_is_a_final_error(quick_world: World) -> None:
    quick_world.board.add("frozen-lake", honest("a").claim, "another", b"{}")
    quick_world.verify_all()
    assert _code(quick_world, "a") == ("failed", "final", "REPLAY_GONE")


def test_r1_a_category_without_rules_is_a_final_error(quick_world: World) -> None:
    quick_world.configure(categories=["chess"])
    run = honest("a")
    quick_world.submit(replace(run, claim=replace(run.claim, category="chess")))
    quick_world.verify_all()
    assert _code(quick_world, "a") == ("failed", "final", "CATEGORY_UNKNOWN")


def _entry(**changes: object) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(honest("bad").claim)
    return {**found, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": -1},
        {"seed": 2**40},
        {"seed": "1"},
        {"score": "much"},
        {"score": None},
        {"player": "x" * 10_000},
        {"player": ["a"]},
        {"environment": "../../etc/passwd\n"},
        {"submitted_at": "yesterday"},
        {"submitted_at": "2024-01-01T00:00:00"},
    ],
    ids=str,
)
def test_r1_a_record_that_cannot_be_read_is_stored_as_an_error(quick_world: World, changes: dict[str, object]) -> None:
    """It stops no other run, and people see it."""
    _check_unreadable(quick_world, changes)


def test_r1_a_name_that_postgres_cannot_store_stops_no_other_run(world: World) -> None:
    _check_unreadable(world, {"player": "a\0b"})


def _check_unreadable(world: World, changes: dict[str, object]) -> None:
    world.board.add("frozen-lake", _entry(**changes), "bad", b"{}")
    world.submit(honest("good"))
    world.verify_all()
    assert world.stored() == ["bad", "good"]
    assert _code(world, "bad") == ("failed", "final", "RUN_INVALID")
    assert world.outcome("good") == "NeedsReview"
    shown = RunBoard(world.verifier).find("bad")
    assert shown is not None and shown.word is Word.ERROR and not shown.can_be_retried


@pytest.mark.parametrize(
    "entry", [None, 7, [], {}, {"id": 1}, _entry(id="../../x"), _entry(id=""), _entry(id="a\n")], ids=str
)
def test_r1_a_record_without_an_id_is_left_out(quick_world: World, entry: object) -> None:
    quick_world.board.add("frozen-lake", entry, "x", b"{}")
    quick_world.submit(honest("good"))
    quick_world.verify_all()
    assert quick_world.stored() == ["good"]


def test_r1_a_run_that_is_listed_twice_at_once_is_stored_once(world: World) -> None:
    world.submit(honest("a"), honest("a"))
    world.verify_all()
    assert world.stored() == ["a"]
    assert world.board.fetched == ["a"]


def test_r1_hostile_names_are_stored_as_they_are(world: World) -> None:
    name = "<script>alert(1)</script>\u202e'; DROP TABLE runs; --"
    run = honest("a", player=name)
    world.submit(run)
    world.verify_all()
    claim = world.run("a").claim
    assert claim is not None and claim.player == name
    assert world.run("a").discovered_at <= datetime.now(UTC)
