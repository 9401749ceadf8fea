"""Settle: each decision changes the row as it should, and no outcome loses another's."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from conformance.bench import HOUR, MINUTE, SECOND, WORKER, Bench, failing, retrying, verdict
from mulligan.failure.decision import Cancel, Decision, Fail, Postpone, Release, Retry, Succeed
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.verdict import Failure, Ledger, Verdict
from mulligan.lifecycle import Move, State
from mulligan.records.job import Job, Lease
from mulligan.store.messages import Outcome, ReportedProgress, Settled
from mulligan.store.settle import read_failure

LOST = verdict("WORKER_LOST", ledger=Ledger.LOSSES)
CRASHED = verdict("CRASHED", ledger=Ledger.CRASHES)

SEEN = verdict(failure=Failure(type="http.Error", message="502 Bad Gateway\nupstream"))
LAST = ("GW_5XX", "retryable", "It was GW_5XX.", "http.Error: 502 Bad Gateway")

REQUEUES: list[tuple[str, Decision]] = [
    ("retry", retrying()),
    ("snooze", Postpone(MINUTE, verdict("SNOOZED"), {})),
    ("release", Release({})),
]
EACH_REQUEUE = pytest.mark.parametrize("decision", [decision for _, decision in REQUEUES], ids=[n for n, _ in REQUEUES])

_endless: list[Any] = []
_endless.append(_endless)

# Results that no store can keep as they are. The job that returned one fails; other jobs are not affected.
UNSTORABLE: dict[str, Decision] = {
    "a lone surrogate in the result": Succeed('"\ud800"'),
    "a lone surrogate in a reason": Fail(verdict(), {"why": "\udfff"}),
    "a lone surrogate in the message": Fail(verdict(message="\ud800"), {}),
    "a lone surrogate in the code": Retry(MINUTE, verdict("\ud800"), {}),
    "a delay beyond the end of time": Retry(timedelta.max, verdict(), {}),
    "a reason that is no value": Retry(MINUTE, verdict(), {"why": object()}),
    "a reason that never ends": Release({"why": _endless}),
    "a verdict without a code": Fail(replace(verdict(), code=None), {}),  # type: ignore[arg-type]
}
# What a store may keep or not; but it must do one or the other.
ABSURD: dict[str, Decision] = {
    "a NUL in the result": Succeed('"\\u0000"'),
    "a bare NUL as the result": Succeed("\x00"),
    "a result with a NUL behind it": Succeed("1\x00garbage"),
    "a result that is no JSON": Succeed("nonsense"),
    "an empty result": Succeed(""),
    "a result nested too deep": Succeed("[" * 100_000 + "]" * 100_000),
    "a NUL in a reason": Fail(verdict(), {"why": "a\x00b"}),
    "a NUL in the message": Fail(verdict(message="a\x00b"), {}),
    "a number of eighty digits": Fail(verdict(), {"why": 10**80}),
    "not a number": Fail(verdict(), {"why": float("nan")}),
    "a huge text": Fail(verdict(detail="x" * 2_000_000), {}),
    "ten thousand years": Retry(timedelta(days=3_650_000), verdict(), {}),
    "a wait into the past": Retry(-HOUR, verdict(), {}),
    "endless seconds": Succeed("1"),
}


class SettleRules(Bench):
    # Each decision

    def test_a_success_keeps_the_result(self) -> None:
        job = self._after(Succeed('{"pages":[1,2]}'))
        assert (job.state, job.result, job.progress) == (State.SUCCEEDED, {"pages": [1, 2]}, 1)
        assert (job.finished_at, job.failures, job.leased_by) == (self.now, 0, None)
        event = self.events(job.id)[-1]
        assert (event.type, event.attempt, event.code) == ("job.succeeded", 1, None)
        assert (event.data["seconds"], event.data["worker"]) == (0.5, WORKER)

    def test_a_success_may_have_no_result(self) -> None:
        assert self._after(Succeed(None)).result is None

    def test_a_success_keeps_the_failures_counted_before(self) -> None:
        lease = self._again(self.leased(), retrying())
        job = self._after(Succeed("1"), lease)
        assert (job.failures, job.error_code, job.attempt) == (1, None, 2)

    def test_a_retry_waits_and_counts_a_failure(self) -> None:
        job = self._after(retrying(MINUTE, "GW_TIMEOUT"))
        assert (job.state, job.waiting_for, job.due_at) == (State.WAITING, "retry", self.now + MINUTE)
        assert (job.failures, job.code_failures, job.previous_delay) == (1, {"GW_TIMEOUT": 1}, MINUTE)
        assert (job.error_code, job.error_message, job.finished_at, job.group) == (None,) * 4
        assert (job.crashes, job.losses, job.snoozes) == (0, 0, 0)

    def test_a_final_failure_keeps_the_error(self) -> None:
        job = self._after(failing("GW_4XX"))
        assert (job.state, job.error_code, job.error_class) == (State.FAILED, "GW_4XX", "final")
        assert (job.error_message, job.group, job.finished_at) == ("It was GW_4XX.", "g1", self.now)
        assert (job.failures, job.code_failures) == (1, {"GW_4XX": 1})

    # The last failure

    @pytest.mark.parametrize(
        "decision",
        [
            Retry(MINUTE, SEEN, {}),
            Postpone(MINUTE, SEEN, {}),
            Release({}, ledger=Ledger.LOSSES, verdict=SEEN),
            Fail(SEEN, {}),
        ],
        ids=["retry", "rate limit", "lost", "failed"],
    )
    def test_a_job_shows_its_last_failure_in_every_state(self, decision: Decision) -> None:
        job = self._after(decision)
        assert (job.last_code, job.last_class, job.last_message, job.last_detail) == LAST
        assert self.store.events(job=job.id)[-1].data["error"] == SEEN.technical_line
        is_failed = job.state is State.FAILED
        assert (job.error_code, job.error_detail) == (("GW_5XX", SEEN.technical_line) if is_failed else (None, None))

    @pytest.mark.parametrize(
        "decision", [Succeed("1"), Postpone(MINUTE, verdict("SNOOZED"), {}), Release({}), Cancel({})]
    )
    def test_what_is_no_failure_leaves_the_last_one(self, decision: Decision) -> None:
        assert self._after(decision).last_code is None
        lease = self._again(self.leased(), Retry(MINUTE, SEEN, {}))
        job = self._after(decision, lease)
        assert (job.last_code, job.last_class, job.last_message, job.last_detail) == LAST

    def test_a_failure_without_a_technical_line_does_not_keep_that_of_the_one_before(self) -> None:
        lease = self._again(self.leased(), Retry(MINUTE, SEEN, {}))
        job = self._after(failing(), lease)
        assert (job.last_code, job.last_detail, job.error_detail) == ("GW_4XX", None, None)

    def test_a_manual_move_keeps_the_last_failure(self) -> None:
        job = self.move(Move.MANUAL_RETRY, self._after(Fail(SEEN, {})).id)
        assert (job.error_code, job.error_detail, job.last_code) == (None, None, "GW_5XX")

    @pytest.mark.parametrize("code", ["DEADLINE", SEEN.code])
    def test_a_job_that_fails_without_an_attempt_does_not_take_the_detail_of_an_earlier_one(self, code: str) -> None:
        lease = self.leased(deadline=HOUR)
        self.settle(lease, Retry(2 * HOUR, SEEN, {}))
        self.advance(2 * HOUR)
        assert self.store.expire(verdict(code, ErrorClass.FINAL, message="It is over."), limit=10) == 1
        job = self.job(lease.fence.id)
        assert (job.error_code, job.error_detail) == (code, None)
        assert (job.last_code, job.last_detail) == ("GW_5XX", SEEN.technical_line)

    def test_a_crash_that_ends_a_job_takes_no_retry_from_its_count(self) -> None:
        lease = self._again(self.leased(max_crashes=1), retrying())
        job = self._after(Fail(CRASHED, {"crash": 1, "of": 1}), lease)
        assert (job.state, job.failures, job.crashes) == (State.FAILED, 1, 1)
        assert job.retry_count == 1, "the attempt that crashed was a retry"

    def test_a_job_keeps_the_attempt_limit_it_was_judged_by(self) -> None:
        lease = self._again(self.leased(), replace(retrying(), max_attempts=9))
        assert lease.job.max_attempts == 9
        lease = self._again(lease, retrying())
        assert lease.job.max_attempts == 9, "a decision without a limit leaves it"
        assert self._after(replace(failing(), max_attempts=2), lease).max_attempts == 2

    def test_a_final_failure_keeps_what_it_can_be_judged_by_again(self) -> None:
        failure = Failure(type="a.Busy", types=("a.Busy", "OSError"), message="busy", status=503, retry_after=MINUTE)
        job = self._after(failing(failure=failure))
        data = self.events(job.id)[-1].data
        assert read_failure(data) == failure
        assert data["failure"].keys() == {"type", "types", "message", "status", "retry_after"}
        assert read_failure({}) is None and read_failure({"failure": {"type": 3}}) is None

    @pytest.mark.parametrize(("code", "why"), [("SNOOZED", "snooze"), ("RATE_LIMITED", "rate limit")])
    def test_a_snooze_waits_and_uses_up_no_attempt(self, code: str, why: str) -> None:
        job = self._after(Postpone(HOUR, verdict(code), {}))
        assert (job.state, job.waiting_for, job.due_at) == (State.WAITING, why, self.now + HOUR)
        assert (job.snoozes, job.failures, job.code_failures) == (1, 0, {})

    def test_a_misfit_waits_for_another_version_and_is_counted_under_its_code_only(self) -> None:
        misfit = Postpone(MINUTE, verdict("VERSION_MISMATCH", ledger=Ledger.MISFITS), {})
        lost = self._again(self.leased(), Release({"loss": 1}, ledger=Ledger.LOSSES, verdict=LOST))
        job = self._after(misfit, lost)
        assert (job.state, job.waiting_for, job.due_at) == (State.WAITING, "another version", self.now + MINUTE)
        assert (job.failures, job.snoozes, job.losses) == (0, 0, 1), "nothing ran, so nothing is charged or forgiven"
        assert job.code_failures == {"VERSION_MISMATCH": 1}
        (lane,) = self.store.lanes()
        assert (lane.kind, lane.number, lane.is_misfit) == (job.kind, 1, True)
        self.advance(MINUTE)
        (again,) = self.claim(by="another")
        assert self._after(misfit, again).code_failures == {"VERSION_MISMATCH": 2}

    def test_a_release_goes_back_to_the_queue_and_spends_nothing(self) -> None:
        job = self._after(Release({"why": "shutdown"}))
        assert (job.state, job.queued_at, job.due_at) == (State.QUEUED, self.now, job.enqueued_at)
        assert (job.attempt, job.failures, job.crashes, job.losses, job.snoozes) == (1, 0, 0, 0, 0)

    def test_a_cancel_ends_the_job_without_an_error(self) -> None:
        job = self._after(Cancel({"why": "cancelled by hand"}))
        assert (job.state, job.error_code, job.finished_at) == (State.CANCELLED, None, self.now)
        assert (job.failures, job.result) == (0, None)

    @pytest.mark.parametrize(
        ("decision", "code"),
        [(retrying(), "GW_5XX"), (failing(), "GW_4XX"), (Postpone(MINUTE, verdict("SNOOZED"), {}), "SNOOZED")],
        ids=["retry", "fail", "snooze"],
    )
    def test_the_log_says_what_it_was_and_why(self, decision: Retry | Fail | Postpone, code: str) -> None:
        told = replace(
            decision, verdict=replace(decision.verdict, detail="a trace"), reasons={"rule": "http.5xx", "of": 3}
        )
        job = self._after(told)
        event = self.events(job.id)[-1]
        assert (event.code, event.attempt, event.at) == (code, 1, self.now)
        assert event.data["reasons"] == {"rule": "http.5xx", "of": 3}
        assert (event.data["message"], event.data["class"]) == (told.verdict.message, str(told.verdict.error_class))
        assert (event.data["group"], event.data["detail"]) == ("g1", "a trace")
        assert event.data.get("delay") == (None if isinstance(told, Fail) else 60.0)

    @pytest.mark.parametrize(
        "decision", [Release({"why": "shutdown"}), Cancel({"why": "by hand"})], ids=["release", "cancel"]
    )
    def test_the_log_says_why_a_job_was_put_back_or_ended(self, decision: Release | Cancel) -> None:
        event = self.events(self._after(decision).id)[-1]
        assert event.data["reasons"] == decision.reasons

    # Counters

    def test_failures_are_counted_by_their_code(self) -> None:
        lease = self.leased()
        for code in ("GW_5XX", "IO_ERROR", "GW_5XX"):
            lease = self._again(lease, retrying(MINUTE, code))
        job = self._after(failing("IO_ERROR"), lease)
        assert (job.failures, job.code_failures) == (4, {"GW_5XX": 2, "IO_ERROR": 2})

    def test_the_delay_before_this_try_is_known_to_the_next_decision(self) -> None:
        lease = self._again(self.leased(), retrying(MINUTE))
        lease = self._again(lease, Release({}))
        assert lease.job.previous_delay == MINUTE
        lease = self._again(lease, retrying(HOUR))
        assert lease.job.previous_delay == HOUR

    @pytest.mark.parametrize(
        ("charged", "counters"),
        [(LOST, (0, 0, 1)), (CRASHED, (0, 1, 0)), (verdict(), (1, 0, 0))],
        ids=["loss", "crash", "failure"],
    )
    def test_a_final_failure_is_charged_to_its_ledger(self, charged: Verdict, counters: tuple[int, ...]) -> None:
        job = self._after(Fail(charged, {}))
        assert (job.failures, job.crashes, job.losses) == counters

    def test_losses_and_crashes_add_up_over_releases(self) -> None:
        lease = self._troubled(self.leased())
        assert (lease.job.losses, lease.job.crashes, lease.job.failures) == (2, 1, 0)
        lease = self._again(lease, Release({"why": "shutdown"}))
        assert (lease.job.losses, lease.job.crashes) == (2, 1)

    @pytest.mark.parametrize(
        "decision",
        [retrying(), Postpone(MINUTE, verdict("SNOOZED"), {}), Succeed("1")],
        ids=["retry", "snooze", "success"],
    )
    def test_an_attempt_that_ended_by_itself_clears_losses_and_crashes(self, decision: Decision) -> None:
        job = self._after(decision, self._troubled(self.leased()))
        assert (job.losses, job.crashes) == (0, 0)

    def test_a_failure_at_the_limit_of_losses_shows_them(self) -> None:
        job = self._after(Fail(LOST, {"loss": 3}), self._troubled(self.leased()))
        assert (job.state, job.losses, job.crashes, job.error_code) == (State.FAILED, 3, 1, "WORKER_LOST")

    # Requeues

    @EACH_REQUEUE
    def test_every_requeue_resets_progress_and_clears_the_lease(self, decision: Decision) -> None:
        lease = self.leased()
        self.beat(lease.fence, progress=[ReportedProgress(lease.fence, 0.5, "half way")])
        assert self.job(lease.fence.id).progress == 0.5
        job = self._after(decision, lease)
        assert (job.progress, job.progress_text, job.leased_by, job.lease_until) == (0, "", None, None)

    @EACH_REQUEUE
    def test_a_requeued_job_runs_again_with_the_next_attempt(self, decision: Decision) -> None:
        lease = self._again(self.leased(), decision)
        assert (lease.fence.attempt, lease.job.trigger) == (2, "automatic")

    @EACH_REQUEUE
    def test_a_requeue_keeps_the_place_in_the_line(self, decision: Decision) -> None:
        lease = self.leased()
        self.advance(SECOND)
        self.enqueue()
        self.settle(lease, decision)
        self.advance(HOUR)
        assert [taken.fence.id for taken in self.claim(limit=1)] == [lease.fence.id]

    def test_what_a_failed_job_showed_of_its_progress_is_kept(self) -> None:
        lease = self.leased()
        self.beat(progress=[ReportedProgress(lease.fence, 0.25, "page 3")])
        job = self._after(failing(), lease)
        assert (job.progress, job.progress_text) == (0.25, "page 3")

    @pytest.mark.parametrize("delay", [timedelta(0), -MINUTE], ids=["at once", "in the past"])
    def test_a_retry_without_a_delay_is_due_at_once(self, delay: timedelta) -> None:
        lease = self.leased()
        self.settle(lease, retrying(delay))
        assert [taken.fence.attempt for taken in self.claim()] == [2]

    # A wish to cancel

    @EACH_REQUEUE
    def test_a_wish_to_cancel_wins_over_going_back_to_the_queue(self, decision: Decision) -> None:
        lease = self._to_be_cancelled()
        job = self._after(decision, lease)
        assert (job.state, job.finished_at, job.cancel_requested) == (State.CANCELLED, self.now, False)
        assert self.types(job.id)[-1] == "job.cancelled"
        self.advance(HOUR)
        assert self.claim() == []

    def test_a_success_before_the_cancel_wins(self) -> None:
        job = self._after(Succeed("1"), self._to_be_cancelled())
        assert (job.state, job.result, job.cancel_requested) == (State.SUCCEEDED, 1, False)

    def test_a_final_failure_before_the_cancel_wins(self) -> None:
        job = self._after(failing(), self._to_be_cancelled())
        assert (job.state, job.error_code, job.cancel_requested) == (State.FAILED, "GW_4XX", False)

    def test_a_worker_that_stopped_as_asked_makes_the_job_cancelled(self) -> None:
        job = self._after(Cancel({"why": "cancelled by hand"}), self._to_be_cancelled())
        assert (job.state, job.cancel_requested) == (State.CANCELLED, False)

    # What cannot be stored

    @pytest.mark.parametrize("name", UNSTORABLE)
    def test_an_outcome_that_cannot_be_stored_fails_its_job_and_no_other(self, name: str) -> None:
        answer, job = self._beside_others(Outcome(self.leased(), UNSTORABLE[name]))
        assert answer is Settled.UNSTORABLE
        assert (job.state, job.error_code, job.error_class) == (State.FAILED, "UNSTORABLE", "final")
        assert job.error_message
        assert self.events(job.id)[-1].code == "UNSTORABLE"

    @pytest.mark.parametrize("name", ABSURD)
    def test_an_absurd_outcome_is_stored_or_fails_its_job_but_harms_no_other(self, name: str) -> None:
        seconds = float("inf") if name == "endless seconds" else 0.5
        answer, job = self._beside_others(Outcome(self.leased(), ABSURD[name], seconds=seconds))
        if answer is Settled.UNSTORABLE:
            assert job.error_code == "UNSTORABLE"
        else:
            assert answer is Settled.ACCEPTED
            assert job.error_code != "UNSTORABLE"

    def test_an_unstorable_outcome_can_be_repeated(self) -> None:
        outcome = Outcome(self.leased(), Succeed('"\ud800"'))
        assert self.store.settle([outcome]) == [Settled.UNSTORABLE]
        assert self.store.settle([outcome]) == [Settled.REPEATED]

    def test_an_unstorable_outcome_that_came_too_late_is_refused(self) -> None:
        lease = self.leased()
        self.advance(HOUR)
        self.settle(lease, Release({"loss": 1}), by="the-reclaimer")
        assert self.settle(lease, Succeed('"\ud800"')) is Settled.REFUSED
        assert self.job(lease.fence.id).state is State.QUEUED

    def _beside_others(self, outcome: Outcome) -> tuple[Settled, Job[Any]]:
        """Settled between two good ones, which must not feel it."""
        before, after = self.leased(), self.leased()
        answers = self.store.settle([Outcome(before, Succeed("1")), outcome, Outcome(after, retrying())])
        assert (answers[0], answers[2]) == (Settled.ACCEPTED, Settled.ACCEPTED)
        assert self.job(before.fence.id).state is State.SUCCEEDED
        assert self.job(after.fence.id).failures == 1
        return answers[1], self.job(outcome.lease.fence.id)

    def _after(self, decision: Decision, lease: Lease | None = None) -> Job[Any]:
        lease = lease or self.leased()
        self.advance(SECOND)
        assert self.settle(lease, decision) is Settled.ACCEPTED
        return self.job(lease.fence.id)

    def _again(self, lease: Lease, decision: Decision) -> Lease:
        """Settled so that it runs again, and claimed again."""
        assert self.settle(lease, decision) is Settled.ACCEPTED
        self.advance(HOUR)
        (again,) = [taken for taken in self.claim() if taken.fence.id == lease.fence.id]
        return again

    def _troubled(self, lease: Lease) -> Lease:
        """After two losses and a crash."""
        for blame in (LOST, CRASHED, LOST):
            lease = self._again(lease, Release({}, ledger=blame.ledger, verdict=blame))
        return lease

    def _to_be_cancelled(self) -> Lease:
        lease = self.leased()
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        return lease
