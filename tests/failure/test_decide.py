import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from failure_jobs import NOW, a_job
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.errors import BadPolicy, FinalError, RateLimitedError, RetryableError
from mulligan.errors import Snooze as SnoozeRequest
from mulligan.failure.backoff import LONGEST_DELAY, Exponential, Fixed, Steps
from mulligan.failure.classify import classify
from mulligan.failure.decide import MAX_MISFITS, decide
from mulligan.failure.decision import Fail, Postpone, Release, Retry
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.policy import RetryPolicy, schedule
from mulligan.failure.rule import Rule
from mulligan.failure.verdict import Failure, Ledger, Verdict, crashed, misfit, timed_out, worker_lost
from mulligan.failure.windows import Window
from mulligan.records.job import MAX_LOSSES

PLAIN = RetryPolicy(backoff=Fixed("10s"))


def verdict_of(exception: BaseException, *rules: Rule) -> Verdict:
    return classify(Failure.of(exception), kind="convert", rules=rules)


def broken(**changes: Any) -> Verdict:
    return replace(verdict_of(OSError(5, "disk"), Rule("IO_ERROR", "retryable", errno=5, name="mine.io")), **changes)


def decided(verdict: Verdict, policy: RetryPolicy = PLAIN, *, draw: float = 0.5, **job: Any) -> Any:
    return decide(verdict, a_job(**job), policy, now=NOW, draw=draw)


def test_a_failure_is_retried_after_the_backoff_with_the_reasons() -> None:
    decision = decided(broken(), failures=1)
    assert decision == Retry(
        timedelta(seconds=10),
        broken(),
        {"rule": "mine.io", "code": "IO_ERROR", "policy": "convert", "failure": 2, "of": 4, "delay": 10.0},
    )


@pytest.mark.parametrize(
    ("failures", "retried"), [(0, True), (1, True), (2, True), (3, False), (4, False), (99, False)]
)
def test_the_attempt_limit_is_the_row_s_and_counts_the_first_try(failures: int, retried: Any) -> None:
    decision = decided(broken(), RetryPolicy(max_attempts=50), failures=failures, max_attempts=4)
    assert isinstance(decision, Retry if retried else Fail)
    if isinstance(decision, Fail):
        assert decision.reasons["because"] == "attempts exhausted"


def test_a_misfit_is_given_back_with_a_growing_delay_and_charged_to_nothing() -> None:
    delays = []
    for before in range(MAX_MISFITS - 1):
        decision = decided(misfit("it needs 'n'"), max_attempts=1, code_failures={"VERSION_MISMATCH": before})
        assert isinstance(decision, Postpone)
        assert (decision.reasons["misfit"], decision.reasons["of"]) == (before + 1, MAX_MISFITS)
        delays.append(decision.delay)
    assert sum(delays[:20], timedelta(0)) < timedelta(minutes=6), "one in ten workers fits: soon it is met"
    assert delays == sorted(delays) and delays[0] == timedelta(seconds=1) and delays[-1] == timedelta(minutes=10)
    assert timedelta(hours=11) < sum(delays, timedelta(0)) < timedelta(hours=13)


def test_a_job_that_fits_no_version_fails_at_the_limit_as_invalid_input() -> None:
    decision = decided(misfit("it needs 'n'"), code_failures={"VERSION_MISMATCH": MAX_MISFITS - 1})
    assert isinstance(decision, Fail)
    assert (decision.verdict.code, decision.verdict.error_class) == ("INVALID_INPUT", ErrorClass.FINAL)
    assert decision.verdict.detail == "it needs 'n'"


def test_a_single_attempt_is_never_retried() -> None:
    assert isinstance(decided(broken(), max_attempts=1), Fail)


def test_a_final_error_fails_at_once() -> None:
    decision = decided(verdict_of(FinalError("Your file is empty.", code="NOT_PDF")))
    assert isinstance(decision, Fail)
    assert (decision.verdict.code, decision.verdict.message) == ("NOT_PDF", "Your file is empty.")


@pytest.mark.parametrize(
    ("verdict", "job"),
    [
        (broken(), {"failures": 3}),
        (broken(error_class=ErrorClass.FINAL), {}),
        (worker_lost(), {"losses": MAX_LOSSES - 1}),
        (crashed(), {"crashes": 2}),
        (timed_out(timedelta(seconds=3)), {"failures": 3}),
        (broken(), {"deadline": NOW}),
        (verdict_of(RateLimitedError("Easy. We'll retry.", retry_after=3)), {"snoozes": 100}),
    ],
)
def test_a_failed_job_promises_no_retry(verdict: Any, job: Any) -> None:
    decision = decided(verdict, **job)
    assert isinstance(decision, Fail)
    assert "retry" not in decision.verdict.message.lower()
    assert decision.verdict.message


@pytest.mark.parametrize(
    ("limit", "so_far", "retried"), [(1, 0, True), (1, 1, False), (0, 0, False), (2, 1, True), (2, 2, False)]
)
def test_a_code_may_be_retried_less_often_than_others(limit: Any, so_far: Any, retried: Any) -> None:
    policy = RetryPolicy(backoff=Fixed("10s"), limits={"IO_ERROR": limit})
    decision = decided(broken(), policy, max_attempts=100, failures=5, code_failures={"IO_ERROR": so_far, "UNKNOWN": 9})
    assert isinstance(decision, Retry if retried else Fail)
    if isinstance(decision, Fail):
        assert decision.reasons["because"] == "limit of IO_ERROR reached"
        assert decision.reasons["limit"] == limit
    assert isinstance(decided(verdict_of(ValueError("other")), policy, code_failures={"IO_ERROR": 9}), Retry)


def test_a_hint_is_waited_for_exactly_and_uses_no_attempt() -> None:
    policy = RetryPolicy(backoff=Fixed("10s", jitter=0.5), windows=[Window("00:00", "01:00")])
    for draw in (0.0, 0.5, 0.99):
        decision = decided(verdict_of(RateLimitedError("easy", retry_after="37s")), policy, draw=draw, failures=3)
        assert isinstance(decision, Postpone)
        assert decision.delay == timedelta(seconds=37)


def test_a_rate_limit_without_a_hint_counts_like_any_failure() -> None:
    assert isinstance(decided(verdict_of(RateLimitedError("easy"))), Retry)
    assert isinstance(decided(verdict_of(RateLimitedError("easy")), failures=3), Fail)


def test_a_server_s_hint_is_bounded_and_a_task_s_own_snooze_is_not() -> None:
    policy = RetryPolicy(backoff=Fixed("10s"), longest_hint="1h")
    assert decided(verdict_of(RateLimitedError("x", retry_after="7d")), policy).delay == timedelta(hours=1)
    assert decided(verdict_of(SnoozeRequest("7d")), policy).delay == timedelta(days=7)
    assert decided(verdict_of(RetryableError("x")), policy).delay == timedelta(seconds=10)


def test_a_retryable_failure_waits_at_least_as_long_as_hinted() -> None:
    hinted = broken(retry_after=timedelta(minutes=2))
    decision = decided(hinted)
    assert isinstance(decision, Retry)
    assert (decision.delay, decision.reasons["hint"]) == (timedelta(minutes=2), 120.0)
    assert decided(hinted, RetryPolicy(backoff=Fixed("1h"))).delay == timedelta(hours=1)
    assert decided(broken(retry_after=timedelta(days=9)), RetryPolicy(longest_hint="1h")).delay == timedelta(hours=1)


@pytest.mark.parametrize(
    ("snoozes", "limit", "waits"), [(0, 1, True), (1, 1, False), (99, 100, True), (100, 100, False), (0, 0, False)]
)
def test_snoozes_have_a_limit_of_their_own(snoozes: Any, limit: Any, waits: Any) -> None:
    verdict = verdict_of(RateLimitedError("Easy now.", retry_after=3))
    decision = decided(verdict, snoozes=snoozes, max_snoozes=limit)
    if waits:
        assert isinstance(decision, Postpone)
        return
    assert isinstance(decision, Fail)
    assert (decision.verdict.code, decision.verdict.error_class) == ("SNOOZE_LIMIT", ErrorClass.FINAL)
    assert decision.verdict.group == verdict.group
    assert f"{limit} times" in decision.verdict.message
    assert "Easy now." in decision.verdict.message
    assert decision.reasons["code"] == "RATE_LIMITED"


def test_a_lost_worker_uses_no_attempt_and_goes_back_at_once() -> None:
    decision = decided(worker_lost(), failures=3, losses=MAX_LOSSES - 2)
    assert isinstance(decision, Release)
    assert (decision.ledger, decision.verdict.code) == (Ledger.LOSSES, "WORKER_LOST")  # type: ignore[union-attr]
    assert decision.reasons["loss"] == MAX_LOSSES - 1


def test_too_many_lost_workers_fail_the_job() -> None:
    assert isinstance(decided(worker_lost(), losses=MAX_LOSSES - 1), Fail)


@pytest.mark.parametrize(("crashes", "limit", "released"), [(0, 3, True), (1, 3, True), (2, 3, False), (0, 1, False)])
def test_crashes_have_the_limit_of_the_row(crashes: Any, limit: Any, released: Any) -> None:
    decision = decided(crashed(exit=-9), RetryPolicy(max_crashes=50), crashes=crashes, max_crashes=limit, failures=3)
    assert isinstance(decision, Release if released else Fail)
    if isinstance(decision, Release):
        assert decision.ledger is Ledger.CRASHES


@pytest.mark.parametrize(("seconds", "retried"), [(10.001, True), (10, False), (9, False), (-1, False)])
def test_no_retry_is_planned_for_after_the_deadline(seconds: Any, retried: Any) -> None:
    decision = decided(broken(), deadline=NOW + timedelta(seconds=seconds))
    assert isinstance(decision, Retry if retried else Fail)
    if isinstance(decision, Fail):
        verdict = decision.verdict
        assert (verdict.code, verdict.error_class) == ("DEADLINE", ErrorClass.FINAL)
        assert verdict.message == ("The deadline comes before the next try. Last failure: Temporary storage issue.")
        assert (verdict.detail, verdict.group) == (broken().detail, broken().group)
        assert decision.reasons["code"] == "IO_ERROR"


def test_no_wait_asked_for_goes_past_the_deadline() -> None:
    verdict = verdict_of(RateLimitedError("easy", retry_after="1h"))
    assert decided(verdict, deadline=NOW + timedelta(minutes=59)).verdict.code == "DEADLINE"
    assert isinstance(decided(verdict, deadline=NOW + timedelta(minutes=61)), Postpone)


def test_a_window_lengthens_the_delay_and_is_named() -> None:
    policy = RetryPolicy(backoff=Fixed("10s"), windows=[Window("13:00", "14:00")])
    decision = decided(broken(), policy)
    assert isinstance(decision, Retry)
    assert decision.delay == timedelta(hours=1)
    assert decision.reasons["window"] == "2026-11-16T13:00:00+00:00"
    assert decided(broken(), policy, deadline=NOW + timedelta(minutes=30)).verdict.code == "DEADLINE"


def test_a_window_that_is_open_changes_nothing() -> None:
    decision = decided(broken(), RetryPolicy(backoff=Fixed("10s"), windows=[Window("11:00", "14:00")]))
    assert decision.delay == timedelta(seconds=10)
    assert "window" not in decision.reasons


def test_the_backoff_gets_the_failures_the_previous_delay_and_the_draw() -> None:
    heard = []

    def backoff(failures: Any, previous_delay: Any, draw: Any) -> Any:
        heard.append((failures, previous_delay, draw))
        return timedelta(seconds=7)

    decision = decided(
        broken(), RetryPolicy(backoff=backoff), draw=0.25, failures=2, previous_delay=timedelta(seconds=3)
    )
    assert heard == [(3, timedelta(seconds=3), 0.25)]
    assert decision.delay == timedelta(seconds=7)


def raising(*_: Any) -> None:
    raise ZeroDivisionError("oops")


@pytest.mark.parametrize(
    ("backoff", "delay", "noted"),
    [
        (raising, 15, "ZeroDivisionError: oops"),
        (lambda: None, 15, "TypeError"),
        (lambda *_: None, 15, "BadDuration"),
        (lambda *_: "soon", 15, "BadDuration"),
        (lambda *_: float("nan"), 15, "BadDuration"),
        (lambda *_: -5, 15, "BadDuration"),
        (lambda *_: timedelta(seconds=-5), 0, None),
        (lambda *_: timedelta.max, LONGEST_DELAY.total_seconds(), None),
        (lambda *_: "40d", LONGEST_DELAY.total_seconds(), None),
        (lambda *_: 12, 12, None),
        (lambda *_: "1m", 60, None),
    ],
)
def test_a_backoff_of_your_own_cannot_stop_a_worker(backoff: Any, delay: Any, noted: Any) -> None:
    decision = decided(broken(), RetryPolicy(backoff=backoff))
    assert isinstance(decision, Retry)
    assert decision.delay == timedelta(seconds=delay)
    assert (noted or "") in decision.reasons.get("backoff", "")
    assert ("backoff" in decision.reasons) is (noted is not None)


def test_notes_of_the_verdict_are_among_the_reasons() -> None:
    assert decided(broken(notes=("rule 'x' was skipped",))).reasons["notes"] == ["rule 'x' was skipped"]


COUNTS = st.integers(0, 200)
HINTS = st.none() | st.timedeltas()
VERDICTS = st.builds(
    Verdict,
    code=st.sampled_from(["IO_ERROR", "UNKNOWN", "SNOOZED", "RATE_LIMITED", "MINE"]),
    error_class=st.sampled_from(ErrorClass),
    message=st.text(max_size=20),
    rule=st.text(max_size=5),
    group=st.just("0123456789ab"),
    final_message=st.text(max_size=20),
    retry_after=HINTS,
    ledger=st.sampled_from(Ledger),
    notes=st.lists(st.text(max_size=5), max_size=2).map(tuple),
)
JOBS = st.fixed_dictionaries(
    {
        "failures": COUNTS,
        "crashes": COUNTS,
        "losses": COUNTS,
        "snoozes": COUNTS,
        "max_attempts": COUNTS,
        "max_crashes": COUNTS,
        "max_snoozes": COUNTS,
        "code_failures": st.dictionaries(st.sampled_from(["IO_ERROR", "UNKNOWN"]), COUNTS),
        "previous_delay": st.none() | st.timedeltas(timedelta(0)),
        "deadline": st.none() | st.integers(-(10**9), 10**9).map(lambda seconds: NOW + timedelta(seconds=seconds)),
    }
)
POLICIES = st.sampled_from(
    [
        PLAIN,
        RetryPolicy(),
        RetryPolicy(limits={"IO_ERROR": 1, "UNKNOWN": 0}),
        RetryPolicy(backoff=raising, windows=[Window("22:00", "06:00", timezone="Europe/Berlin")]),  # type: ignore[arg-type]
    ]
)


@settings(max_examples=500)
@given(VERDICTS, JOBS, POLICIES, st.floats(0, 1, exclude_max=True))
def test_every_verdict_on_every_job_has_a_decision_within_the_limits(
    verdict: Any, job: Any, policy: Any, draw: float
) -> None:
    decision = decided(verdict, policy, draw=draw, **job)
    json.dumps(decision.reasons)
    deadline = job["deadline"]
    match decision:
        case Retry(delay=delay):
            assert verdict.ledger is Ledger.FAILURES
            assert verdict.error_class is not ErrorClass.FINAL
            assert job["failures"] + 1 < job["max_attempts"]
            assert job["code_failures"].get(verdict.code, 0) + 1 <= policy.limits.get(verdict.code, 10**9)
            assert timedelta(0) <= delay <= LONGEST_DELAY + timedelta(days=1)
            assert deadline is None or NOW + delay < deadline
        case Postpone(delay=delay) if verdict.ledger is Ledger.MISFITS:
            assert job["code_failures"].get(verdict.code, 0) + 1 < MAX_MISFITS
            assert deadline is None or NOW + delay < deadline
        case Postpone(delay=delay):
            assert verdict.error_class is ErrorClass.RATE_LIMITED
            assert job["snoozes"] < job["max_snoozes"]
            assert deadline is None or NOW + delay < deadline
        case Release(ledger=ledger):
            assert ledger is verdict.ledger is not Ledger.FAILURES
            assert job[ledger] + 1 < {"losses": MAX_LOSSES, "crashes": job["max_crashes"]}[ledger]
        case Fail(reasons=reasons):
            assert reasons["because"]
        case _:
            pytest.fail(f"{decision} is no answer to a failure")


@given(VERDICTS, JOBS, POLICIES, st.floats(0, 1, exclude_max=True))
def test_the_same_values_give_the_same_decision(verdict: Any, job: Any, policy: Any, draw: float) -> None:
    assert decided(verdict, policy, draw=draw, **job) == decided(verdict, policy, draw=draw, **job)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"max_attempts": 0}, "max_attempts is 0, but it must be an integer from 1"),
        ({"max_attempts": 2.5}, "max_attempts is 2.5"),
        ({"max_attempts": True}, "max_attempts is True"),
        ({"max_attempts": None}, "max_attempts is None"),
        ({"backoff": 5}, "backoff is 5, but it must be Fixed, Steps, Linear, Exponential or a function"),
        ({"backoff": Fixed}, "Fixed, Steps, Linear, Exponential or a function"),
        ({"limits": {"IO_ERROR": -1}}, "the limit of IO_ERROR is -1"),
        ({"limits": {"not a code": 1}}, "a code in limits is 'not a code'"),
        ({"limits": ["IO_ERROR"]}, "limits is ['IO_ERROR']"),
        ({"deadline": "tomorrow"}, "deadline is 'tomorrow'"),
        ({"windows": ["09:00-17:00"]}, "Window(…) values"),
        ({"windows": 5}, "windows is 5"),
        ({"max_crashes": 0}, "max_crashes is 0"),
        ({"max_snoozes": -1}, "max_snoozes is -1"),
        ({"longest_hint": "60d"}, "longest_hint is '60d'"),
    ],
)
def test_a_bad_policy_is_refused_with_what_is_allowed(arguments: Any, says: str) -> None:
    with pytest.raises(BadPolicy, match="must be") as caught:
        RetryPolicy(**arguments)
    assert says in str(caught.value)


def test_a_policy_whose_windows_forbid_everything_is_refused() -> None:
    with pytest.raises(BadPolicy, match="never allow a retry"):
        RetryPolicy(windows=[Window("09:00", "17:00"), Window("00:00", "24:00", allow=False)])


def test_a_policy_cannot_be_changed_but_copied() -> None:
    limits = {"IO_ERROR": 1}
    policy = RetryPolicy(3, limits=limits, deadline="2h")
    limits["IO_ERROR"] = 99
    assert policy.limits == {"IO_ERROR": 1}
    with pytest.raises(AttributeError):
        policy.max_attempts = 9  # type: ignore[misc]
    with pytest.raises(TypeError):
        policy.limits["IO_ERROR"] = 9  # type: ignore[index]
    copy = replace(policy, max_attempts=9)
    assert (copy.max_attempts, copy.deadline, copy.limits) == (9, timedelta(hours=2), {"IO_ERROR": 1})
    assert replace(copy, max_attempts=3) == policy
    assert hash(replace(copy, max_attempts=3)) == hash(policy)


def test_the_default_policy_is_the_documented_one() -> None:
    policy = RetryPolicy()
    assert (policy.max_attempts, policy.max_crashes, policy.max_snoozes) == (4, 3, 100)
    assert (policy.backoff, policy.longest_hint) == (Exponential("15s"), timedelta(hours=24))
    assert (policy.limits, policy.deadline, policy.windows) == ({}, None, ())


def test_a_schedule_shows_what_follows_each_failure() -> None:
    rows = schedule(RetryPolicy(max_attempts=3, backoff=Exponential("5s", factor=3, jitter=0.2)))
    assert [(row.shortest, row.delay, row.longest, row.elapsed) for row in rows] == [
        (timedelta(seconds=4), timedelta(seconds=5), timedelta(seconds=6), timedelta(seconds=5)),
        (timedelta(seconds=12), timedelta(seconds=15), timedelta(seconds=18), timedelta(seconds=20)),
        (None, None, None, timedelta(seconds=20)),
    ]
    assert [(row.failure, row.then) for row in rows] == [(1, "retry"), (2, "retry"), (3, "fails for good")]


def test_a_schedule_can_be_drawn_and_is_never_endless() -> None:
    policy = RetryPolicy(max_attempts=1_000_000, backoff=Steps(["1m"], jitter=0.5))
    rows = schedule(policy, draw=0.0, at_most=10)
    assert len(rows) == 11
    assert rows[0].delay == timedelta(seconds=30)
    assert (rows[-1].failure, rows[-1].then) == (1_000_000, "fails for good")
    assert [row.then for row in schedule(RetryPolicy(max_attempts=1))] == ["fails for good"]
