"""Batches with real transactions that stay open while others go on."""

import pytest
from test_store_postgres_races import Racing
from transactions import enqueue_on, held, meanwhile, on, publish_on, until_blocked

from conformance.bench import failing
from mulligan.errors import BatchBusy
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import BATCH_REOPENED, BATCH_SETTLED, Move, State
from mulligan.records.batch import BatchRecord, BatchState, NewBatch
from mulligan.records.job import Lease
from mulligan.store.messages import Outcome, Settled
from mulligan.store.postgres import backend as postgres


class TestBatchRaces(Racing):
    def draft(self, **options: object) -> BatchRecord:
        return self.store.create_batch(NewBatch(**{"id": self.ids(), "name": "spring", **options}))  # type: ignore[arg-type]

    def published(self, number: int, **options: object) -> tuple[BatchRecord, list[Lease]]:
        batch = self.draft(**options)
        self.store.enqueue([self.new(batch=batch.id) for _ in range(number)])
        self.store.publish(batch.id)
        return batch, self.claim(limit=number)

    def told(self, type_: str) -> list[int]:
        return [event.data["generation"] for event in self.events() if event.type == type_]

    def test_publishing_waits_for_an_open_addition_and_counts_it(self) -> None:
        batch = self.draft()
        with held(self.url) as other:
            enqueue_on(other, self.store, self.new(batch=batch.id))
            with meanwhile(lambda: self.store.publish(batch.id)) as answer:
                until_blocked(self.url)
                other.commit()
        assert answer.result().total == 1
        assert len(self.claim()) == 1, "no member is left blocked"

    def test_what_was_rolled_back_is_no_member(self) -> None:
        batch = self.draft()
        with held(self.url) as other:
            enqueue_on(other, self.store, self.new(batch=batch.id))
            with meanwhile(lambda: self.store.publish(batch.id)) as answer:
                until_blocked(self.url)
                other.rollback()
        assert (answer.result().total, answer.result().state) == (0, BatchState.READY)

    def test_publishing_does_not_wait_forever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres, "BEGIN_PUBLISH", postgres.BEGIN + "; SET LOCAL lock_timeout = '50ms'")
        batch = self.draft()
        with held(self.url) as other:
            enqueue_on(other, self.store, self.new(batch=batch.id))
            with pytest.raises(BatchBusy, match="commit that transaction first"):
                self.store.publish(batch.id)
            other.commit()
        assert self.store.publish(batch.id).total == 1

    def test_an_addition_during_a_publish_is_refused_or_counted(self) -> None:
        batch = self.draft()
        with held(self.url) as other:
            publish_on(self.store, other, batch.id)
            with meanwhile(lambda: self.store.enqueue([self.new(batch=batch.id)])) as answer:
                until_blocked(self.url)
                other.commit()
        assert "takes no more members" in str(answer.exception())
        assert self.store.batch(batch.id).total == 0

    def test_an_open_transaction_that_adds_delays_no_count(self) -> None:
        batch = self.draft()
        (gone,) = self.store.enqueue([self.new(batch=batch.id)])
        with held(self.url) as other:
            enqueue_on(other, self.store, self.new(batch=batch.id))
            self.move(Move.MANUAL_CANCEL, gone.id)
            assert self.store.batch(batch.id).cancelled == 1
            other.commit()

    def test_the_later_of_the_last_two_settles_settles_the_batch(self) -> None:
        batch, (first, second) = self.published(2)
        with held(self.url) as other:
            assert on(self.store, other).settle([Outcome(first, Succeed("1"))]) == [Settled.ACCEPTED]
            with meanwhile(lambda: self.settle(second, failing())) as answer:
                until_blocked(self.url)
                other.commit()
        assert answer.result() is Settled.ACCEPTED
        found = self.store.batch(batch.id)
        assert (found.succeeded, found.failed, found.state) == (1, 1, BatchState.PARTIAL)
        assert self.told(BATCH_SETTLED) == [1]

    def test_a_settle_that_is_rolled_back_is_not_counted(self) -> None:
        batch, (first, second) = self.published(2)
        with held(self.url) as other:
            on(self.store, other).settle([Outcome(first, Succeed("1"))])
            with meanwhile(lambda: self.settle(second, Succeed("1"))):
                until_blocked(self.url)
                other.rollback()
        found = self.store.batch(batch.id)
        assert (found.succeeded, found.state, self.told(BATCH_SETTLED)) == (1, BatchState.PROCESSING, [])
        self.settle(first, Succeed("1"))
        assert self.told(BATCH_SETTLED) == [1]

    def test_settles_of_the_same_batches_in_opposite_orders_lose_no_count(self) -> None:
        one, (a, b) = self.published(2)
        two, (c, d) = self.published(2)
        with held(self.url) as other:
            on(self.store, other).settle([Outcome(d, Succeed("1")), Outcome(a, Succeed("1"))])
            with meanwhile(lambda: self.store.settle([Outcome(b, Succeed("1")), Outcome(c, Succeed("1"))])) as answer:
                until_blocked(self.url)
                other.commit()
        assert answer.result() == [Settled.ACCEPTED] * 2
        assert [self.store.batch(batch.id).state for batch in (one, two)] == [BatchState.READY] * 2

    def test_two_retries_of_members_of_a_settled_batch_open_it_once(self) -> None:
        batch, leases = self.published(2)
        self.store.settle([Outcome(lease, failing()) for lease in leases])
        one, two = (self.request(Move.MANUAL_RETRY, lease.fence.id) for lease in leases)
        with held(self.url) as other:
            on(self.store, other).move(one)
            with meanwhile(lambda: self.store.move(two)):
                until_blocked(self.url)
                other.commit()
        found = self.store.batch(batch.id)
        assert (found.generation, found.left, found.failed) == (2, 2, 0)
        assert self.told(BATCH_REOPENED) == [2]

    def test_an_abort_does_not_wait_for_locked_members(self) -> None:
        batch = self.draft(abort_above=0.0)
        jobs = self.store.enqueue([self.new(batch=batch.id) for _ in range(3)])
        self.store.publish(batch.id)
        (lease,) = self.claim(limit=1)
        kept = next(job.id for job in jobs if job.id != lease.fence.id)
        with held(self.url) as other:
            other.begin()._connection.execute("SELECT 1 FROM mulligan_jobs WHERE id = %s FOR UPDATE", (kept,))
            assert self.settle(lease, failing()) is Settled.ACCEPTED
        assert (self.job(kept).state, self.store.batch(batch.id).cancelled) == (State.QUEUED, 1)
        assert self.store.tend_batches(limit=10) == 1
        assert self.store.batch(batch.id).state is BatchState.FAILED

    def test_publishing_waits_for_a_member_that_is_retried_manually(self) -> None:
        batch = self.draft()
        (job,) = self.store.enqueue([self.new(batch=batch.id)])
        self.move(Move.MANUAL_CANCEL, job.id)
        with held(self.url) as other:
            on(self.store, other).move(self.request(Move.MANUAL_RETRY, job.id))
            with meanwhile(lambda: self.store.publish(batch.id)) as answer:
                until_blocked(self.url)
                other.commit()
        assert (answer.result().total, answer.result().left) == (1, 1)
        assert [lease.fence.id for lease in self.claim()] == [job.id]
