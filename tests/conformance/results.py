"""Results that end before their jobs: by age in passes of bounded size, or one by one."""

from typing import Any

import pytest

from conformance.bench import DAY, HOUR, MINUTE, SECOND, Bench, failing
from mulligan.errors import JobNotFound, NoResult
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import RESULT_EXPIRED, State
from mulligan.records.job import Job
from mulligan.store.messages import JobRequest, Outcome


class ResultRules(Bench):
    def succeeded(self, result: str = '"r"', **options: Any) -> Job[Any]:
        lease = self.leased(**options)
        self.settle(lease, Succeed(result))
        return self.job(lease.fence.id)

    def expire_results(self, age: Any = HOUR, limit: int = 100) -> tuple[int, int]:
        done = self.store.expire_results(before=self.now - age, limit=limit)
        return done.seen, done.expired

    def test_a_result_expires_by_its_age_and_the_job_stays(self) -> None:
        old = self.succeeded()
        self.advance(HOUR)
        assert self.expire_results() == (0, 0), "not before it is older than that"
        self.advance(SECOND)
        young = self.succeeded()
        assert self.expire_results() == (1, 1)
        job = self.job(old.id)
        assert (job.state, job.result, job.result_expired_at, job.finished_at) == (
            State.SUCCEEDED,
            None,
            self.now,
            old.finished_at,
        )
        assert self.types(old.id)[-1] == RESULT_EXPIRED
        assert self.job(young.id).result == "r"
        assert self.expire_results() == (0, 0)

    def test_only_succeeded_jobs_with_a_result_are_touched(self) -> None:
        nothing = self.succeeded("null")
        failed = self.leased()
        self.settle(failed, failing())
        waiting = self.enqueue(delay=DAY)
        self.advance(2 * HOUR)
        assert self.expire_results()[1] == 0
        for job_id in (nothing.id, failed.fence.id, waiting.id):
            assert self.job(job_id).result_expired_at is None
            assert RESULT_EXPIRED not in self.types(job_id)

    def test_results_expire_in_passes_also_those_of_one_moment(self) -> None:
        jobs = []
        for _ in range(3):
            leases = [self.leased() for _ in range(3)]
            jobs += [lease.fence.id for lease in leases]
            self.store.settle([self.outcome(lease) for lease in leases])
            self.advance(MINUTE)
        self.advance(2 * HOUR)
        assert self.expire_results(limit=2) == (2, 3), "what ended at the same moment goes together"
        assert [self.expire_results(limit=2) for _ in range(3)] == [(2, 3), (2, 3), (0, 0)]
        assert all(self.job(job_id).result_expired_at for job_id in jobs)

    def test_a_job_that_holds_its_key_keeps_its_result(self) -> None:
        forever = self.succeeded(dedupe_key="a", dedupe_scope="succeeded")
        period = self.succeeded(dedupe_key="b", dedupe_for=DAY)
        self.advance(2 * HOUR)
        assert self.expire_results()[1] == 0
        self.advance(DAY)
        assert self.expire_results()[1] == 1
        assert (self.job(forever.id).result, self.job(period.id).result) == ("r", None)

    def test_a_job_that_gave_up_its_key_is_found_by_the_round_of_the_next_day(self) -> None:
        keyed = self.succeeded(dedupe_key="b", dedupe_for=MINUTE)
        self.advance(MINUTE)
        self.succeeded()
        self.advance(HOUR)
        assert self.expire_results(age=HOUR - SECOND)[1] == 2
        late = self.succeeded(dedupe_key="b", dedupe_for=DAY)
        self.advance(DAY - HOUR)
        self.succeeded()
        self.advance(2 * HOUR)
        assert self.expire_results(age=HOUR)[1] == 1, "the period of the other has ended just now"
        self.enqueue(dedupe_key="b", dedupe_for=DAY)
        assert self.job(late.id).dedupe_until is None, "a new job has the key"
        self.advance(DAY)
        assert self.expire_results(age=HOUR)[1] == 1
        assert (self.job(keyed.id).result, self.job(late.id).result) == (None, None)

    def test_a_round_begins_again_after_a_day(self) -> None:
        self.succeeded()
        self.advance(2 * HOUR)
        assert self.expire_results() == (1, 1)
        self.advance(DAY)
        assert self.expire_results() == (1, 0), "it looks at everything again"
        assert self.expire_results() == (0, 0)

    def test_one_result_is_expired_by_a_person(self) -> None:
        job = self.succeeded(owner="acme")
        request = JobRequest(id=self.ids(), job=job.id, owner="acme", actor="ann", reason="private")
        self.advance(MINUTE)
        assert self.store.expire_result(request).result_expired_at == self.now
        self.advance(MINUTE)
        for again in (request, JobRequest(id=self.ids(), job=job.id)):
            assert self.store.expire_result(again).result_expired_at == self.now - MINUTE
        event = self.events(job.id)[-1]
        assert (event.type, event.actor, event.data) == (RESULT_EXPIRED, "ann", {"reason": "private"})
        assert self.types(job.id).count(RESULT_EXPIRED) == 1

    def test_only_a_succeeded_job_has_a_result_to_expire(self) -> None:
        job = self.enqueue(owner="acme")
        with pytest.raises(NoResult, match="it is queued, not succeeded"):
            self.store.expire_result(JobRequest(id=self.ids(), job=job.id))
        with pytest.raises(JobNotFound):
            self.store.expire_result(JobRequest(id=self.ids(), job=job.id, owner="other"))

    def outcome(self, lease: Any) -> Any:
        return Outcome(lease, Succeed('"r"'), seconds=0.1)
