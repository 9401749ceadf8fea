"""Manual moves: race-free against workers and other callers, safe to repeat, and logged with their actor."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, INSTANT, MINUTE, Bench, at_once, failing, retrying, verdict
from mulligan.errors import Conflict, IllegalMove, JobNotFound
from mulligan.failure.decision import Postpone, Release, Succeed
from mulligan.failure.verdict import Ledger, deadline_passed
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job
from mulligan.store.messages import Settled
from mulligan.store.store import Store

BY_HAND = [move for move in Move if move.verb]
REVIVING = [Move.MANUAL_RETRY, Move.RUN_NOW]
EACH_MOVE = pytest.mark.parametrize("move", BY_HAND, ids=lambda move: move.verb)
EACH_REVIVAL = pytest.mark.parametrize("move", REVIVING, ids=lambda move: move.verb)


class MoveRules(Bench):
    # Two at once

    @EACH_REVIVAL
    def test_two_callers_retry_a_failed_job_at_once_and_it_runs_once(self, move: Move) -> None:
        self._two_people(move, [self.store, self.store])

    @EACH_REVIVAL
    def test_two_callers_retry_a_failed_job_on_two_connections_and_it_runs_once(self, move: Move) -> None:
        self._two_people(move, [self.store, self.twin()])

    def _two_people(self, move: Move, stores: list[Store]) -> None:
        job = self.in_state(State.FAILED)
        people = zip(stores, ("ann", "bob"), strict=True)
        calls = [partial(self.move, move, job.id, actor=who, store=store) for store, who in people]
        (winner,), (loser,) = _sorted(at_once(calls))
        assert winner.state is State.QUEUED
        assert isinstance(loser, IllegalMove)
        assert str(loser).startswith(f"cannot {move.verb} job {job.id!r}: it is queued; a queued job can be: ")
        assert len(self.claim()) == 1
        assert self.claim() == []
        assert self.types(job.id).count(TABLE[move, State.FAILED].event) == 1

    @EACH_REVIVAL
    def test_a_manual_retry_replaces_the_automatic_one(self, move: Move) -> None:
        lease = self.leased()
        self.settle(lease, retrying(HOUR))
        job = self.move(move, lease.fence.id)
        assert (job.state, job.due_at) == (State.QUEUED, self.now)
        (again,) = self.claim()
        assert (again.fence.attempt, again.job.trigger) == (2, "manual")
        assert self.settle(again, Succeed("1")) is Settled.ACCEPTED
        self.advance(DAY)
        assert self.claim() == []

    def test_a_manual_retry_of_a_job_that_just_ran_is_refused_with_a_clear_message(self) -> None:
        lease = self.leased()
        self.settle(lease, retrying(MINUTE))
        self.advance(MINUTE)
        self.claim()
        with pytest.raises(IllegalMove, match="it is running; a running job can be: cancel"):
            self.move(Move.MANUAL_RETRY, lease.fence.id)

    def test_a_claim_and_a_cancel_at_once_end_in_one_of_two_ways(self) -> None:
        for _ in range(5):
            job = self.enqueue()
            calls: list[Callable[[], Any]] = [self.claim, partial(self.move, Move.MANUAL_CANCEL, job.id)]
            leases, moved = at_once(calls)
            assert not isinstance(moved, Exception)
            now = self.job(job.id)
            assert (now.state, now.cancel_requested) == ((State.RUNNING, True) if leases else (State.CANCELLED, False))

    # Repeating

    @EACH_MOVE
    def test_the_same_request_twice_changes_nothing_more(self, move: Move) -> None:
        job = self.in_state(State.WAITING)
        request = self.request(move, job.id, delay=HOUR if move is Move.MANUAL_SNOOZE else 0 * HOUR)
        first = self.store.move(request)
        written = self.events()
        self.advance(MINUTE)
        assert self.store.move(request) == first
        assert self.events() == written

    def test_a_request_repeated_much_later_changes_nothing_more(self) -> None:
        job = self.in_state(State.FAILED)
        request = self.request(Move.MANUAL_RETRY, job.id)
        self.store.move(request)
        (lease,) = self.claim()
        self.settle(lease, failing())
        before = self.job(job.id)
        assert self.store.move(request) == before
        assert (before.state, before.manual_retries) == (State.FAILED, 1)

    def test_a_request_is_repeated_on_another_connection(self) -> None:
        job = self.in_state(State.FAILED)
        request = self.request(Move.MANUAL_RETRY, job.id)
        twin = self.twin()
        answers = at_once([lambda: self.store.move(request), lambda: twin.move(request)])
        assert [_job(answer).id for answer in answers] == [job.id, job.id]
        assert self.job(job.id).manual_retries == 1

    def test_a_refused_request_may_be_made_again_when_it_is_possible(self) -> None:
        lease = self.leased()
        request = self.request(Move.MANUAL_RETRY, lease.fence.id)
        with pytest.raises(IllegalMove):
            self.store.move(request)
        self.settle(lease, failing())
        assert self.store.move(request).state is State.QUEUED

    # Owners

    @EACH_MOVE
    @pytest.mark.parametrize("owner", ["", "other", "ACME"])
    def test_another_owners_job_is_not_found(self, move: Move, owner: str) -> None:
        job = self.in_state(State.WAITING, owner="acme")
        with pytest.raises(JobNotFound, match=job.id):
            self.move(move, job.id, owner=owner, delay=HOUR)
        assert self.job(job.id) == job

    @EACH_MOVE
    def test_a_job_that_does_not_exist_is_not_found(self, move: Move) -> None:
        with pytest.raises(JobNotFound, match="there is no job 'nowhere'"):
            self.move(move, "nowhere")

    @pytest.mark.parametrize("owner", [None, "acme"])
    def test_its_owner_and_the_admin_may_move_a_job(self, owner: str | None) -> None:
        job = self.in_state(State.FAILED, owner="acme")
        assert self.move(Move.MANUAL_RETRY, job.id, owner=owner).state is State.QUEUED

    def test_another_owners_request_is_not_repeated(self) -> None:
        job = self.in_state(State.FAILED, owner="acme")
        request = self.request(Move.MANUAL_RETRY, job.id, owner="other")
        for _ in range(2):
            with pytest.raises(JobNotFound):
                self.store.move(request)

    @EACH_MOVE
    def test_the_log_has_actor_and_reason(self, move: Move) -> None:
        job = self.in_state(State.WAITING, owner="acme")
        self.move(move, job.id, actor="ann", reason="asked by the customer", delay=HOUR)
        (event,) = [event for event in self.events(job.id) if event.actor]
        assert (event.actor, event.data["reason"]) == ("ann", "asked by the customer")
        assert (event.type, event.owner, event.at) == (TABLE[move, State.WAITING].event, "acme", self.now)

    # Retry

    def test_a_manual_retry_starts_afresh_and_only_the_attempt_goes_on(self) -> None:
        job = self._worn_out()
        assert (job.failures, job.crashes, job.losses, job.snoozes, job.attempt) == (2, 1, 1, 1, 5)
        revived = self.move(Move.MANUAL_RETRY, job.id)
        assert (revived.failures, revived.crashes, revived.losses, revived.snoozes) == (0, 0, 0, 0)
        assert (revived.code_failures, revived.previous_delay, revived.manual_retries) == ({}, None, 1)
        assert (revived.error_code, revived.error_message, revived.group, revived.finished_at) == (None,) * 4
        assert (revived.attempt, revived.started_at) == (5, job.started_at)
        assert (revived.progress, revived.progress_text, revived.trigger) == (0, "", "manual")
        (lease,) = self.claim()
        assert lease.fence.attempt == 6

    def test_run_now_keeps_what_was_spent(self) -> None:
        job = self._worn_out()
        revived = self.move(Move.RUN_NOW, job.id)
        kept = (revived.failures, revived.crashes, revived.losses, revived.snoozes, revived.code_failures)
        assert kept == (job.failures, job.crashes, job.losses, job.snoozes, job.code_failures)
        assert (revived.manual_retries, revived.error_code, revived.trigger) == (0, None, "manual")

    def test_each_manual_retry_is_counted(self) -> None:
        job = self.in_state(State.FAILED)
        for number in (1, 2, 3):
            assert self.move(Move.MANUAL_RETRY, job.id).manual_retries == number
            (lease,) = self.claim()
            self.settle(lease, failing())

    def test_the_run_after_a_manual_retry_is_manual_and_the_next_is_not(self) -> None:
        job = self.in_state(State.FAILED)
        self.move(Move.MANUAL_RETRY, job.id)
        (manual,) = self.claim()
        self.settle(manual, retrying(MINUTE))
        self.advance(MINUTE)
        (automatic,) = self.claim()
        assert (manual.job.trigger, automatic.job.trigger) == ("manual", "automatic")

    @EACH_REVIVAL
    @pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED, State.WAITING])
    def test_a_revived_job_is_promoted_at_once(self, move: Move, state: State) -> None:
        job = self.in_state(state)
        revived = self.move(move, job.id)
        assert (revived.state, revived.queued_at) == (State.QUEUED, self.now)
        assert self.types(job.id)[-2:] == [TABLE[move, state].event, "job.queued"]

    @EACH_REVIVAL
    def test_a_revived_job_keeps_its_place_in_the_line(self, move: Move) -> None:
        old = self.in_state(State.FAILED)
        self.advance(HOUR)
        self.enqueue()
        self.move(move, old.id)
        assert [lease.fence.id for lease in self.claim(limit=1)] == [old.id]

    @EACH_REVIVAL
    @pytest.mark.parametrize("passed_by", [0 * INSTANT, HOUR], ids=["just now", "an hour ago"])
    def test_a_deadline_that_passed_does_not_kill_a_revived_job(self, move: Move, passed_by: Any) -> None:
        job = self.enqueue(deadline=MINUTE)
        self.advance(MINUTE + passed_by)
        self.store.expire(deadline_passed(), limit=10)
        self.move(move, job.id)
        assert self.store.expire(deadline_passed(), limit=10) == 0
        (lease,) = self.claim()
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    @EACH_REVIVAL
    def test_a_deadline_still_ahead_is_kept(self, move: Move) -> None:
        job = self.in_state(State.FAILED, deadline=HOUR)
        assert self.move(move, job.id).deadline == job.deadline

    @EACH_REVIVAL
    def test_a_job_cancelled_while_it_ran_can_be_revived(self, move: Move) -> None:
        lease = self.leased()
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        self.settle(lease, retrying())
        self.move(move, lease.fence.id)
        (again,) = self.claim()
        assert not again.job.cancel_requested
        assert self.settle(again, Succeed("1")) is Settled.ACCEPTED

    # Conflict

    @EACH_REVIVAL
    @pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
    @pytest.mark.parametrize(
        ("options", "twin_state"),
        [
            ({}, State.WAITING),
            ({}, State.QUEUED),
            ({}, State.RUNNING),
            ({"dedupe_scope": "succeeded"}, State.QUEUED),
            ({"dedupe_scope": "succeeded"}, State.SUCCEEDED),
            ({"dedupe_for": MINUTE}, State.QUEUED),
            ({"dedupe_for": MINUTE, "dedupe_scope": "succeeded"}, State.SUCCEEDED),
        ],
        ids=lambda value: str(value) if isinstance(value, State) else "-".join(map(str, value)) or "active",
    )
    def test_a_job_whose_key_is_held_by_another_is_not_revived(
        self, move: Move, state: State, options: dict[str, Any], twin_state: State
    ) -> None:
        job = self.in_state(state, dedupe_key="k", **options)
        self.advance(HOUR)
        twin = self.in_state(twin_state, dedupe_key="k", **options)
        before, written = self.job(job.id), self.events()
        with pytest.raises(Conflict, match=f"{job.id}.*{twin.id}") as refusal:
            self.move(move, job.id)
        assert (refusal.value.job_id, refusal.value.twin) == (job.id, twin.id)
        assert (self.job(job.id), self.events()) == (before, written)

    def test_a_conflict_names_the_other_also_when_the_job_itself_still_holds_a_period(self) -> None:
        options = {"dedupe_key": "k", "dedupe_scope": "succeeded", "dedupe_for": HOUR}
        twin = self.in_state(State.FAILED, **options)
        self.advance(HOUR)
        job = self.in_state(State.FAILED, **options)
        self.move(Move.MANUAL_RETRY, twin.id)
        (lease,) = self.claim()
        self.settle(lease, Succeed("1"))
        with pytest.raises(Conflict) as refusal:
            self.move(Move.MANUAL_RETRY, job.id)
        assert refusal.value.twin == twin.id

    def test_a_failed_job_is_revived_when_the_key_is_free_again(self) -> None:
        job = self.in_state(State.FAILED, dedupe_key="k")
        twin = self.in_state(State.QUEUED, dedupe_key="k")
        self.move(Move.MANUAL_CANCEL, twin.id)
        assert self.move(Move.MANUAL_RETRY, job.id).state is State.QUEUED

    def test_a_revived_job_holds_its_key_again(self) -> None:
        job = self.in_state(State.FAILED, dedupe_key="k")
        self.move(Move.MANUAL_RETRY, job.id)
        assert self.enqueue(dedupe_key="k").id == job.id

    # Cancel, snooze

    @pytest.mark.parametrize("state", [State.WAITING, State.QUEUED])
    def test_what_does_not_run_is_cancelled_at_once(self, state: State) -> None:
        job = self.move(Move.MANUAL_CANCEL, self.in_state(state).id)
        assert (job.state, job.finished_at, job.waiting_for) == (State.CANCELLED, self.now, None)
        self.advance(DAY)
        assert self.claim() == []

    def test_a_running_job_is_asked_to_stop_and_may_be_asked_again(self) -> None:
        lease = self.leased()
        for _ in range(2):
            job = self.move(Move.MANUAL_CANCEL, lease.fence.id)
            assert (job.state, job.cancel_requested, job.leased_by) == (State.RUNNING, True, lease.fence.incarnation)

    @pytest.mark.parametrize("state", [State.WAITING, State.QUEUED])
    def test_a_snoozed_job_waits_from_now(self, state: State) -> None:
        job = self.move(Move.MANUAL_SNOOZE, self.in_state(state).id, delay=MINUTE)
        assert (job.state, job.waiting_for, job.due_at) == (State.WAITING, "snooze", self.now + MINUTE)
        assert job.snoozes == 0
        self.advance(MINUTE - INSTANT)
        assert self.claim() == []
        self.advance(INSTANT)
        assert [lease.fence.id for lease in self.claim()] == [job.id]

    def test_a_job_snoozed_for_no_time_runs(self) -> None:
        job = self.enqueue()
        self.move(Move.MANUAL_SNOOZE, job.id)
        assert [lease.fence.id for lease in self.claim()] == [job.id]

    def _worn_out(self) -> Job[Any]:
        """Failed for good after a failure, a snooze, a crash and a loss."""
        lease = self.leased()
        for decision in (
            retrying(MINUTE),
            Postpone(MINUTE, verdict("SNOOZED"), {}),
            Release({}, ledger=Ledger.CRASHES),
            Release({}, ledger=Ledger.LOSSES),
        ):
            self.settle(lease, decision)
            self.advance(MINUTE)
            (lease,) = self.claim()
        self.settle(lease, failing())
        return self.job(lease.fence.id)


def _sorted(answers: list[Job[Any] | Exception]) -> tuple[list[Job[Any]], list[Exception]]:
    return (
        [answer for answer in answers if not isinstance(answer, Exception)],
        [answer for answer in answers if isinstance(answer, Exception)],
    )


def _job(answer: Job[Any] | Exception) -> Job[Any]:
    assert not isinstance(answer, Exception), answer
    return answer
