"""Redrives: an operation begins once, one step of it is one transaction, and no job is moved twice for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, INSTANT, KIND, MINUTE, Bench, at_once, failing, retrying, verdict
from mulligan.errors import RedriveNotFound
from mulligan.failure.decision import Release, Succeed
from mulligan.lifecycle import (
    BATCH_REOPENED,
    REDRIVE_CANCELLED,
    REDRIVE_EVENTS,
    REDRIVE_FINISHED,
    REDRIVE_STARTED,
    REDRIVE_STOPPED,
    Move,
    State,
)
from mulligan.records.batch import BatchState, NewBatch
from mulligan.records.job import Job, JobFilter
from mulligan.records.rate import parse_rate
from mulligan.records.redrive import MOVED_ON, Course, Match, Redrive, RedriveState, Watched, end, retry_request_id
from mulligan.store.messages import Request, Settled

FAILED = JobFilter(state=State.FAILED)


class OperationRules(Bench):
    # Which jobs

    def test_candidates_are_counted_by_kind_and_code(self) -> None:
        for code in ("GW_5XX", "GW_5XX", "BAD"):
            self._failed(code=code)
        self._failed(kind="other", code="BAD")
        self.in_state(State.SUCCEEDED)
        self.in_state(State.CANCELLED)
        found = self.store.count_candidates(FAILED, before=self.now)
        assert found == [Match(KIND, "GW_5XX", 2), Match("other", "BAD", 1), Match(KIND, "BAD", 1)]
        assert self.store.count_candidates(JobFilter(state=State.CANCELLED), before=self.now) == [Match(KIND, None, 1)]
        assert self.store.count_candidates(JobFilter(state=State.FAILED, code="none"), before=self.now) == []

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("kind", "other"),
            ("owner", "ann"),
            ("code", "ODD"),
            ("last_code", "ODD"),
            ("group", "g2"),
            ("tag", "eu"),
            ("version", "2.0"),
            ("service", "gateway"),
        ],
    )
    def test_each_field_of_the_filter_picks_its_jobs(self, field: str, value: str) -> None:
        self._failed(code="BAD")
        picked = self._failed(
            kind=value if field == "kind" else KIND,
            owner=value if field == "owner" else "",
            tags=(value,) if field == "tag" else (),
            service=value if field == "service" else "",
            code=value if field in ("code", "last_code") else "BAD",
            group=value if field == "group" else "g1",
            version=value if field == "version" else None,
        )
        wanted = JobFilter(**{"state": State.FAILED, field: value})  # type: ignore[arg-type]
        page = self.store.candidates(wanted, before=self.now)
        assert [job.id for job in page.jobs] == [picked.id]
        assert sum(match.number for match in self.store.count_candidates(wanted, before=self.now)) == 1

    def test_candidates_come_by_id_page_by_page(self) -> None:
        jobs = [self._failed() for _ in range(5)]
        first = self.store.candidates(FAILED, before=self.now, limit=2)
        assert [job.id for job in first.jobs] == [job.id for job in jobs[:2]]
        assert first.cursor == jobs[1].id
        last = self.store.candidates(FAILED, before=self.now, after=first.cursor, limit=3)
        assert ([job.id for job in last.jobs], last.cursor) == ([job.id for job in jobs[2:]], None)

    def test_what_ended_later_is_no_candidate(self) -> None:
        job = self._failed()
        self.advance(MINUTE)
        self._failed()
        page = self.store.candidates(FAILED, before=self.now - INSTANT)
        assert [job.id for job in page.jobs] == [job.id]

    def test_an_owner_finds_only_its_own(self) -> None:
        mine = self._failed(owner="ann")
        self._failed(owner="bob")
        page = self.store.candidates(FAILED, before=self.now, owner="ann")
        assert [job.id for job in page.jobs] == [mine.id]
        assert self.store.count_candidates(FAILED, before=self.now, owner="bob") == [Match(KIND, "GW_4XX", 1)]

    # Begin

    def test_a_new_operation_is_stored_as_it_was_given_and_logged(self) -> None:
        wanted = JobFilter(
            state=[State.FAILED, State.CANCELLED],
            ids=["a", "b"],
            kind=KIND,
            tag="eu",
            since=self.now - HOUR,
            until=self.now,
            finished_since=self.now - HOUR,
        )
        redrive = self._redrive(filter=wanted, actor="ann", reason="it is back", owner="ann", sample=("x", "y"))
        assert self.store.begin_redrive(redrive) == redrive
        assert self.store.find_ids("redrive", redrive.id[-6:], limit=5) == [redrive.id]
        assert self.store.redrives() == [redrive]
        (event,) = self._told()
        assert (event.type, event.job, event.actor, event.owner) == (REDRIVE_STARTED, "", "ann", "ann")
        assert (event.data["name"], event.data["reason"], event.data["rate"]) == (redrive.id, "it is back", "50/s")

    def test_one_operation_for_each_request_id(self) -> None:
        first = self._begun(request_id="r1")
        again = self.store.begin_redrive(self._redrive(request_id="r1", canary=9))
        assert again == first
        assert self.store.redrives() == [first]
        assert len(self._told()) == 1
        assert self.store.begin_redrive(self._redrive(request_id="r1", owner="ann")) != first, "another's id is another"
        assert self.store.begin_redrive(self._redrive(request_id="r1", owner="")) != first

    def test_an_operation_is_found_by_the_request_id_of_its_owner(self) -> None:
        begun = self._begun(request_id="r1", owner="ann")
        assert self.store.find_redrive("r1", owner="ann") == begun
        assert self.store.find_redrive("r1", owner="ben") is None
        assert self.store.find_redrive("r1") is None
        assert self.store.find_redrive("r2", owner="ann") is None

    def test_many_calls_with_one_request_id_all_get_the_same_answer(self) -> None:
        wishes = [self._redrive(request_id="r1") for _ in range(8)]
        answers = at_once([lambda wish=wish: self.store.begin_redrive(wish) for wish in wishes])  # type: ignore[misc]
        assert len({answer.id for answer in answers if isinstance(answer, Redrive)}) == 1
        assert len(self.store.redrives()) == len(self._told()) == 1

    def test_a_step_opens_a_settled_batch_once(self) -> None:
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="spring"))
        members = [self.enqueue(batch=batch.id) for _ in range(5)]
        self.store.publish(batch.id)
        for lease in self.claim(limit=5):
            self.settle(lease, failing())
        assert self.store.batch(batch.id).state is BatchState.FAILED
        self._advance(self._begun(matched=5), members)
        after = self.store.batch(batch.id)
        assert (after.state, after.generation, after.failed) == (BatchState.PROCESSING, batch.generation + 1, 0)
        assert len(self._told(BATCH_REOPENED)) == 1

    def test_an_operation_that_ended_long_ago_is_forgotten_when_the_next_begins(self) -> None:
        old, live = self._begun(), self._begun()
        self.store.cancel_redrive(old.id)
        self.advance(91 * DAY)
        young = self._begun()
        assert [redrive.id for redrive in self.store.redrives()] == [young.id, live.id]

    # Look

    def test_operations_are_listed_the_newest_first_and_the_active_the_oldest_first(self) -> None:
        first, second, third = (self._begun() for _ in range(3))
        self.store.cancel_redrive(second.id)
        assert [redrive.id for redrive in self.store.redrives(limit=2)] == [third.id, second.id]
        assert [redrive.id for redrive in self.store.redrives(is_active=True)] == [first.id, third.id]
        assert [redrive.id for redrive in self.store.redrives(redrive_id=first.id)] == [first.id]
        assert self.store.redrives(redrive_id="unknown") == []

    def test_an_owner_sees_only_its_own(self) -> None:
        mine, other = self._begun(owner="ann"), self._begun()
        assert [redrive.id for redrive in self.store.redrives(owner="ann")] == [mine.id]
        assert self.store.redrives(redrive_id=other.id, owner="ann") == []
        with pytest.raises(RedriveNotFound):
            self.store.cancel_redrive(other.id, owner="ann")
        assert not self.store.redrives(redrive_id=other.id)[0].state.is_over

    # Advance

    def test_a_step_moves_its_jobs_and_writes_the_record_together(self) -> None:
        jobs = [self._failed() for _ in range(3)]
        redrive = self._begun(matched=3, actor="ann", reason="it is back")
        self.advance(MINUTE)
        ahead = self._with(redrive, cursors={KIND: jobs[1].id}, held_by="w1", held_until=self.now)
        after = self._advance(ahead, jobs[:2])
        assert after is not None and after.retried == 2
        assert after.course.watched == tuple(Watched(job.id, self.now) for job in jobs[:2])
        assert (after.course.version, after.course.held_by) == (redrive.course.version + 1, "w1")
        assert self.store.redrives() == [after]
        assert [self.job(job.id).state for job in jobs] == [State.QUEUED, State.QUEUED, State.FAILED]
        (event,) = [event for event in self.events(jobs[0].id) if event.type == "job.retry_requested"]
        assert (event.actor, dict(event.data)) == ("ann", {"reason": "it is back", "redrive": redrive.id})
        moved = self.job(jobs[0].id)
        assert (moved.failures, moved.manual_retries, moved.trigger) == (0, 1, "manual")

    def test_a_caller_that_read_an_older_version_moves_and_writes_nothing(self) -> None:
        job, redrive = self._failed(), self._begun(matched=1)
        assert self._advance(redrive, []) is not None
        assert self._advance(redrive, [job]) is None
        assert (self.job(job.id).state, self.store.redrives()[0].retried) == (State.FAILED, 0)

    def test_of_many_calls_that_advance_one_does(self) -> None:
        jobs = [self._failed() for _ in range(4)]
        redrive = self._begun(matched=4)
        answers = at_once([lambda: self._advance(redrive, jobs)] * 6)
        assert sum(answer is not None for answer in answers) == 1
        assert self._retries(*jobs) == 4 and self.store.redrives()[0].retried == 4

    def test_of_two_processes_that_advance_one_does(self) -> None:
        job, redrive, twin = self._failed(), self._begun(matched=1), self.twin()
        move = [self._request(redrive, job)]
        answers = at_once(
            [lambda: self.store.advance_redrive(redrive, move), lambda: twin.advance_redrive(redrive, move)]
        )
        assert sum(answer is not None for answer in answers) == 1
        assert self._retries(job) == 1

    def test_what_moved_on_is_left_alone_and_counted(self) -> None:
        names = ("retried manually", "failed again", "waits for a retry", "succeeded", "gone")
        jobs = {name: self._failed() for name in names}
        redrive = self._begun(matched=5)
        self.advance(MINUTE)
        for name in names[:4]:
            self.move(Move.MANUAL_RETRY, jobs[name].id)
        leases = {lease.fence.id: lease for lease in self.claim()}
        ends: dict[str, Any] = {"failed again": failing(), "waits for a retry": retrying(), "succeeded": Succeed(None)}
        for name, decision in ends.items():
            assert self.settle(leases[jobs[name].id], decision) is Settled.ACCEPTED
        assert self.store.prune(State.FAILED, before=self.now, limit=9) == 1
        before = {name: self.job(jobs[name].id) for name in names[:4]}
        after = self._advance(redrive, jobs.values())
        assert after is not None and (after.retried, after.skipped) == (0, {MOVED_ON: 5})
        assert {name: self.job(jobs[name].id) for name in names[:4]} == before

    def test_a_manual_retry_in_the_same_moment_and_the_step_make_one_retry(self) -> None:
        jobs = [self._failed() for _ in range(4)]
        redrive = self._begun(matched=4)
        moves = [self._request(redrive, job) for job in jobs]
        calls: list[Callable[[], Any]] = [partial(self.move, Move.MANUAL_RETRY, job.id) for job in jobs]
        calls.append(partial(self.store.advance_redrive, redrive, moves))
        answers = at_once(calls)
        by_hand = sum(isinstance(answer, Job) for answer in answers)
        after = self.store.redrives()[0]
        assert after.retried + by_hand == self._retries(*jobs) == 4
        assert after.looked_at == 4

    def test_a_twin_that_holds_the_key_is_a_conflict_and_stops_no_other(self) -> None:
        jobs = [self._failed(dedupe_key="k"), self._failed()]
        redrive = self._begun(matched=2)
        holder = self.enqueue(dedupe_key="k")
        after = self._advance(redrive, jobs)
        assert after is not None and (after.retried, after.skipped) == (1, {"conflict": 1})
        assert self.job(jobs[0].id).state is State.FAILED and self.job(holder.id).state is State.QUEUED
        assert [watched.job for watched in after.course.watched] == [jobs[1].id]

    def test_another_owners_job_is_not_moved(self) -> None:
        job = self._failed(owner="bob")
        redrive = self._begun(owner="ann", matched=1)
        after = self._advance(redrive, [job])
        assert after is not None and (after.retried, after.skipped) == (0, {MOVED_ON: 1})
        assert self.job(job.id).state is State.FAILED

    def test_cancelled_jobs_are_moved_only_if_the_filter_says_so(self) -> None:
        cancelled, failed = self.in_state(State.CANCELLED), self._failed()
        after = self._advance(self._begun(matched=1), [cancelled])
        assert after is not None and after.skipped == {MOVED_ON: 1}
        after = self._advance(self._begun(filter=JobFilter(state=State.CANCELLED), matched=1), [cancelled, failed])
        assert after is not None and (after.retried, after.skipped) == (1, {MOVED_ON: 1})
        assert [self.job(job.id).state for job in (cancelled, failed)] == [State.QUEUED, State.FAILED]

    def test_one_that_ends_is_logged_once_with_its_counts_and_does_not_continue(self) -> None:
        job = self._failed()
        redrive = self._begun(matched=3)
        done = self._advance(end(redrive, RedriveState.DONE, self.now), [job])
        assert done is not None and (done.retried, done.skipped) == (1, {MOVED_ON: 2}), "those that never came up"
        assert done.ended_at == self.now
        assert self._advance(done, []) is None
        (event,) = self._told(REDRIVE_FINISHED)
        assert (event.data["matched"], event.data["retried"], event.data["skipped"]) == (3, 1, {MOVED_ON: 2})
        assert self.store.redrives(is_active=True) == []

    def test_one_that_stops_says_why(self) -> None:
        redrive = self._begun()
        stopped = self._advance(end(redrive, RedriveState.STOPPED, self.now, because="all of them failed"), [])
        assert stopped is not None and stopped.because == "all of them failed"
        assert self.store.redrives() == [stopped]
        (event,) = self._told(REDRIVE_STOPPED)
        assert event.data["because"] == "all of them failed"

    # Cancel

    def test_a_cancelled_operation_goes_on_no_more(self) -> None:
        assert "redrive" in self.store.duty_overview().idle
        job, redrive = self._failed(), self._begun()
        self.advance(MINUTE)
        assert "redrive" not in self.store.duty_overview().idle
        cancelled = self.store.cancel_redrive(redrive.id, actor="bob", reason="enough")
        assert (cancelled.state, cancelled.ended_at) == (RedriveState.CANCELLED, self.now)
        assert (cancelled.because, cancelled.is_repeated) == ("by bob: enough", False)
        assert "redrive" in self.store.duty_overview().idle
        assert self._advance(redrive, [job]) is None
        assert self._advance(cancelled, [job]) is None
        assert self.job(job.id).state is State.FAILED
        again = self.store.cancel_redrive(redrive.id, actor="eve")
        assert (again, again.is_repeated) == (cancelled, True)
        assert self.store.redrives(redrive_id=redrive.id) == [cancelled]
        (event,) = self._told(REDRIVE_CANCELLED)
        assert (event.actor, event.data["reason"]) == ("bob", "enough")
        assert "because" not in event.data

    @pytest.mark.parametrize(
        ("actor", "reason", "because"), [("bob", None, "by bob"), (None, "enough", "enough"), (None, None, None)]
    )
    def test_one_that_was_cancelled_says_as_much_as_is_known(
        self, actor: str | None, reason: str | None, because: str | None
    ) -> None:
        redrive = self._begun()
        assert self.store.cancel_redrive(redrive.id, actor=actor, reason=reason).because == because

    def test_one_that_is_over_is_not_cancelled(self) -> None:
        done = self._advance(end(self._begun(), RedriveState.DONE, self.now), [])
        assert done is not None
        assert self.store.cancel_redrive(done.id) == done
        assert self._told(REDRIVE_CANCELLED) == []
        with pytest.raises(RedriveNotFound):
            self.store.cancel_redrive("unknown")

    # Answers

    def test_the_next_attempt_of_a_job_is_its_answer(self) -> None:
        names = ("good", "retried", "failed", "lost", "released", "running", "cancelled", "snoozed manually")
        jobs = {name: self._failed() for name in names}
        redrive = self._advance(self._begun(matched=len(jobs)), jobs.values())
        assert redrive is not None
        assert self.store.redrive_results(redrive) == {}
        self.move(Move.MANUAL_SNOOZE, jobs["snoozed manually"].id, delay=HOUR)
        self.move(Move.MANUAL_CANCEL, jobs["cancelled"].id)
        leases = {lease.fence.id: lease for lease in self.claim()}
        ends: dict[str, Any] = {
            "good": Succeed(None),
            "retried": retrying(),
            "failed": failing(),
            "lost": Release({}, verdict=verdict("WORKER_LOST")),
            "released": Release({}),
        }
        for name, decision in ends.items():
            assert self.settle(leases[jobs[name].id], decision) is Settled.ACCEPTED
        answers = {"good": True, "retried": False, "failed": False, "cancelled": False}
        assert self.store.redrive_results(redrive) == {jobs[name].id: is_good for name, is_good in answers.items()}

    def test_only_the_first_end_after_the_retry_counts(self) -> None:
        jobs = [self._failed(), self._failed()]
        redrive = self._advance(self._begun(matched=2), jobs)
        assert redrive is not None
        first, second = jobs
        leases = {lease.fence.id: lease for lease in self.claim()}
        self.settle(leases[first.id], Release({}))
        self.settle(leases[second.id], retrying())
        self.advance(HOUR)
        for lease in self.claim():
            self.settle(lease, Succeed(None))
        assert self.store.redrive_results(redrive) == {first.id: True, second.id: False}

    # Bulk operations

    @pytest.mark.parametrize(
        ("verb", "move", "states", "expected"),
        [
            ("cancel", Move.MANUAL_CANCEL, [State.WAITING, State.QUEUED, State.RUNNING], State.CANCELLED),
            ("snooze", Move.MANUAL_SNOOZE, [State.WAITING, State.QUEUED], State.WAITING),
            ("run_now", Move.RUN_NOW, [State.WAITING, State.FAILED, State.CANCELLED], State.QUEUED),
        ],
    )
    def test_a_bulk_operation_moves_jobs_in_the_states_of_its_filter(
        self, verb: str, move: Move, states: list[State], expected: State
    ) -> None:
        # The queued one last: the others are claimed on their way.
        order = sorted(State, key=lambda state: state is State.QUEUED)
        jobs = {state: self.in_state(state).id for state in order}
        wanted = JobFilter(state=states)
        found = self.store.candidates(wanted, before=self.now)
        assert {job.id for job in found.jobs} == {jobs[state] for state in states}
        begun = self.store.begin_redrive(
            self._redrive(verb=verb, delay=HOUR, filter=wanted, matched=6, state=RedriveState.RUNNING)
        )
        assert self.store.redrives() == [begun]
        requests = [replace(self._request(begun, self.job(job)), move=move, delay=HOUR) for job in jobs.values()]
        after = self.store.advance_redrive(begun, requests)
        assert after is not None
        assert (after.retried, after.skipped) == (len(states), {MOVED_ON: 6 - len(states)})
        assert after.course.watched == (), "only retries have answers"
        moved = {state: self.job(jobs[state]).state for state in states if state is not State.RUNNING}
        assert set(moved.values()) == {expected}
        assert self.job(jobs[State.RUNNING]).cancel_requested is (verb == "cancel")

    def test_a_live_job_enqueued_later_is_no_candidate(self) -> None:
        self.advance(MINUTE)
        self.enqueue()
        assert self.store.candidates(JobFilter(state=State.QUEUED), before=self.now - INSTANT).jobs == ()

    # Words

    @pytest.mark.parametrize("is_tended", [True, False])
    def test_members_of_an_expired_batch_are_skipped_and_hold_up_no_others(self, *, is_tended: bool) -> None:
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="spring", expires_in=HOUR))
        member = self.enqueue(batch=batch.id)
        self.store.publish(batch.id)
        (lease,) = self.claim()
        self.settle(lease, failing())
        other = self._failed()
        self.advance(HOUR)
        if is_tended:
            self.store.tend_batches(limit=10)
        redrive = self.store.begin_redrive(self._redrive(matched=2))
        after = self.store.advance_redrive(redrive, [self._request(redrive, job) for job in (member, other)])
        assert after is not None
        assert (after.retried, after.skipped) == (1, {"its batch has expired": 1})
        assert (self.job(member.id).state, self.job(other.id).state) == (State.FAILED, State.QUEUED)

    def _failed(
        self,
        kind: str = KIND,
        *,
        code: str = "GW_4XX",
        group: str = "g1",
        version: str | None = None,
        **options: Any,
    ) -> Job[Any]:
        job = self.enqueue(kind, **options)
        (lease,) = [lease for lease in self.claim(kind, version=version) if lease.fence.id == job.id]
        assert self.settle(lease, failing(code, group=group)) is Settled.ACCEPTED
        return self.job(job.id)

    def _redrive(self, **fields: Any) -> Redrive:
        redrive_id = self.ids()
        course = Course(cursors={KIND: ""}, paced_at=self.now - timedelta(seconds=1))
        given = {
            "id": redrive_id,
            "request_id": redrive_id,
            "filter": FAILED,
            "owner": None,
            "rate": parse_rate("50/s"),
            "canary": 5,
            "abort_above": 0.5,
            "actor": None,
            "reason": None,
            "state": RedriveState.CANARY,
            "matched": 0,
            "matches": (Match(KIND, None, 1),),
            "sample": (),
            "began_at": self.now,
            "course": course,
        }
        return Redrive(**{**given, **fields})

    def _begun(self, **fields: Any) -> Redrive:
        return self.store.begin_redrive(self._redrive(**fields))

    def _with(self, redrive: Redrive, **course: Any) -> Redrive:
        return replace(redrive, course=replace(redrive.course, **course))

    def _request(self, redrive: Redrive, job: Job[Any]) -> Request:
        return Request(
            id=retry_request_id(redrive.id, job.id),
            move=Move.MANUAL_RETRY,
            job=job.id,
            owner=redrive.owner,
            actor=redrive.actor,
            reason=redrive.reason,
            redrive=redrive.id,
        )

    def _advance(self, redrive: Redrive, jobs: Any) -> Redrive | None:
        moves: Sequence[Request] = [self._request(redrive, job) for job in jobs]
        return self.store.advance_redrive(redrive, moves)

    def _retries(self, *jobs: Job[Any]) -> int:
        return sum(self.types(job.id).count("job.retry_requested") for job in jobs)

    def _told(self, *types: str) -> list[Any]:
        return [event for event in self.events() if event.type in (types or REDRIVE_EVENTS)]
