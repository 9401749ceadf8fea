"""Dedupe keys that a finished job gives up: another job takes them, and a job that may run keeps its own."""

from typing import Any

import pytest

from conformance.bench import DAY, HOUR, Bench, at_once
from mulligan.errors import IllegalMove, JobNotFound, KeyInUse
from mulligan.lifecycle import FINAL, KEY_RELEASED, LIVE, Move, State
from mulligan.records.job import Job
from mulligan.store.messages import JobRequest

HELD: dict[str, dict[str, Any]] = {
    "for a while": {"dedupe_key": "k", "dedupe_for": DAY},
    "after success": {"dedupe_key": "k", "dedupe_scope": "succeeded"},
    "while active": {"dedupe_key": "k"},
}


class DedupeKeyRules(Bench):
    @pytest.mark.parametrize("state", FINAL)
    @pytest.mark.parametrize("how", HELD)
    def test_a_finished_job_gives_up_its_key(self, how: str, state: State) -> None:
        job = self.in_state(state, **HELD[how])
        self.advance(HOUR)
        released = self._release(job, actor="ann", reason="its result is gone")
        assert released == self.job(job.id)
        assert (released.state, released.dedupe_key, released.dedupe_until) == (state, None, None)
        assert (released.finished_at, released.updated_at) == (job.finished_at, self.now)
        event = self.events(job.id)[-1]
        assert (event.type, event.actor, event.data) == (
            KEY_RELEASED,
            "ann",
            {"key": "k", "reason": "its result is gone"},
        )
        twin = self.enqueue(**HELD[how])
        assert (twin.is_duplicate, twin.id != job.id) == (False, True)

    @pytest.mark.parametrize("state", LIVE)
    def test_a_job_that_may_run_keeps_its_key(self, state: State) -> None:
        job = self.in_state(state, dedupe_key="k")
        with pytest.raises(KeyInUse, match=f"it is {state}") as refused:
            self._release(job)
        assert isinstance(refused.value, IllegalMove)
        assert self.job(job.id) == job
        assert self.enqueue(dedupe_key="k").id == job.id

    def test_a_request_that_is_repeated_writes_one_event_and_takes_no_later_key(self) -> None:
        job = self.in_state(State.FAILED, dedupe_key="k")
        request = JobRequest(id=self.ids(), job=job.id)
        assert [self.store.release_key(request).dedupe_key for _ in range(2)] == [None, None]
        assert self.types(job.id).count(KEY_RELEASED) == 1

    def test_a_job_without_a_key_does_not_change(self) -> None:
        job = self.in_state(State.SUCCEEDED)
        assert self._release(job) == job
        assert KEY_RELEASED not in self.types(job.id)

    def test_two_callers_at_once_release_it_once(self) -> None:
        job = self.in_state(State.SUCCEEDED, **HELD["after success"])
        answers = at_once([lambda: self._release(job) for _ in range(2)])
        assert [answer.dedupe_key for answer in answers if isinstance(answer, Job)] == [None, None]
        assert self.types(job.id).count(KEY_RELEASED) == 1

    def test_the_key_of_another_owners_job_is_not_released(self) -> None:
        job = self.in_state(State.FAILED, owner="acme", dedupe_key="k")
        with pytest.raises(JobNotFound):
            self._release(job, owner="other")
        assert self.job(job.id).dedupe_key == "k"

    def test_a_job_without_its_key_can_be_retried_beside_the_one_that_took_it(self) -> None:
        job = self.in_state(State.FAILED, dedupe_key="k")
        self._release(job)
        self.enqueue(dedupe_key="k")
        assert self.move(Move.MANUAL_RETRY, job.id).state is State.QUEUED

    def test_it_may_be_deleted_from_then_on(self) -> None:
        job = self.in_state(State.SUCCEEDED, **HELD["after success"])
        self.advance(DAY)
        assert self.store.prune(State.SUCCEEDED, before=self.now, limit=9) == 0
        self._release(job)
        assert self.store.prune(State.SUCCEEDED, before=self.now, limit=9) == 1

    def _release(self, job: Job[Any], **options: Any) -> Job[Any]:
        return self.store.release_key(JobRequest(id=self.ids(), job=job.id, **options))
