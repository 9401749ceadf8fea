"""Intake: a pause refuses new jobs of clients, all or none, and lets the rest go on."""

from typing import Any

import pytest

from conformance.bench import DAY, HOUR, MINUTE, Bench, failing
from mulligan.errors import IntakePaused
from mulligan.lifecycle import Move, State
from mulligan.records.job import JobFilter
from mulligan.records.pause import Pause, PauseRequest


class IntakeRules(Bench):
    def pause_intake(self, name: str, **options: Any) -> Pause:
        return self.store.pause(PauseRequest(id=self.ids(), what="intake", name=name, **options))

    @pytest.mark.parametrize("name", ["send", "default", "*"])
    def test_a_pause_of_the_intake_refuses_new_jobs(self, name: str) -> None:
        self.pause_intake(name, duration=HOUR, reason="maintenance", actor="ann")
        self.advance(MINUTE)
        with pytest.raises(IntakePaused) as refused:
            self.enqueue(is_submitted=True)
        assert (refused.value.name, refused.value.reason) == (name, "maintenance")
        assert refused.value.until == self.now + HOUR - MINUTE
        assert refused.value.retry_after == HOUR - MINUTE
        assert self.store.jobs(JobFilter()).jobs == ()
        assert [event.type for event in self.store.events()] == ["intake.paused"]

    @pytest.mark.parametrize("name", ["other", "bulk"])
    def test_a_pause_of_another_intake_refuses_nothing(self, name: str) -> None:
        self.pause_intake(name)
        assert self.enqueue(is_submitted=True).state is State.QUEUED

    def test_it_is_accepted_again_when_the_pause_is_over(self) -> None:
        self.pause_intake("*", duration=MINUTE)
        self.advance(MINUTE)
        assert self.enqueue(is_submitted=True).state is State.QUEUED
        self.pause_intake("*")
        self.advance(DAY)
        with pytest.raises(IntakePaused, match="until the intake is resumed"):
            self.enqueue(is_submitted=True)
        assert self.store.resume(PauseRequest(id=self.ids(), what="intake", name="*")) is not None
        assert self.enqueue(is_submitted=True).state is State.QUEUED

    @pytest.mark.parametrize("first", [True, False])
    def test_of_several_jobs_all_are_refused_or_none(self, first: bool) -> None:
        self.pause_intake("bulk")
        refused, fine = self.new(queue="bulk", is_submitted=True), self.new(is_submitted=True)
        with pytest.raises(IntakePaused):
            self.store.enqueue([refused, fine] if first else [fine, refused])
        assert self.store.jobs(JobFilter()).jobs == ()

    def test_the_engines_own_jobs_are_accepted(self) -> None:
        self.pause_intake("*")
        assert self.enqueue().state is State.QUEUED

    def test_retries_go_on(self) -> None:
        lease = self.leased()
        self.pause_intake("*")
        self.settle(lease, failing())
        assert self.move(Move.MANUAL_RETRY, lease.fence.id).state is State.QUEUED
        assert [one.fence.id for one in self.claim("send")] == [lease.fence.id]

    def test_a_job_that_exists_is_returned_as_usual(self) -> None:
        own = self.new(is_submitted=True, is_id_given=True)
        keyed = self.new(is_submitted=True, dedupe_key="k")
        self.store.enqueue([own, keyed])
        self.pause_intake("*")
        assert self.store.enqueue([own])[0].is_duplicate
        twin = self.new(is_submitted=True, dedupe_key="k")
        assert [job.id for job in self.store.enqueue([twin, own])] == [keyed.id, own.id]
        with pytest.raises(IntakePaused):
            self.store.enqueue([own, self.new(is_submitted=True)])

    def test_a_fair_queue_charges_no_owner_for_refused_jobs(self) -> None:
        self.enqueue(is_submitted=True, owner="a", weight=1.0)
        self.pause_intake("*")
        for _ in range(5):
            with pytest.raises(IntakePaused):
                self.enqueue(is_submitted=True, owner="a", weight=1.0)
        self.store.resume(PauseRequest(id=self.ids(), what="intake", name="*"))
        self.enqueue(is_submitted=True, owner="b", weight=1.0)
        late = self.enqueue(is_submitted=True, owner="a", weight=1.0)
        assert self.store.position(late.id, limit=9) == 3
