"""Claim: due jobs are promoted, then claimed by (priority, submission), each by one worker."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import pytest

from conformance.bench import (
    DAY,
    HOUR,
    INSTANT,
    KIND,
    MINUTE,
    SECOND,
    WORKER,
    Bench,
    at_once,
    retrying,
)
from mulligan.errors import LeaseLost
from mulligan.failure.decision import Release
from mulligan.lifecycle import Move, State
from mulligan.records.job import Job, Lease
from mulligan.store.messages import Settled
from mulligan.store.store import Store
from mulligan.testing.virtual import VirtualClock


def ids(leases: list[Lease]) -> list[str]:
    return [lease.fence.id for lease in leases]


class ClaimRules(Bench):
    # What a lease is

    def test_jobs_of_many_lanes_are_claimed_in_one_order_however_uneven_these_are(self) -> None:
        draw = Random(7)
        # Some lanes have most of the jobs, and some the urgent ones.
        lanes = [f"site:{draw.choice((draw.randrange(3), draw.randrange(60)))}" for _ in range(400)]
        priorities = [draw.choice((-10, 0, 0, 0, 10)) for _ in lanes]
        moments = [self.now - timedelta(seconds=draw.randrange(10_000)) for _ in lanes]
        news = [
            self.new(service=lane, priority=priority, submitted_at=at)
            for lane, priority, at in zip(lanes, priorities, moments, strict=True)
        ]
        self.store.enqueue(news)
        ordered = [job.id for job in sorted(news, key=lambda job: (job.priority, job.submitted_at, job.id))]
        for limit in (1, 7, 3, 50, 20, 100, 300):
            taken = {lease.fence.id for lease in self.claim(limit=limit)}
            assert taken == set(ordered[:limit])
            ordered = ordered[limit:]
        assert ordered == []

    def test_a_claim_leases_the_job_and_counts_the_attempt(self) -> None:
        job = self.enqueue(arguments='{"a":1}', owner="acme")
        self.advance(MINUTE)
        (lease,) = self.claim(number=9, by="w", lease=HOUR)
        fence = lease.fence
        assert (fence.id, fence.attempt, fence.incarnation, fence.claim) == (job.id, 1, "w", 9)
        assert (lease.kind, lease.arguments) == (KIND, '{"a":1}')
        assert (lease.claimed_at, lease.until) == (self.now, self.now + HOUR)
        now = self.job(job.id)
        assert lease.job == now
        assert (now.state, now.attempt, now.leased_by, now.lease_until) == (State.RUNNING, 1, "w", self.now + HOUR)
        assert (now.started_at, now.last_attempt_at, now.failures) == (self.now, self.now, 0)

    def test_a_lease_that_was_lost_does_not_show_the_new_holders_record(self) -> None:
        lease = self.leased()
        assert self.settle(lease, Release({})) is Settled.ACCEPTED
        (again,) = self.claim(by="another")
        with pytest.raises(LeaseLost):
            _ = lease.job
        assert again.job.leased_by == "another"

    def test_a_claim_of_whole_records_asks_for_none_later(self) -> None:
        self.enqueue()
        (lease,) = self.claim(whole=True)
        assert lease.is_whole
        assert lease.job == self.job(lease.fence.id)

    def test_the_log_says_which_worker_started_it_and_why(self) -> None:
        job = self.in_state(State.FAILED)
        self.move(Move.MANUAL_RETRY, job.id)
        self.claim(by="w")
        started = [event for event in self.events(job.id) if event.type == "job.started"]
        assert [(event.attempt, event.data["worker"], event.data["trigger"]) for event in started] == [
            (1, WORKER, "automatic"),
            (2, "w", "manual"),
        ]

    def test_the_first_start_is_kept_and_the_last_one_moves(self) -> None:
        lease = self.leased()
        first = self.now
        self.settle(lease, retrying())
        self.advance(HOUR)
        self.claim()
        job = self.job(lease.fence.id)
        assert (job.attempt, job.started_at, job.last_attempt_at) == (2, first, self.now)

    # Order

    def test_priority_comes_first_then_the_submission(self) -> None:
        submitted = [("low", 10, -3), ("late", 0, 0), ("early", 0, -2), ("first", -10, 5), ("middle", 0, -1)]
        jobs = {
            name: self.enqueue(priority=priority, submitted_at=self.now + hours * HOUR).id
            for name, priority, hours in submitted
        }
        assert ids(self.claim()) == [jobs[name] for name in ("first", "early", "middle", "late", "low")]

    def test_one_by_one_gives_the_same_order_as_all_at_once(self) -> None:
        hours = [5, 3, 9, 1, 7, 3]
        for hour in hours:
            self.enqueue(submitted_at=self.now - hour * HOUR)
        taken = [lease.job.submitted_at for _ in hours for lease in self.claim(limit=1)]
        assert taken == sorted(taken)

    def test_kinds_queues_and_services_are_merged_into_one_order(self) -> None:
        places = [("a", "x", ""), ("b", "x", ""), ("a", "y", ""), ("b", "y", "gateway"), ("a", "x", "gateway")]
        wanted = []
        for number in range(15):
            kind, queue, service = places[number * 7 % len(places)]
            moment = self.now - (number * 11 % 17) * HOUR
            wanted.append(self.enqueue(kind, queue=queue, service=service, submitted_at=moment))
        in_order = [job.id for job in sorted(wanted, key=lambda job: job.submitted_at)]
        assert ids(self.claim("a", "b", limit=6)) + ids(self.claim("a", "b", limit=9)) == in_order

    def test_jobs_submitted_together_go_in_the_order_of_their_ids(self) -> None:
        jobs = self.store.enqueue([self.new() for _ in range(5)])
        assert ids(self.claim()) == [job.id for job in jobs]

    def test_a_due_retry_submitted_earlier_goes_before_a_job_submitted_later(self) -> None:
        lease = self.leased()
        self.settle(lease, retrying(MINUTE))
        self.advance(SECOND)
        later = self.enqueue()
        self.advance(MINUTE)
        assert ids(self.claim()) == [lease.fence.id, later.id]

    def test_a_retry_that_is_not_due_blocks_nothing(self) -> None:
        lease = self.leased()
        self.settle(lease, retrying(HOUR))
        self.advance(SECOND)
        later = self.enqueue()
        assert ids(self.claim()) == [later.id]

    def test_the_ordering_example_of_the_run_verifier(self) -> None:
        """The table of document 003, on the fifth of January:

        submitted_date  | status     | next_retry_at | processed_order
        2024-01-01      | error      | 2024-01-05    | 1 (oldest, retry ready)
        2024-01-03      | discovered | NULL          | 2 (new run)
        2024-01-04      | discovered | NULL          | 3 (new run)
        2024-01-04      | error      | 2024-01-06    | (not ready yet)
        """
        self.clock = VirtualClock(datetime(2024, 1, 4, 12, tzinfo=UTC))
        first, not_ready = self._error(1, retry_on=5), self._error(4, retry_on=6)
        second, third = self._discovered(3), self._discovered(4)
        self.advance(datetime(2024, 1, 5, tzinfo=UTC) - self.now)
        order = [lease.fence.id for _ in range(4) for lease in self.claim(limit=1)]
        assert order == [first, second, third]
        self.advance(DAY)
        assert ids(self.claim()) == [not_ready]

    def _discovered(self, day: int) -> str:
        return self.enqueue(submitted_at=datetime(2024, 1, day, tzinfo=UTC)).id

    def _error(self, day: int, *, retry_on: int) -> str:
        """A run that ended in an error which is retried on that day."""
        lease = self.leased(submitted_at=datetime(2024, 1, day, tzinfo=UTC))
        self.settle(lease, retrying(datetime(2024, 1, retry_on, tzinfo=UTC) - self.now))
        return lease.fence.id

    # Which jobs

    def test_only_kinds_asked_for_are_claimed(self) -> None:
        wanted, other = self.enqueue("a"), self.enqueue("b")
        assert ids(self.claim("a", "c")) == [wanted.id]
        assert self.job(other.id).state is State.QUEUED

    def test_only_queues_asked_for_are_claimed(self) -> None:
        bulk, plain, other = (self.enqueue(queue=queue) for queue in ("bulk", "default", "other"))
        assert ids(self.claim(queues=["bulk"])) == [bulk.id]
        assert ids(self.claim(queues=[])) == []
        assert ids(self.claim(queues=None)) == [plain.id, other.id]

    def test_no_more_are_claimed_than_wanted(self) -> None:
        jobs = self.store.enqueue([self.new() for _ in range(5)])
        nothing = self.claimed(limit=0)
        assert (nothing.leases, nothing.next_due) == ([], None), "there is no reason to claim again soon"
        assert ids(self.claim(limit=2)) == [job.id for job in jobs[:2]]
        assert ids(self.claim(limit=9)) == [job.id for job in jobs[2:]]
        assert self.claim() == []

    def test_a_job_past_its_deadline_is_never_claimed(self) -> None:
        queued, waiting = self.enqueue(deadline=HOUR), self.enqueue(deadline=HOUR, delay=HOUR)
        behind = self.enqueue()
        self.advance(HOUR)
        assert ids(self.claim()) == [behind.id]
        assert {self.job(job.id).attempt for job in (queued, waiting)} == {0}

    def test_a_job_past_its_deadline_is_not_asked_for_again_and_again(self) -> None:
        self.enqueue(deadline=HOUR)
        self.advance(2 * HOUR)
        claimed = self.claimed()
        assert (claimed.leases, claimed.next_due) == ([], None)

    def test_up_to_its_deadline_a_job_is_claimed(self) -> None:
        job = self.enqueue(deadline=HOUR)
        self.advance(HOUR - INSTANT)
        assert ids(self.claim()) == [job.id]

    # Promotion

    def test_a_due_job_is_promoted_once_even_if_no_worker_claims_it(self) -> None:
        job = self.enqueue(delay=MINUTE)
        self.advance(MINUTE)
        for _ in range(3):
            assert self.claim("another") == []
        now = self.job(job.id)
        assert (now.state, now.queued_at, now.waiting_for) == (State.QUEUED, self.now, None)
        assert self.types(job.id) == ["job.enqueued", "job.queued"]

    @pytest.mark.usefixtures("small_passes")
    def test_more_jobs_than_a_pass_due_at_once_are_all_promoted(self) -> None:
        late = self.enqueue(delay=HOUR, submitted_at=self.now - DAY)
        self.store.enqueue([self.new(delay=MINUTE) for _ in range(210)])
        self.advance(HOUR)
        leases = self.claim(limit=500)
        assert len(leases) == 211
        assert leases[0].fence.id == late.id

    @pytest.mark.parametrize("beside", [0, 3])
    def test_the_answer_says_when_the_next_job_comes_due(self, beside: int) -> None:
        for _ in range(beside):
            self.enqueue()
        assert self.claimed(limit=1).next_due is None
        self.enqueue(delay=HOUR)
        self.enqueue(delay=MINUTE, kind="another")
        assert self.claimed(limit=1).next_due == MINUTE
        self.advance(MINUTE - INSTANT)
        assert self.claimed(limit=1).next_due == INSTANT
        self.advance(INSTANT)
        assert self.claimed(limit=1).next_due == HOUR - MINUTE

    # Repeating

    def test_repeating_a_claim_number_returns_its_leases_and_claims_nothing_new(self) -> None:
        self._repeat(self.store)

    def test_a_claim_is_repeated_on_another_connection(self) -> None:
        self._repeat(self.twin())

    def _repeat(self, store: Store) -> None:
        self.store.enqueue([self.new() for _ in range(5)])
        first = self.claim(limit=3, number=7)
        self.advance(SECOND)
        again = self.claim(limit=3, number=7, store=store)
        assert [(lease.fence, lease.until) for lease in again] == [(lease.fence, lease.until) for lease in first]
        assert [(lease.claimed_at, lease.arguments) for lease in again] == [
            (lease.claimed_at, lease.arguments) for lease in first
        ]
        assert sum(event.type == "job.started" for event in self.events()) == 3

    def test_the_same_number_of_another_worker_is_another_claim(self) -> None:
        one, two = self.enqueue(), self.enqueue()
        assert ids(self.claim(limit=1, number=7, by="a")) == [one.id]
        assert ids(self.claim(limit=1, number=7, by="b")) == [two.id]

    def test_a_repeated_claim_promotes_as_every_claim_does(self) -> None:
        held = self.leased()
        late = self.enqueue(delay=MINUTE)
        self.advance(MINUTE)
        again = self.claim(number=held.fence.claim)
        assert [lease.fence for lease in again] == [held.fence]
        assert self.job(late.id).state is State.QUEUED

    def test_a_repeated_claim_returns_what_is_still_held(self) -> None:
        self.store.enqueue([self.new() for _ in range(2)])
        first, second = self.claim(number=7)
        self.settle(first, retrying(HOUR))
        assert [lease.fence for lease in self.claim(number=7)] == [second.fence]

    def test_a_claim_that_found_nothing_can_be_repeated(self) -> None:
        assert self.claim(number=7) == []
        job = self.enqueue()
        assert ids(self.claim(number=7)) == [job.id]

    # Many workers

    def test_no_job_is_given_to_two_workers(self) -> None:
        self._share([self.store])

    def test_no_job_is_given_to_two_workers_on_two_connections(self) -> None:
        self._share([self.store, self.twin()])

    def _share(self, stores: list[Store]) -> None:
        jobs: list[Job[object]] = self.store.enqueue([self.new() for _ in range(120)])

        def work(worker: int) -> list[str]:
            store, number = stores[worker % len(stores)], 0
            taken: list[str] = []
            while leases := self.claim(by=f"w{worker}", number=(number := number + 1), limit=7, store=store):
                taken += ids(leases)
            return taken

        answers = at_once([partial(work, worker) for worker in range(4)])
        taken = Counter(job for answer in answers if not isinstance(answer, Exception) for job in answer)
        assert taken == Counter({job.id: 1 for job in jobs})

    def test_a_released_job_is_claimed_by_another_with_the_next_attempt(self) -> None:
        lease = self.leased(by="a")
        assert self.settle(lease, Release({"why": "shutdown"})) is Settled.ACCEPTED
        (again,) = self.claim(by="b")
        assert (again.fence.id, again.fence.attempt, again.fence.incarnation) == (lease.fence.id, 2, "b")
