"""When a redrive goes on, waits, and stops itself: values in, values out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.errors import BadRate, Conflict, IllegalMove, InsufficientCredits, JobNotFound, NotAllowed, StoreDamaged
from mulligan.lifecycle import Move, State
from mulligan.records.job import JobFilter
from mulligan.records.rate import parse_rate
from mulligan.records.redrive import (
    HOLD,
    LEAST_JUDGED,
    LOOK_BACK,
    MOST_WATCHED,
    MOVED_ON,
    PATIENCE,
    Course,
    Redrive,
    RedriveState,
    Watched,
    end,
    has_passed,
    jobs_allowed,
    next_look,
    reason_to_stop,
    record_retries,
    skip_reason,
    spend,
    take_answers,
)

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def redrive(*, rate: str = "50/s", course: dict[str, Any] | None = None, **fields: Any) -> Redrive:
    return Redrive(
        **{
            "id": "r",
            "request_id": "r",
            "filter": JobFilter(state="failed"),
            "owner": None,
            "rate": parse_rate(rate),
            "canary": 5,
            "abort_above": 0.5,
            "actor": None,
            "reason": None,
            "state": RedriveState.CANARY,
            "matched": 100,
            "matches": (),
            "sample": (),
            "began_at": NOW,
            "course": Course(**{"cursors": {"send": ""}, "paced_at": NOW - SECOND, **(course or {})}),
            **fields,
        }
    )


def marked(marks: str, **fields: Any) -> Redrive:
    counts = {"succeeded": marks.count("+"), "failed_again": marks.count("-"), "silent": marks.count("?")}
    return redrive(course={"recent": marks}, **{**counts, **fields})


# Rates


@pytest.mark.parametrize(
    ("given", "per_second", "text"),
    [("50/s", 50, "50/s"), (" 600 / M ", 10, "600/m"), ("36/h", 0.01, "36/h"), ("0.5/s", 0.5, "0.5/s"), (3, 3, "3/s")],
)
def test_a_rate_is_read_as_people_write_it(given: Any, per_second: float, text: str) -> None:
    rate = parse_rate(given)
    assert (rate.per_second, str(rate)) == (pytest.approx(per_second), text)
    assert parse_rate(rate) is rate


@pytest.mark.parametrize(
    "given", ["", "fast", "0/s", "-1/s", "1/y", "10001/s", 0, -1, True, float("nan"), None, "1/s1"]
)
def test_what_is_no_rate_is_refused_with_what_is_possible(given: Any) -> None:
    with pytest.raises(BadRate, match="'50/s'"):
        parse_rate(given)


# Canaries


@pytest.mark.parametrize(
    ("marks", "abort_above", "passes", "stops"),
    [
        ("", 0.5, False, False),
        ("++", 0.5, False, False),
        ("+++", 0.5, True, False),
        ("--", 0.5, False, False),
        ("---", 0.5, False, True),
        ("-?-", 0.5, False, True),
        ("+++--", 0.5, True, False),
        ("++---", 0.5, False, True),
        ("+++++", 0.0, True, False),
        ("++++", 0.0, False, False),
        ("++++-", 0.0, False, True),
        ("", 1.0, True, False),
    ],
)
def test_the_canaries_decide_as_soon_as_the_rest_cannot_change_it(
    marks: str, abort_above: float, passes: bool, stops: bool
) -> None:
    record = marked(marks, abort_above=abort_above)
    assert (has_passed(record), reason_to_stop(record) is not None) == (passes, stops)


@given(st.text("+-?", min_size=5, max_size=5), st.floats(0, 1))
def test_when_all_canaries_have_answered_it_is_one_or_the_other(marks: str, abort_above: float) -> None:
    record = marked(marks, abort_above=abort_above)
    assert has_passed(record) is (reason_to_stop(record) is None)


def test_the_reason_says_how_many_did_what() -> None:
    assert reason_to_stop(marked("--?-+")) == (
        "4 of 5 canaries did not succeed (3 failed again, 1 did not end within 15m); allowed are 50%"
    )


# Later


@pytest.mark.parametrize(
    ("marks", "stops"),
    [
        ("-" * (LEAST_JUDGED - 1), False),
        ("-" * LEAST_JUDGED, True),
        ("+-" * 25, False),
        ("+-" * 24 + "--", True),
        ("+" * 50 + "-" * 26, True),
        ("-" * 50 + "+" * 25 + "-" * 25, False),
        ("?" * 26 + "+" * 24, True),
    ],
)
def test_later_the_newest_answers_decide(marks: str, stops: bool) -> None:
    record = marked(marks, state=RedriveState.RUNNING)
    reason = reason_to_stop(record)
    assert (reason is not None) is stops
    if reason:
        assert f"of the last {min(len(marks), LOOK_BACK)} " in reason


# Answers


def test_answers_are_counted_and_what_has_not_ended_is_waited_for() -> None:
    watched = tuple(Watched(job, NOW - SECOND) for job in "abc")
    after = take_answers(redrive(course={"watched": watched}), {"a": True, "b": False, "x": True}, NOW)
    assert (after.succeeded, after.failed_again, after.silent, after.bad) == (1, 1, 0, 1)
    assert (after.course.watched, after.course.recent) == (watched[2:], "+-")


def test_no_answer_in_time_counts_against_it() -> None:
    record = redrive(course={"watched": (Watched("a", NOW),)})
    assert take_answers(record, {}, NOW + PATIENCE - SECOND) == record
    late = take_answers(record, {}, NOW + PATIENCE)
    assert (late.silent, late.course.watched, late.course.recent) == (1, (), "?")
    assert take_answers(record, {"a": True}, NOW + PATIENCE).succeeded == 1, (
        "an answer counts, also if it was not read at the time"
    )


def test_what_is_kept_of_the_answers_is_bounded() -> None:
    watched = tuple(Watched(str(n), NOW) for n in range(100))
    record = redrive(course={"watched": watched, "recent": "+" * 100})
    assert take_answers(record, dict.fromkeys(map(str, range(100)), False), NOW).course.recent == "-" * 100


# The rate


@pytest.mark.parametrize(
    ("rate", "seconds", "number"),
    [("50/s", 1, 50), ("50/s", 0.1, 5), ("50/s", 3_600, 50), ("1/m", 30, 0), ("1/m", 60, 1), ("1/m", 3_600, 1)],
)
def test_it_goes_at_its_rate_and_makes_up_for_a_second_at_most(rate: str, seconds: float, number: int) -> None:
    record = redrive(rate=rate, state=RedriveState.RUNNING, course={"paced_at": NOW - timedelta(seconds=seconds)})
    assert jobs_allowed(record, NOW, limit=1_000) == number


def test_the_limit_of_a_chunk_holds() -> None:
    assert jobs_allowed(redrive(state=RedriveState.RUNNING), NOW, limit=7) == 7


def test_a_clock_that_was_put_back_does_not_hold_it_up() -> None:
    record = redrive(state=RedriveState.RUNNING, course={"paced_at": NOW + timedelta(hours=1)})
    assert jobs_allowed(record, NOW, limit=9) == 0
    later = spend(record, 0, NOW)
    assert jobs_allowed(later, NOW + 2 * SECOND, limit=99) == 50


@given(
    st.sampled_from(["1/s", "7/s", "50/s", "90/m", "1000/s"]),
    st.lists(st.floats(0, 5), min_size=1, max_size=60),
    st.integers(1, 100),
)
def test_over_any_time_it_keeps_to_its_rate(rate: str, waits: list[float], limit: int) -> None:
    record, now, total = redrive(rate=rate, state=RedriveState.RUNNING), NOW, 0
    for seconds in waits:
        now += timedelta(seconds=seconds)
        number = jobs_allowed(record, now, limit)
        record, total = spend(record, number, now), total + number
    most = record.rate.per_second * (now - NOW).total_seconds() + max(1, record.rate.per_second)
    assert total <= most + 1e-3


def test_while_the_canaries_are_out_no_other_goes() -> None:
    assert jobs_allowed(redrive(), NOW, limit=100) == 5
    assert jobs_allowed(redrive(retried=3), NOW, limit=100) == 2
    assert jobs_allowed(redrive(retried=5), NOW, limit=100) == 0


def test_there_is_always_a_next_look_and_it_lies_ahead() -> None:
    waiting = redrive(retried=5, course={"watched": (Watched("a", NOW), Watched("b", NOW + SECOND))})
    assert next_look(waiting, NOW) == NOW + PATIENCE
    assert next_look(redrive(retried=5), NOW) == NOW + SECOND
    assert next_look(redrive(rate="1/m", course={"paced_at": NOW}), NOW) == NOW + timedelta(minutes=1)


# Counts


def test_what_was_done_is_counted_and_a_sample_is_watched() -> None:
    done = [(str(n), None) for n in range(150)]
    after = record_retries(redrive(skipped={"conflict": 1}), [*done, ("x", "conflict"), ("y", MOVED_ON)], NOW)
    assert (after.retried, after.skipped) == (150, {"conflict": 2, MOVED_ON: 1})
    assert after.course.watched == tuple(Watched(str(n), NOW) for n in range(MOST_WATCHED))


def test_once_done_every_matched_job_is_accounted_for() -> None:
    after = record_retries(end(redrive(), RedriveState.DONE, NOW), [("a", None), ("b", "not allowed")], NOW)
    assert (after.matched, after.looked_at, after.skipped) == (100, 100, {"not allowed": 1, MOVED_ON: 98})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InsufficientCredits(3, 1), "insufficient credits"),
        (NotAllowed("no"), "not allowed"),
        (Conflict("a", "b"), "conflict"),
        (StoreDamaged("it is"), "damaged"),
        (IllegalMove("a", State.SUCCEEDED, Move.MANUAL_RETRY), MOVED_ON),
        (JobNotFound("a"), MOVED_ON),
    ],
)
def test_why_a_job_was_skipped_is_said_in_few_words(error: Any, reason: str) -> None:
    assert skip_reason(error) == reason


# Who does it


def test_the_process_that_holds_it_is_left_alone_until_its_time_is_over() -> None:
    record = redrive()
    assert record.needs_hold("w1", NOW)
    held = record.held_by("w1", NOW)
    assert not held.is_held_by_another("w1", NOW) and not held.needs_hold("w1", NOW)
    assert held.is_held_by_another("w2", NOW) and not held.is_held_by_another("w2", NOW + HOLD)
    assert held.needs_hold("w1", NOW + HOLD * 0.6)
    ahead = replace(held, course=replace(held.course, held_until=NOW + timedelta(hours=1)))
    assert not ahead.is_held_by_another("w2", NOW), "by a clock that was put back"
