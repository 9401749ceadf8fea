"""The unfinished jobs of an owner: no more are accepted than `max_live`, exactly, however many clients enqueue."""

from functools import partial
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, Bench, at_once, failing
from mulligan.errors import TooManyJobs
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import Move
from mulligan.records.job import Job, JobFilter, NewJob
from mulligan.records.rate import parse_rate
from mulligan.store.fairness import SubmitOperations


class LiveRules(Bench):
    def limited(self, most: int, **options: Any) -> NewJob:
        return self.new(**{"owner": "acme", "max_live": most, "is_counted": True, **options})

    def submit(self, most: int, **options: Any) -> Job[Any]:
        (job,) = self.store.enqueue([self.limited(most, **options)])
        return job

    def test_no_more_jobs_are_accepted_than_an_owner_may_have(self) -> None:
        self.submit(3), self.submit(3, delay=HOUR)
        lease = self.claim("send")[0]
        self.submit(3)
        with pytest.raises(TooManyJobs) as refused:
            self.submit(3)
        assert (refused.value.owner, refused.value.limit, refused.value.live) == ("acme", 3, 3)
        assert len(self.store.jobs(JobFilter()).jobs) == 3
        self.submit(3, owner="other")
        self.enqueue(owner="")
        self.settle(lease, Succeed(None))
        self.submit(3)

    def test_of_several_jobs_all_fit_or_none_is_stored(self) -> None:
        self.submit(3)
        with pytest.raises(TooManyJobs, match="may have 3 unfinished jobs, has 1, and 3 jobs more would exceed it"):
            self.store.enqueue([self.limited(3) for _ in range(3)])
        assert len(self.store.enqueue([self.limited(3) for _ in range(2)])) == 2

    def test_jobs_that_exist_already_do_not_count_again(self) -> None:
        keyed, own = self.limited(2, dedupe_key="k"), self.limited(2, is_id_given=True)
        self.store.enqueue([keyed, own])
        twin = self.limited(2, dedupe_key="k")
        assert [job.id for job in self.store.enqueue([twin, own])] == [keyed.id, own.id]
        with pytest.raises(TooManyJobs):
            self.store.enqueue([twin, self.limited(2)])

    def test_jobs_from_before_the_limit_count(self) -> None:
        for _ in range(2):
            self.enqueue(owner="acme")
        with pytest.raises(TooManyJobs):
            self.submit(2)
        self.settle(self.claim("send", limit=1)[0], Succeed(None))
        self.submit(2)
        with pytest.raises(TooManyJobs):
            self.submit(2)

    def test_a_job_that_is_retried_manually_counts_again_and_is_never_refused(self) -> None:
        job = self.submit(1)
        self.settle(self.claim("send")[0], failing())
        self.submit(1)
        self.move(Move.MANUAL_RETRY, job.id)
        with pytest.raises(TooManyJobs) as refused:
            self.submit(1)
        assert refused.value.live == 2

    def test_jobs_of_a_process_that_does_not_know_the_limit_count_a_day_later(self) -> None:
        self.submit(3)
        self.enqueue(owner="acme")
        self.submit(3)
        self.submit(3)
        self.advance(DAY)
        with pytest.raises(TooManyJobs) as refused:
            self.submit(3)
        assert refused.value.live == 4

    def test_a_refused_enqueue_does_not_look_for_jobs_from_before_the_limit_each_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(20):
            self.enqueue(owner="acme")
        looks: list[str] = []
        look = SubmitOperations._adopt

        def noted(*args: Any) -> Any:
            looks.append(args[1].owner)
            return look(*args)

        monkeypatch.setattr(SubmitOperations, "_adopt", noted)
        for number in (2, 0, 0):
            with pytest.raises(TooManyJobs) as refused:
                self.submit(3)
            assert (refused.value.live, len(looks)) == (4, number)
            looks.clear()
        for lease in self.claim("send", limit=18):
            self.settle(lease, Succeed(None))
        self.submit(3)
        with pytest.raises(TooManyJobs):
            self.submit(3)

    def test_a_limit_of_zero_accepts_nothing(self) -> None:
        with pytest.raises(TooManyJobs):
            self.submit(0)

    def test_the_limit_and_the_rate_hold_together(self) -> None:
        rate = parse_rate("5/h")
        for _ in range(2):
            self.submit(2, submit_rate=rate)
        with pytest.raises(TooManyJobs):
            self.submit(2, submit_rate=rate)
        lease, *_ = self.claim("send", limit=1)
        self.settle(lease, Succeed(None))
        self.submit(2, submit_rate=rate)

    def test_the_limit_is_exact_for_clients_that_enqueue_at_once(self) -> None:
        calls = [partial(self.submit, 4) for _ in range(12)]
        answers = at_once(calls)
        assert sum(isinstance(answer, Job) for answer in answers) == 4
        assert all(isinstance(answer, Job | TooManyJobs) for answer in answers)
        assert len(self.store.jobs(JobFilter(owner="acme")).jobs) == 4
