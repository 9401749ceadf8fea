"""What the oracle once took for a broken promise and is none, step by step; and what looks alike and is one."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from conformance.bench import retrying, verdict, worker
from mulligan.errors import BatchClosed
from mulligan.failure.decide import decide
from mulligan.failure.decision import Decision, Fail, Release, Retry, Succeed
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.verdict import worker_lost
from mulligan.lifecycle import Move, State
from mulligan.policies.owner import Owner
from mulligan.records.batch import NewBatch
from mulligan.records.job import MAX_LOSSES, Lease, NewJob
from mulligan.records.limit import LimitBook, RetryBudget
from mulligan.records.rate import parse_rate
from mulligan.store.messages import Beat, Claim, JobRequest, Outcome, Request, Settled
from simulator.gateway import NAME as GATEWAY
from simulator.parameters import GatewayOptions, Parameters
from simulator.participants import Participant
from simulator.quotas import Allotment
from simulator.timeline import SECOND
from simulator.world import World

KIND = "brisk"
LEASE = timedelta(seconds=10)
SOON = timedelta(seconds=1)
DONE = Succeed("null")
PARAMETERS = Parameters.draw(random.Random(0))


class Told(Participant):
    """A worker that does what a test tells it."""

    kinds = (KIND,)

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.incarnation = ""
        self.knows: dict[tuple[str, int], int] = {}
        self._numbers = count(1)

    def is_rid_of(self, job: str, attempt: int) -> None:
        pass

    def enqueue(self, **options: Any) -> str:
        number = len(self.world.oracle.lives.by_id) + 1
        new = NewJob(**{"id": f"job-{number}", "kind": KIND, "arguments": "{}", **options})
        self.store.enqueue([new])
        return new.id

    def claim(self, *, limit: int = 10, number: int | None = None) -> list[Lease]:
        given = next(self._numbers) if number is None else number
        return self.store.claim(
            Claim(incarnation=self.name, number=given, kinds=self.kinds, limit=limit, lease=LEASE)
        ).leases

    def settle(self, lease: Lease, decision: Decision) -> Settled:
        return self.store.settle([Outcome(lease, decision)])[0]

    def beat(self) -> None:
        self.store.beat(Beat(worker=worker(self.name), lease=LEASE, extend=(), progress=()))

    def move(self, move: Move, job: str) -> None:
        self.store.move(Request(id=f"request {next(self._numbers)}", move=move, job=job))

    def reclaim(self, decision: Decision | None = None) -> Settled:
        (lease,) = self.store.overdue(besides=self.name, limit=10)
        lost = decide(worker_lost(kind=KIND), lease.job, RetryPolicy(3), now=lease.until, draw=0.5)
        return self.store.settle([Outcome(lease, decision or lost, reclaimed_by=self.name)])[0]


class Scene:
    """A world in which nothing happens but what a test does."""

    def __init__(self, **parameters: Any) -> None:
        plain = {"has_gateway": False, "allotment": Allotment(), "has_wakeups": False}
        self.world = World(0, parameters=replace(PARAMETERS, **{**plain, **parameters}))
        self.one, self.other = Told(self.world, "one"), Told(self.world, "other")

    def advance(self, by: timedelta) -> None:
        self.world.timeline.now += int(by.total_seconds() * SECOND)

    @property
    def broken(self) -> str | None:
        return self.world.broken

    def lose(self, times: int) -> None:
        """An attempt whose worker goes away, taken back by another, so many times."""
        for _ in range(times):
            self.one.claim()
            self.advance(2 * LEASE)
            assert self.other.reclaim() is Settled.ACCEPTED


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(**getattr(request, "param", {}))
    yield made
    made.world.end()
    made.world.server.store.close()


def with_owners(*owners: Owner) -> Any:
    return pytest.mark.parametrize("scene", [{"allotment": Allotment(owners=owners)}], indirect=True, ids=["owners"])


# Budgets of owners, found by worlds 40372, 40502 and 50701


@with_owners(Owner("ann", concurrency=1, retries_per_day=5))
def test_a_retry_that_is_cancelled_instead_costs_its_owner_nothing(scene: Scene) -> None:
    scene.one.own_store.limit_by(lambda: LimitBook(owners={"ann": 1}, budgets={"ann": RetryBudget(5)}))
    scene.one.claim()
    first, second = (scene.one.enqueue(owner="ann") for _ in range(2))
    (lease,) = scene.one.claim()
    assert lease.fence.id == first, "the other waits for the place"
    scene.one.settle(lease, DONE)
    (lease,) = scene.one.claim()
    scene.one.move(Move.MANUAL_CANCEL, second)
    scene.one.settle(lease, retrying(SOON))
    assert scene.broken is None


# Rates of owners, found by world 40478

RATE = parse_rate("3/m")


def test_a_rate_that_was_forgotten_while_the_clock_was_ahead_begins_anew(scene: Scene) -> None:
    for _ in range(3):
        scene.one.enqueue(owner="ben", submit_rate=RATE)
    scene.world.clock.step(600)
    scene.one.beat()
    scene.world.clock.step(-600)
    scene.advance(SOON)
    scene.one.enqueue(owner="ben", submit_rate=RATE)
    assert scene.broken is None


def test_a_rate_that_is_forgotten_too_early_is_seen(scene: Scene) -> None:
    scene.one.enqueue(owner="ben", submit_rate=RATE)
    scene.world.server.store._connection.execute("DELETE FROM mulligan_submissions")
    scene.one.beat()
    assert "forgotten too early" in str(scene.broken)


# Losses, found by worlds 40574 and 40892


def test_a_job_that_is_run_manually_beyond_the_limit_of_losses_fails_at_the_next(scene: Scene) -> None:
    scene.other.beat()
    job = scene.one.enqueue()
    scene.lose(MAX_LOSSES)
    scene.one.move(Move.RUN_NOW, job)
    scene.lose(1)
    assert scene.broken is None
    assert (scene.one.store.job(job).state, scene.one.store.job(job).losses) == ("failed", MAX_LOSSES + 1)


LOST = worker_lost(kind=KIND)


@pytest.mark.parametrize(
    ("times", "decision", "said"),
    [
        (0, Fail(LOST, {}), "failed at loss 1"),
        (MAX_LOSSES - 1, Release({}, ledger=LOST.ledger, verdict=LOST), f"released at loss {MAX_LOSSES}"),
    ],
)
def test_a_limit_of_losses_that_is_not_kept_is_seen(scene: Scene, times: int, decision: Decision, said: str) -> None:
    scene.other.beat()
    scene.one.enqueue()
    scene.lose(times)
    scene.one.claim()
    scene.advance(2 * LEASE)
    scene.other.reclaim(decision)
    assert said in str(scene.broken)


# Reclaimers, found by worlds 40809 and 50850


def test_a_worker_may_reclaim_before_its_first_claim_and_beat_have_arrived(scene: Scene) -> None:
    scene.one.enqueue()
    scene.lose(1)
    assert scene.broken is None
    assert scene.world.by_incarnation["other"] is scene.other


def test_a_reclaimer_that_speaks_for_another_is_seen(scene: Scene) -> None:
    scene.one.enqueue()
    scene.one.claim()
    scene.advance(2 * LEASE)
    (lease,) = scene.other.store.overdue(besides="other", limit=10)
    decision = decide(LOST, lease.job, RetryPolicy(3), now=lease.until, draw=0.5)
    scene.other.store.settle([Outcome(lease, decision, reclaimed_by="somebody else")])
    assert "speaks for another" in str(scene.broken)


# More expired leases than one look returns, found by the day of outage 3906731754


def test_a_look_at_expired_leases_that_is_full_returns_the_earliest(scene: Scene) -> None:
    first = _expired_in_turn(scene, 2)[0]
    (lease,) = scene.other.store.overdue(besides="other", limit=1)
    assert lease.fence.id == first
    assert scene.broken is None


@pytest.mark.parametrize(
    ("look", "broken"),
    [
        (slice(1, 3), "a lease that expired earlier is left overdue"),
        (slice(0, 1), "the wrong leases are called overdue"),
        (slice(0, 3), "the wrong leases are called overdue"),
    ],
    ids=["later ones", "too few", "too many"],
)
def test_a_look_at_expired_leases_that_returns_others_is_seen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, look: slice, broken: str
) -> None:
    _expired_in_turn(scene, 3)
    whole = scene.other.own_store.overdue(besides="other", limit=10)
    monkeypatch.setattr("mulligan.store.store.Store.overdue", lambda _store, **_options: whole[look])
    scene.other.store.overdue(besides="other", limit=2)
    assert broken in str(scene.broken)


def _expired_in_turn(scene: Scene, number: int) -> list[str]:
    """Jobs of a worker that goes away, the first to expire first."""
    jobs = []
    for _ in range(number):
        jobs.append(scene.one.enqueue())
        scene.one.claim()
        scene.advance(SOON)
    scene.advance(2 * LEASE)
    return jobs


# Batches, found by world 51010


@with_owners(Owner("ben", retries_per_day=1, over_budget="fail"))
def test_a_job_cancelled_with_its_batch_in_the_claim_that_promoted_it_was_not_passed_over(scene: Scene) -> None:
    scene.one.own_store.limit_by(lambda: LimitBook(budgets={"ben": RetryBudget(1, over="fail")}))
    scene.one.store.create_batch(NewBatch(id="batch", name="a batch", abort_above=0.0))
    scene.one.enqueue(owner="ben")
    scene.one.enqueue(owner="ben", batch="batch")
    member = scene.one.enqueue(batch="batch")
    scene.one.store.publish("batch")
    for lease in scene.one.claim():
        scene.one.settle(lease, Retry(SOON, verdict(), {}))
    scene.advance(2 * SOON)
    last = scene.one.enqueue(priority=10)
    assert last in [lease.fence.id for lease in scene.one.claim()]
    assert scene.one.store.job(member).state == "cancelled"
    assert scene.broken is None


# Found by world 468731427


def test_an_enqueue_that_comes_after_its_batch_was_published_may_be_refused(scene: Scene) -> None:
    scene.one.store.create_batch(NewBatch(id="batch", name="a batch"))
    scene.one.store.publish("batch")
    with pytest.raises(BatchClosed):
        scene.one.enqueue(batch="batch")
    assert scene.broken is None


def _all_ready(_steps: object, ids: Sequence[str]) -> Iterator[Any]:
    yield from ()
    return dict.fromkeys(ids, "ready")


def test_an_enqueue_that_is_refused_although_its_batch_is_a_draft_is_seen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.one.store.create_batch(NewBatch(id="batch", name="a batch"))
    monkeypatch.setattr("mulligan.store.batches.BatchOperations._states", _all_ready)
    with pytest.raises(BatchClosed):
        scene.one.enqueue(batch="batch")
    assert "failed with BatchClosed" in str(scene.broken)


# Released keys, found by world 3732981719


def test_a_release_may_be_repeated_when_its_job_runs_again(scene: Scene) -> None:
    job = scene.one.enqueue(dedupe_key="key")
    scene.one.move(Move.MANUAL_CANCEL, job)
    request = JobRequest(id="request", job=job, actor="a person")
    scene.one.store.release_key(request)
    scene.one.move(Move.MANUAL_RETRY, job)
    scene.one.store.release_key(request)
    assert scene.broken is None


def test_a_key_that_is_released_while_its_job_runs_again_is_seen(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    job = scene.one.enqueue(dedupe_key="key")
    monkeypatch.setattr("mulligan.store.dedupe_keys.FINAL", frozenset(State))
    scene.one.store.release_key(JobRequest(id="request", job=job, actor="a person"))
    assert "not over was released" in str(scene.broken)


# Services, found by world 40885

FAST = {"has_gateway": True, "gateway": GatewayOptions(mode="fail_fast")}


@pytest.mark.parametrize("scene", [FAST], indirect=True, ids=["fail fast"])
def test_a_refused_job_that_may_run_after_a_lost_reply_is_seen(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        scene.one.enqueue(service=GATEWAY)
    for lease in scene.one.claim():
        refused = verdict(blames_service=True)
        scene.one.settle(lease, decide(refused, lease.job, RetryPolicy(3), now=lease.until, draw=0.5))
    scene.one.enqueue(service=GATEWAY)
    leases = scene.one.claim(number=7)
    assert leases and all(lease.is_refused for lease in leases)
    scene.one.claim(number=7)
    assert scene.broken is None
    monkeypatch.setattr("mulligan.store.services.stays_refused", lambda *_, **__: False)
    scene.one.claim(number=7)
    assert "after a lost reply it is not" in str(scene.broken)
