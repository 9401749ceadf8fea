"""THE table of legal moves, tried out: every move from every state, through the store's own operations."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, KIND, WORKER, Bench, failing, retrying, verdict
from mulligan.errors import IllegalMove
from mulligan.failure.decision import Cancel, Decision, Park, Postpone, Release, Succeed
from mulligan.failure.verdict import deadline_passed
from mulligan.lifecycle import REFUSED, TABLE, Move, State
from mulligan.records.job import Job
from mulligan.records.limit import LimitBook
from mulligan.store.messages import Settled

DECISIONS: dict[Move, Decision] = {
    Move.SUCCEED: Succeed('"done"'),
    Move.RETRY: retrying(),
    Move.FAIL: failing(),
    Move.SNOOZE: Postpone(HOUR, verdict("SNOOZED"), {"snooze": 1}),
    Move.RELEASE: Release({"why": "shutdown"}),
    Move.CANCEL: Cancel({"why": "cancelled by hand"}),
}
BY_HAND = [move for move in Move if move.verb]
# These lead to `waiting`, and a job that is due is promoted in the same step.
THROUGH_THE_PROMOTION = (Move.MANUAL_RETRY, Move.RUN_NOW, Move.PARK)
PROMOTION = TABLE[Move.PROMOTE, State.WAITING]

EVERY_MOVE_FROM_EVERY_STATE = list(product(Move, State))


class LifecycleRules(Bench):
    def test_a_new_job_is_enqueued_where_the_table_says(self) -> None:
        step = TABLE[Move.ENQUEUE, None]
        job = self.enqueue(delay=HOUR)
        assert (job.state, self.types(job.id)) == (step.target, [step.event])

    @pytest.mark.parametrize(("move", "state"), EVERY_MOVE_FROM_EVERY_STATE, ids=lambda value: value.replace(" ", "_"))
    def test_every_move_from_every_state_does_what_the_table_says(self, move: Move, state: State) -> None:
        before = self.in_state(state, deadline=DAY)
        written = len(self.events(before.id))
        make = self._maker(move)
        step = TABLE.get((move, state))
        if step is None:
            make(before)
            assert self.job(before.id) == before
            assert set(self.types(before.id)[written:]) <= {REFUSED}
        else:
            make(before)
            after, events = self.job(before.id), self.types(before.id)[written:]
            expected = [(step.target, [step.event])]
            if move in THROUGH_THE_PROMOTION:
                expected.append((PROMOTION.target, [step.event, PROMOTION.event]))
            assert (after.state, events) in expected

    def _maker(self, move: Move) -> Callable[[Job[Any]], None]:
        """How this move is tried on a job; one that must be refused says so in its own way."""
        if move in BY_HAND:
            return lambda job: self._by_hand(move, job)
        if move in DECISIONS:
            return lambda job: self._settle(move, job)
        return {
            Move.ENQUEUE: self._enqueue_again,
            Move.PROMOTE: self._promote,
            Move.PARK: self._park,
            Move.CLAIM: self._claim,
            Move.EXPIRE: self._expire,
        }[move]

    def _park(self, job: Job[Any]) -> None:
        """A new limit takes back the jobs queued before it; there is a slot, so they may be admitted at once. A
        running job is parked when its service bears its failure."""
        if job.state is State.RUNNING:
            (lease,) = self.store.adopt(WORKER, before=1_000, held=[])
            assert self.settle(lease, Park(HOUR, HOUR, verdict(), {})) is Settled.ACCEPTED
        self.store.limit_by(lambda: LimitBook(kinds={job.kind: 1}))
        self.claim("nothing")

    def _by_hand(self, move: Move, job: Job[Any]) -> None:
        delay: dict[str, Any] = {"delay": HOUR} if move is Move.MANUAL_SNOOZE else {}
        if (move, job.state) in TABLE:
            self.move(move, job.id, **delay)
            return
        with pytest.raises(IllegalMove, match=rf"cannot {move.verb} job '{job.id}': it is {job.state}; ") as refusal:
            self.move(move, job.id, **delay)
        assert (refusal.value.job_id, refusal.value.state, refusal.value.move) == (job.id, job.state, move)

    def _settle(self, move: Move, job: Job[Any]) -> None:
        if job.state is State.RUNNING:
            (lease,) = self.store.adopt(WORKER, before=1_000, held=[])
            assert self.settle(lease, DECISIONS[move]) is Settled.ACCEPTED
        else:
            assert self.settle(self.lease_of(job), DECISIONS[move]) is Settled.REFUSED

    def _enqueue_again(self, job: Job[Any]) -> None:
        assert self.store.enqueue([self.new(id=job.id)]) == [job]

    def _promote(self, job: Job[Any]) -> None:
        self.advance(job.due_at - self.now)
        assert self.claim("another-kind") == []

    def _claim(self, job: Job[Any]) -> None:
        taken = [lease.fence.id for lease in self.claim(KIND)]
        assert taken == ([job.id] if job.state is State.QUEUED else [])

    def _expire(self, job: Job[Any]) -> None:
        self.advance(DAY)
        expired = self.store.expire(deadline_passed(), limit=10)
        assert expired == (1 if (Move.EXPIRE, job.state) in TABLE else 0)
