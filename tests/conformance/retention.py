"""Finished jobs are deleted on request, with all their rows, but never before the promised time."""

from datetime import timedelta
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, INSTANT, MINUTE, Bench, failing
from mulligan.errors import JobNotFound
from mulligan.lifecycle import FINAL, LIVE, PURGED, Move, State
from mulligan.records.job import Job, JobFilter
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.store.messages import Settled

EACH_END = pytest.mark.parametrize("state", FINAL)


class RetentionRules(Bench):
    # Prune

    @EACH_END
    def test_what_was_over_before_goes_with_its_history_and_is_not_found_any_more(self, state: State) -> None:
        old = self.in_state(state)
        self.advance(HOUR)
        young = self.in_state(state)
        assert self._prune(state, MINUTE) == 1
        with pytest.raises(JobNotFound):
            self.job(old.id)
        assert self.events(old.id) == []
        assert self.job(young.id) == young
        assert self.events(young.id) != []

    @EACH_END
    def test_the_moment_itself_is_not_before(self, state: State) -> None:
        job = self.in_state(state)
        self.advance(HOUR)
        assert self._prune(state, HOUR) == 0
        self.advance(INSTANT)
        assert self._prune(state, HOUR) == 1
        self._is_gone(job)

    @EACH_END
    def test_other_states_are_left_alone(self, state: State) -> None:
        jobs = [
            self.in_state(other) for other in (*FINAL, State.RUNNING, State.WAITING, State.QUEUED) if other is not state
        ]
        self.advance(DAY)
        assert self._prune(state) == 0
        assert {self.job(job.id).state for job in jobs} == {*LIVE, *FINAL} - {state}

    def test_the_oldest_go_first_and_no_more_than_the_limit(self) -> None:
        jobs = []
        for _ in range(5):
            jobs.append(self.in_state(State.SUCCEEDED))
            self.advance(MINUTE)
        assert self._prune(State.SUCCEEDED, limit=2) == 2
        assert self._ids() == [job.id for job in reversed(jobs[2:])]
        assert self._prune(State.SUCCEEDED, limit=9) == 3

    def test_a_job_that_was_started_again_is_not_over(self) -> None:
        job = self.in_state(State.FAILED)
        self.move(Move.MANUAL_RETRY, job.id)
        self.advance(DAY)
        assert self._prune(State.FAILED) == 0
        assert self.job(job.id).state is State.QUEUED

    def test_the_newest_are_ordered_by_when_they_finished(self) -> None:
        ends = []
        for _ in range(3):
            ends.append(self.in_state(State.CANCELLED).finished_at)
            self.advance(MINUTE)
        assert [self.store.newest(State.CANCELLED, count) for count in (1, 2, 3, 4)] == [*reversed(ends), None]
        assert self.store.newest(State.FAILED, 1) is None

    def test_a_late_result_for_a_job_that_is_gone_is_refused(self) -> None:
        lease = self.leased()
        self.advance(2 * MINUTE)
        assert self.settle(lease, failing(), by="another") is Settled.ACCEPTED
        self.advance(DAY)
        assert self._prune(State.FAILED) == 1
        assert self.settle(lease, failing()) is Settled.REFUSED
        with pytest.raises(JobNotFound):
            self.move(Move.MANUAL_RETRY, lease.fence.id)
        assert self.store.events() == []

    # Dedupe keys

    def test_a_key_held_for_a_period_keeps_its_job(self) -> None:
        job = self.in_state(State.SUCCEEDED, dedupe_key="k", dedupe_for=2 * DAY)
        self.advance(DAY)
        assert self._prune(State.SUCCEEDED) == 0
        assert self.enqueue(dedupe_key="k", dedupe_for=DAY).id == job.id, "it still is the one"
        self.advance(DAY + INSTANT)
        assert self._prune(State.SUCCEEDED) == 1
        assert not self.enqueue(dedupe_key="k", dedupe_for=DAY).is_duplicate

    def test_a_key_held_by_success_keeps_its_job_for_good_and_no_other(self) -> None:
        held = [self.in_state(State.SUCCEEDED, dedupe_key=f"k{n}", dedupe_scope="succeeded") for n in range(3)]
        others = [
            self.in_state(State.SUCCEEDED, dedupe_key="k"),
            self.in_state(State.SUCCEEDED, dedupe_scope="succeeded"),
        ]
        self.advance(400 * DAY)
        # Fewer at once than are held: they do not stand in the way of the others.
        assert [self._prune(State.SUCCEEDED, limit=1) for _ in range(3)] == [1, 1, 0]
        for job in others:
            self._is_gone(job)
        assert self.enqueue(dedupe_key="k1", dedupe_scope="succeeded").id == held[1].id

    def test_a_failed_job_holds_no_key_by_success(self) -> None:
        job = self.in_state(State.FAILED, dedupe_key="k", dedupe_scope="succeeded")
        self.advance(DAY)
        assert self._prune(State.FAILED) == 1
        self._is_gone(job)

    # Cursors

    def test_cursors_are_kept_the_lowest_first(self) -> None:
        self.store.set_cursor("groups", 7)
        self.advance(MINUTE)
        self.store.set_cursor("alerts", 5)
        self.store.set_cursor("groups", 4)
        found = [(cursor.name, cursor.position, cursor.updated_at) for cursor in self.store.cursors()]
        assert found == [("groups", 4, self.now), ("alerts", 5, self.now)]
        self.store.drop_cursor("groups")
        self.store.drop_cursor("unknown")
        assert [cursor.name for cursor in self.store.cursors()] == ["alerts"]

    def test_what_a_cursor_has_not_passed_is_never_deleted(self) -> None:
        first = self.in_state(State.SUCCEEDED)
        seen = self.store.last_position()
        second = self.in_state(State.SUCCEEDED)
        self.store.set_cursor("fast", self.store.last_position())
        self.store.set_cursor("slow", seen)
        self.advance(DAY)
        assert self._prune(State.SUCCEEDED) == 1
        self._is_gone(first)
        assert self.job(second.id) == second
        assert {event.job for event in self.store.events(after=seen)} == {second.id}
        self.store.set_cursor("slow", self.store.last_position())
        assert self._prune(State.SUCCEEDED) == 1
        self._is_gone(second)

    def test_a_job_is_kept_whole_while_a_cursor_stands_in_its_middle(self) -> None:
        job = self.in_state(State.FAILED)
        self.store.set_cursor("slow", self.events(job.id)[0].position)
        self.advance(DAY)
        assert self._prune(State.FAILED) == 0
        assert self._purge(job) == 0
        assert len(self.events(job.id)) >= 3
        self.store.drop_cursor("slow")
        assert self._prune(State.FAILED) == 1

    def test_positions_go_on_after_everything_was_deleted(self) -> None:
        self.in_state(State.SUCCEEDED)
        last = self.store.last_position()
        self.advance(DAY)
        assert self._prune(State.SUCCEEDED) == 1
        job = self.enqueue()
        (event,) = self.store.events(after=last)
        assert event.job == job.id
        assert event.position > last

    # Purge

    def test_what_is_over_is_found_by_any_filter_the_newest_first(self) -> None:
        jobs = [self.in_state(State.FAILED, owner="acme"), self.in_state(State.FAILED), self.in_state(State.SUCCEEDED)]
        self.in_state(State.QUEUED, owner="acme")
        self.advance(MINUTE)
        self.in_state(State.FAILED, owner="acme")
        before = self.now - INSTANT
        newest_first = [job.id for job in reversed(jobs)]
        assert self.store.list_ended(JobFilter(), before=before) == newest_first
        assert self.store.list_ended(JobFilter(), before=before, limit=2) == newest_first[:2]
        assert self.store.list_ended(JobFilter(), before=before, cursor=newest_first[1]) == newest_first[2:]
        assert self.store.list_ended(JobFilter(owner="acme"), before=before) == [jobs[0].id]
        assert self.store.list_ended(JobFilter(code="GW_4XX"), before=before, owner="") == [jobs[1].id]
        assert self.store.list_ended(JobFilter(code="OTHER"), before=before) == []

    def test_what_is_over_is_counted_and_what_holds_a_key_apart(self) -> None:
        self.in_state(State.FAILED)
        self.in_state(State.FAILED)
        self.in_state(State.CANCELLED)
        held = self.in_state(State.FAILED, dedupe_key="k", dedupe_for=DAY)
        self.in_state(State.RUNNING)
        self.advance(MINUTE)
        assert self.store.count_ended(JobFilter(), before=self.now) == [
            EndedCount("send", State.CANCELLED, None, is_held=False, number=1),
            EndedCount("send", State.FAILED, "GW_4XX", is_held=False, number=2),
            EndedCount("send", State.FAILED, "GW_4XX", is_held=True, number=1),
        ]
        assert held.id not in self.store.list_ended(JobFilter(), before=self.now)
        assert self.store.count_ended(JobFilter(), before=self.now - HOUR) == []

    def test_a_purge_deletes_what_is_still_over_and_says_so_in_the_log(self) -> None:
        gone, revived, held = (
            self.in_state(State.FAILED),
            self.in_state(State.FAILED),
            self.in_state(State.FAILED, dedupe_key="k", dedupe_for=DAY),
        )
        self.move(Move.MANUAL_RETRY, revived.id)
        self.advance(MINUTE)
        seen = self.store.last_position()
        assert self._purge(gone, revived, held, actor="ann", reason="cleaning up") == 1
        self._is_gone(gone)
        assert {self.job(job.id).state for job in (revived, held)} == {State.QUEUED, State.FAILED}
        (event,) = self.store.events(after=seen)
        assert (event.type, event.job, event.actor) == (PURGED, "", "ann")
        assert event.data == {"what": "jobs", "name": "these", "did": 1, "reason": "cleaning up"}

    def test_a_purge_that_is_repeated_is_answered_as_it_was_and_leaves_no_second_line(self) -> None:
        job = self.in_state(State.FAILED)
        self.advance(MINUTE)
        seen = self.store.last_position()
        request = PurgeRequest(id=self.ids(), jobs=[job.id], before=self.now, about="these")
        assert (self.store.purge(request), self.store.purge(request)) == (1, 1)
        assert len(self.store.events(after=seen)) == 1

    def _prune(self, state: State, age: timedelta = timedelta(0), limit: int = 500) -> int:
        return self.store.prune(state, before=self.now - age, limit=limit)

    def _purge(self, *jobs: Job[Any], **signed: Any) -> int:
        ids = [job.id for job in jobs]
        return self.store.purge(PurgeRequest(id=self.ids(), jobs=ids, before=self.now, about="these", **signed))

    def _ids(self) -> list[str]:
        return [job.id for job in self.store.jobs(JobFilter()).jobs]

    def _is_gone(self, job: Job[Any]) -> None:
        with pytest.raises(JobNotFound):
            self.job(job.id)
        assert self.events(job.id) == []
