"""The protocol's interleavings with real transactions that stay open while others go on."""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from threading import Barrier

import psycopg
import pytest
from postgres_server import emptied
from transactions import Held, enqueue_on, held, meanwhile, on, promote_on, until_blocked

from conformance.bench import HOUR, MINUTE, SECOND, Bench, failing, retrying, worker
from mulligan.errors import JobNotFound, StoreUnavailable
from mulligan.failure.decision import Release, Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.job import Lease
from mulligan.records.retention import PurgeRequest
from mulligan.store.messages import Beat, Claim, Outcome, Settled
from mulligan.store.postgres import PostgresStore, connections

IMPATIENT = "?notify=off&options=-c%20deadlock_timeout%3D50ms"
JOINS = ("nestloop", "hashjoin", "mergejoin")


def taken(leases: list[Lease]) -> list[str]:
    return [lease.fence.id for lease in leases]


class Racing(Bench):
    url: str
    store: PostgresStore

    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        self.url = emptied(database)

    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return PostgresStore(self.url + IMPATIENT, now=now)

    open_twin = open_store

    def wish(self, *kinds: str, by: str, number: int = 1, limit: int = 10) -> Claim:
        return Claim(incarnation=by, number=number, kinds=kinds or ("send",), limit=limit, lease=MINUTE)


class TestEnqueueRaces(Racing):
    def test_a_twin_without_an_owner_waits_for_the_first_and_is_its_duplicate(self) -> None:
        first, second = self.new(dedupe_key="k"), self.new(dedupe_key="k")
        with held(self.url) as other:
            enqueue_on(other, self.store, first)
            with meanwhile(lambda: self.store.enqueue([second])) as answer:
                until_blocked(self.url)
                other.commit()
        (job,) = answer.result()
        assert (job.id, job.is_duplicate, job.owner) == (first.id, True, "")
        assert self.store.counts() == {"send": {"queued": 1}}

    def test_when_the_first_of_two_twins_is_rolled_back_the_second_is_stored(self) -> None:
        first, second = self.new(dedupe_key="k"), self.new(dedupe_key="k")
        with held(self.url) as other:
            enqueue_on(other, self.store, first)
            with meanwhile(lambda: self.store.enqueue([second])) as answer:
                until_blocked(self.url)
                other.rollback()
        (job,) = answer.result()
        assert (job.id, job.is_duplicate) == (second.id, False)
        assert [event.job for event in self.events()] == [second.id]

    def test_a_job_without_any_owner_cannot_exist(self) -> None:
        job = self.enqueue(dedupe_key="k")
        with psycopg.connect(self.url, autocommit=True) as connection, pytest.raises(psycopg.errors.NotNullViolation):
            connection.execute("UPDATE mulligan_jobs SET owner = NULL WHERE id = %s", (job.id,))

    @pytest.mark.parametrize("dedupe_for", [None, SECOND])
    def test_clients_with_the_same_keys_in_opposite_orders_never_meet_an_error(
        self, dedupe_for: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With periods too: there the keys that are over are cleared first, row by row."""
        if dedupe_for is None:
            # One order for all leaves no deadlock that would have to be repeated.
            monkeypatch.setattr(connections, "REPEATS", 0)
        stores, rounds, keys = [self.store, self.twin(), self.twin(), self.twin()], 8, 30
        start = Barrier(len(stores), timeout=10.0)

        def enqueue(place: int) -> set[str]:
            found = set()
            for number in range(rounds):
                names = [f"{number if dedupe_for is None else 0}-{key}" for key in range(keys)]
                jobs = [self.new(dedupe_key=name, dedupe_for=dedupe_for) for name in names[:: 1 if place % 2 else -1]]
                start.wait()
                found |= {job.id for job in stores[place].enqueue(jobs)}
                if start.wait() == 0 and dedupe_for is not None:
                    for lease in self.claim(by="w", limit=100):
                        self.settle(lease, Succeed("1"))
                    self.advance(MINUTE)
                start.wait()
            return found

        with ThreadPoolExecutor(len(stores)) as pool:
            answers = list(pool.map(enqueue, range(len(stores))))
        assert len(set.union(*answers)) == rounds * keys
        assert set(answers[0]) == set(answers[1])


class TestClaimRaces(Racing):
    def test_a_second_worker_takes_no_low_job_while_normal_ones_wait(self) -> None:
        normal = self.store.enqueue([self.new(priority=0) for _ in range(20)])
        self.store.enqueue([self.new("another", priority=10) for _ in range(20)])
        both = ("send", "another")
        with held(self.url) as other:
            first = on(self.store, other).claim(self.wish(*both, by="w1", limit=10)).leases
            assert taken(first) == [job.id for job in normal[:10]]
            found = self.claim(*both, by="w2", limit=10)
            assert found == [], "the first ten are another's, and beyond them is beyond the cut"
            assert taken(self.claim(*both, by="w3", limit=15)) == [job.id for job in normal[10:15]]
            other.commit()
        assert taken(self.claim(*both, by="w2", limit=5)) == [job.id for job in normal[15:]]

    def test_of_a_single_lane_a_second_worker_takes_the_next_ones(self) -> None:
        normal = self.store.enqueue([self.new() for _ in range(20)])
        self.store.enqueue([self.new(priority=10) for _ in range(20)])
        with held(self.url) as other:
            on(self.store, other).claim(self.wish(by="w1", limit=10))
            assert taken(self.claim(by="w2", limit=10)) == [job.id for job in normal[10:]]

    def test_a_second_worker_takes_no_low_job_of_another_lane_beyond_its_share(self) -> None:
        self.store.enqueue([self.new("normal", priority=0) for _ in range(8)])
        low = self.store.enqueue([self.new("low", priority=10) for _ in range(20)])
        with held(self.url) as other:
            on(self.store, other).claim(self.wish("normal", "low", by="w1", limit=8))
            assert taken(self.claim("normal", "low", by="w2", limit=10)) == [job.id for job in low[:2]]

    def test_workers_that_claim_at_once_share_the_jobs_and_take_each_once(self) -> None:
        self.store.enqueue([self.new("abc"[number % 3], priority=number % 2) for number in range(300)])
        stores = [self.store, self.twin(), self.twin(), self.twin()]

        def drain(place: int) -> list[str]:
            mine: list[str] = []
            for number in range(1, 500):
                claim = self.wish("a", "b", "c", by=f"w{place}", number=number, limit=7)
                leases = stores[place].claim(claim).leases
                if not leases and "queued" not in {state for kind in self.store.counts().values() for state in kind}:
                    return mine
                mine += taken(leases)
            return mine

        with ThreadPoolExecutor(len(stores)) as pool:
            answers = list(pool.map(drain, range(len(stores))))
        jobs = [job for answer in answers for job in answer]
        assert len(jobs) == len(set(jobs)) == 300

    def test_a_claim_whose_reply_was_lost_returns_the_same_leases_when_repeated(self) -> None:
        self.store.enqueue([self.new() for _ in range(9)])
        with held(self.url) as lost:
            before = on(self.store, lost).claim(self.wish(by="w", number=4, limit=3)).leases
            lost.commit()
        again = self.twin().claim(self.wish(by="w", number=4, limit=3)).leases
        assert [lease.fence for lease in again] == [lease.fence for lease in before]
        assert self.store.counts() == {"send": {"running": 3, "queued": 6}}

    def test_jobs_of_a_claim_repeated_before_it_was_over_are_adopted_later(self) -> None:
        """The first transaction still runs on the server when its worker, cut off, asks again."""
        self.store.enqueue([self.new() for _ in range(6)])
        with held(self.url) as cut_off:
            lost = on(self.store, cut_off).claim(self.wish(by="w", number=1, limit=3)).leases
            got = self.store.claim(self.wish(by="w", number=1, limit=6)).leases
            assert self.store.adopt("w", before=2, held=[lease.fence for lease in got]) == []
            cut_off.commit()
        assert not set(taken(lost)) & set(taken(got))
        adopted = self.store.adopt("w", before=2, held=[lease.fence for lease in got])
        assert {lease.fence for lease in adopted} == {lease.fence for lease in lost}

    def test_a_claim_that_got_fewer_than_wanted_says_to_claim_again_at_once(self) -> None:
        self.store.enqueue([self.new() for _ in range(20)])
        self.enqueue("another", priority=10)
        with held(self.url) as other:
            on(self.store, other).claim(self.wish(by="w1", limit=10))
            claimed = self.claimed("send", "another", by="w2", limit=10)
            assert claimed.leases == []
            assert claimed.next_due is not None
            assert claimed.next_due < SECOND
            other.commit()
        assert len(self.claim("send", "another", by="w2", limit=10)) == 10
        assert self.claimed("send", "another", by="w2", limit=10).next_due is None

    def test_a_claim_that_never_commits_took_nothing(self) -> None:
        job = self.enqueue()
        with held(self.url) as other:
            (lost,) = on(self.store, other).claim(self.wish(by="w1")).leases
            other.rollback()
        (lease,) = self.claim(by="w2")
        assert (lease.fence.id, lease.fence.attempt) == (job.id, 1)
        assert self.settle(lost, Succeed("1")) is Settled.REFUSED
        assert self.settle(lease, Succeed("2")) is Settled.ACCEPTED

    def test_a_cancellation_during_the_claim_reaches_the_worker(self) -> None:
        job = self.enqueue()
        with held(self.url) as claiming:
            (lease,) = on(self.store, claiming).claim(self.wish(by="w")).leases
            with meanwhile(lambda: self.move(Move.MANUAL_CANCEL, job.id)) as answer:
                until_blocked(self.url)
                claiming.commit()
        assert answer.result().state is State.RUNNING
        assert self.beat(lease.fence, by="w").cancelled == [lease.fence]

    def test_concurrent_promotions_promote_each_job_once(self) -> None:
        jobs = self.store.enqueue([self.new(delay=MINUTE) for _ in range(50)])
        self.advance(HOUR)
        with held(self.url) as other:
            promote_on(self.store, other.begin())
            assert self.claim(by="w2") == []
            other.commit()
        assert len(self.claim(by="w1")) == 50
        assert all(self.types(job.id).count("job.queued") == 1 for job in jobs)


class TestSettleRaces(Racing):
    def test_a_manual_retry_during_the_settle_sees_what_it_did(self) -> None:
        lease = self.leased()
        with held(self.url) as settling:
            on(self.store, settling.begin()).settle([Outcome(lease, failing())])
            with meanwhile(lambda: self.move(Move.MANUAL_RETRY, lease.fence.id)) as answer:
                until_blocked(self.url)
                settling.commit()
        assert answer.result().state is State.QUEUED
        assert (answer.result().manual_retries, answer.result().failures) == (1, 0)

    def test_a_settle_during_the_cancellation_heeds_it(self) -> None:
        lease = self.leased()
        with held(self.url) as cancelling:
            on(self.store, cancelling).move(self.request(Move.MANUAL_CANCEL, lease.fence.id))
            with meanwhile(lambda: self.settle(lease, retrying())) as answer:
                until_blocked(self.url)
                cancelling.commit()
        assert answer.result() is Settled.ACCEPTED
        assert self.job(lease.fence.id).state is State.CANCELLED

    def test_a_lease_extended_in_the_very_moment_of_the_reclaim_is_kept(self) -> None:
        lease = self.leased(lease=SECOND)
        self.advance(MINUTE)
        (overdue,) = self.store.overdue(besides="r", limit=9)
        with held(self.url) as beating:
            beating.begin()
            beating.execute(
                "UPDATE mulligan_jobs SET lease_until = lease_until + 3600000000 WHERE id = %s", (lease.fence.id,)
            )
            with meanwhile(lambda: self.settle(overdue, Release({}), by="r")) as answer:
                until_blocked(self.url)
                beating.commit()
        assert answer.result() is Settled.REFUSED
        assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED

    def test_a_worker_frozen_inside_its_beat_does_not_keep_its_jobs_forever(self) -> None:
        lease = self.leased(lease=SECOND)
        self.advance(MINUTE)
        (overdue,) = self.store.overdue(besides="r", limit=9)
        with contextlib.closing(Held(self.url)) as frozen:
            on(self.store, frozen).beat(Beat(worker=worker(), lease=SECOND, extend=[lease.fence]))
            with meanwhile(lambda: self.settle(overdue, Release({}), by="r")) as answer:
                until_blocked(self.url)
        assert answer.result() is Settled.ACCEPTED
        assert self.job(lease.fence.id).state is State.QUEUED

    def test_of_the_worker_and_the_reclaimer_the_first_to_commit_wins(self) -> None:
        lease = self.leased(lease=SECOND)
        self.advance(MINUTE)
        with held(self.url) as reclaiming:
            outcome = Outcome(lease, Release({}), reclaimed_by="r")
            assert on(self.store, reclaiming.begin()).settle([outcome]) == [Settled.ACCEPTED]
            with meanwhile(lambda: self.settle(lease, Succeed("1"))) as answer:
                until_blocked(self.url)
                reclaiming.commit()
        assert answer.result() is Settled.REFUSED
        assert self.job(lease.fence.id).state is State.QUEUED

    def test_a_transaction_that_deadlocks_is_repeated_without_an_error(self) -> None:
        for _ in range(5):
            # The job that has waited longest is looked at first: on a slow machine that may be the other.
            with suppress(psycopg.errors.DeadlockDetected):
                self._deadlock()
                return
        pytest.fail("the other was given up each time")

    def _deadlock(self) -> None:
        self.store.enqueue([self.new() for _ in range(2)])
        first, second = self.claim()
        lock = "SELECT 1 FROM mulligan_jobs WHERE id = %s FOR UPDATE"
        with held(self.url) as other:
            other.execute("SET deadlock_timeout = '1min'")
            other.begin().execute(lock, (second.fence.id,))
            both = [Outcome(first, Succeed("1")), Outcome(second, Succeed("2"))]
            with meanwhile(lambda: self.store.settle(both)) as answer:
                until_blocked(self.url)
                # Each now waits for the other; the store's is the one that is given up.
                other.execute(lock, (first.fence.id,))
                other.commit()
        assert answer.result() == [Settled.ACCEPTED, Settled.ACCEPTED]

    def test_settles_of_the_same_jobs_in_opposite_orders_all_answer(self) -> None:
        self.store.enqueue([self.new() for _ in range(60)])
        leases = self.claim()
        stores = [self.store, self.twin(), self.twin()]
        start = Barrier(3, timeout=10.0)

        def settle(place: int) -> list[Settled]:
            outcomes = [Outcome(lease, Succeed("1")) for lease in leases[:: 1 if place else -1]]
            start.wait()
            return stores[place].settle(outcomes)[:: 1 if place else -1]

        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(settle, range(3)))
        assert all(
            sorted(of_one) == [Settled.ACCEPTED, Settled.REPEATED, Settled.REPEATED]
            for of_one in zip(*answers, strict=True)
        )

    @pytest.mark.parametrize("join", JOINS)
    def test_of_two_outcomes_of_one_lease_the_first_counts_however_the_server_joins(self, join: str) -> None:
        lease = self.leased()
        others = "".join(f"%20-c%20enable_{other}%3Doff" for other in JOINS if other != join)
        store = PostgresStore(f"{self.url}?notify=off&options={others}", now=lambda: self.now)
        answers = store.settle([Outcome(lease, Succeed(str(number))) for number in range(3)])
        store.close()
        assert answers == [Settled.ACCEPTED, Settled.REPEATED, Settled.REPEATED]
        assert self.job(lease.fence.id).result == 0

    def test_a_deadlock_that_does_not_end_is_an_error_that_may_be_tried_again(self) -> None:
        """A worker tries again after a StoreUnavailable, and after nothing else."""

        def deadlocked(_: object) -> None:
            raise psycopg.errors.DeadlockDetected("deadlock detected")

        with pytest.raises(StoreUnavailable, match="deadlock"):
            self.store._connections.run(deadlocked)

    def test_a_beat_beside_a_settle_loses_neither(self) -> None:
        lease = self.leased()
        with held(self.url) as settling:
            on(self.store, settling.begin()).settle([Outcome(lease, Succeed("1"))])
            with meanwhile(lambda: self.beat(lease.fence)) as answer:
                until_blocked(self.url)
                settling.commit()
        assert answer.result().lost == [lease.fence]
        assert self.job(lease.fence.id).state is State.SUCCEEDED
        assert worker().incarnation in {found.incarnation for found in self.store.workers()}


class TestPruneRaces(Racing):
    def test_a_cursor_that_is_being_set_is_waited_for(self) -> None:
        job = self.in_state(State.SUCCEEDED)
        self.advance(HOUR)
        first = self.events(job.id)[0].position
        with held(self.url) as other:
            on(self.store, other).set_cursor("new", first)
            with meanwhile(lambda: self.store.prune(State.SUCCEEDED, before=self.now, limit=9)) as pruned:
                until_blocked(self.url)
                other.commit()
        assert pruned.result() == 0
        assert len(self.events(job.id)) == 3

    def test_cursors_of_several_readers_do_not_wait_for_each_other(self) -> None:
        with held(self.url) as other:
            on(self.store, other).set_cursor("one", 1)
            self.store.set_cursor("two", 2)
            other.commit()
        assert [cursor.name for cursor in self.store.cursors()] == ["one", "two"]

    def test_a_job_that_is_being_retried_manually_is_passed_over(self) -> None:
        job, other_job = self.in_state(State.FAILED), self.in_state(State.FAILED)
        self.advance(HOUR)
        with held(self.url) as other:
            on(self.store, other).move(self.request(Move.MANUAL_RETRY, job.id))
            assert self.store.prune(State.FAILED, before=self.now, limit=9) == 1
            other.commit()
        assert self.job(job.id).state is State.QUEUED
        assert self.events(other_job.id) == []

    def test_a_purge_looks_again_at_a_job_that_was_retried_meanwhile(self) -> None:
        job = self.in_state(State.FAILED)
        self.advance(HOUR)
        request = PurgeRequest(id="p", jobs=[job.id], before=self.now, about="it")
        with held(self.url) as other:
            on(self.store, other).move(self.request(Move.MANUAL_RETRY, job.id))
            with meanwhile(lambda: self.store.purge(request)) as purged:
                until_blocked(self.url)
                other.commit()
        assert purged.result() == 0
        assert self.job(job.id).state is State.QUEUED

    def test_a_job_that_is_being_deleted_cannot_be_retried(self) -> None:
        job = self.in_state(State.FAILED)
        self.advance(HOUR)
        with held(self.url) as other:
            assert on(self.store, other).prune(State.FAILED, before=self.now, limit=9) == 1
            with meanwhile(lambda: self.move(Move.MANUAL_RETRY, job.id)) as moved:
                until_blocked(self.url)
                other.commit()
        assert isinstance(moved.exception(), JobNotFound)
