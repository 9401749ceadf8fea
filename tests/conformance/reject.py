"""Rejected jobs: stored as failed before they could run, in one transaction, and counted like others."""

from datetime import timedelta

import pytest

from conformance.bench import KIND, MINUTE, Bench, verdict
from conformance.hooks import follow_up
from mulligan.errors import BatchClosed, Conflict, IntakePaused
from mulligan.failure.error_codes import ErrorClass
from mulligan.lifecycle import Move, State
from mulligan.records.batch import BatchState, NewBatch
from mulligan.records.job import JobFilter
from mulligan.records.limit import LimitBook
from mulligan.records.pause import PauseRequest

NOT_PDF = verdict("NOT_PDF", ErrorClass.FINAL)


class RejectRules(Bench):
    def test_a_rejected_job_is_failed_from_the_start(self) -> None:
        job = self.store.reject(self.new(owner="acme", tags=("eu",)), NOT_PDF)
        assert job == self.job(job.id)
        assert (job.state, job.attempt, job.failures, job.owner, job.tags) == (State.FAILED, 0, 0, "acme", ("eu",))
        assert (job.error_code, job.error_class, job.error_message, job.group) == (
            "NOT_PDF",
            "final",
            "It was NOT_PDF.",
            "g1",
        )
        assert (job.enqueued_at, job.finished_at, job.started_at, job.queued_at) == (self.now, self.now, None, None)
        assert self.types(job.id) == ["job.enqueued", "job.failed"]
        failed = self.events(job.id)[-1]
        assert (failed.code, failed.attempt, failed.data["class"]) == ("NOT_PDF", 0, "final")
        assert self.claim() == []

    def test_nothing_follows_it_until_it_fails_again_after_a_retry(self) -> None:
        job = self.store.reject(self.new(on_failed=follow_up()), NOT_PDF)
        assert len(self.store.jobs(JobFilter()).jobs) == 1
        assert self.move(Move.MANUAL_RETRY, job.id).state is State.QUEUED
        (lease,) = self.claim()
        assert lease.fence.attempt == 1

    @pytest.mark.parametrize("delay", [0 * MINUTE, MINUTE])
    def test_it_is_over_whatever_it_would_have_waited_for(self, delay: timedelta) -> None:
        self.store.limit_by(lambda: LimitBook(kinds={KIND: 1}))
        job = self.store.reject(self.new(delay=delay), NOT_PDF)
        assert (job.state, job.waiting_for, job.gate) == (State.FAILED, None, None)
        assert self.claim() == []

    def test_a_rejected_member_counts_as_failed(self) -> None:
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="b"))
        self.store.reject(self.new(batch=batch.id), NOT_PDF)
        fine = self.enqueue(batch=batch.id)
        found = self.store.batch(batch.id)
        assert (found.state, found.failed) == (BatchState.DRAFT, 1)
        self.store.publish(batch.id)
        found = self.store.batch(batch.id)
        assert (found.total, found.failed, found.left) == (2, 1, 1)
        self.move(Move.MANUAL_CANCEL, fine.id)
        assert self.store.batch(batch.id).state is not BatchState.PROCESSING

    def test_a_batch_of_rejected_members_only_is_settled_when_it_is_published(self) -> None:
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="b"))
        self.store.reject(self.new(batch=batch.id), NOT_PDF)
        assert self.store.publish(batch.id).state is BatchState.FAILED

    def test_a_published_batch_takes_no_rejected_member(self) -> None:
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="b"))
        self.store.publish(batch.id)
        with pytest.raises(BatchClosed):
            self.store.reject(self.new(batch=batch.id), NOT_PDF)
        assert self.store.jobs(JobFilter()).jobs == ()

    def test_the_same_call_with_the_same_id_is_the_same_job(self) -> None:
        job = self.new(is_id_given=True)
        first = self.store.reject(job, NOT_PDF)
        again = self.store.reject(job, NOT_PDF)
        assert (again.id, again.is_duplicate) == (first.id, True)
        assert self.types(first.id) == ["job.enqueued", "job.failed"]
        with pytest.raises(Conflict):
            self.store.reject(self.new(id=job.id, arguments='{"a": 1}', is_id_given=True), NOT_PDF)

    def test_a_rejected_call_does_not_end_a_job_that_has_its_id(self) -> None:
        job = self.new(is_id_given=True)
        self.store.enqueue([job])
        assert self.store.reject(job, NOT_PDF).state is State.QUEUED

    def test_a_pause_of_the_intake_refuses_it(self) -> None:
        self.store.pause(PauseRequest(id=self.ids(), what="intake", name=KIND))
        with pytest.raises(IntakePaused):
            self.store.reject(self.new(is_submitted=True), NOT_PDF)
        assert self.store.jobs(JobFilter()).jobs == ()
