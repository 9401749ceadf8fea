"""The clients: they enqueue jobs and batches, and retry, cancel, snooze and redrive manually."""

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from mulligan.console.redrives import Redrives
from mulligan.errors import (
    BatchExpired,
    Conflict,
    IllegalMove,
    JobNotFound,
    KeyInUse,
    StoreUnavailable,
    SubmitRateExceeded,
)
from mulligan.failure.verdict import engine_verdict
from mulligan.lifecycle import Move, State
from mulligan.records.batch import NewBatch
from mulligan.records.job import Job, JobFilter, NewJob
from mulligan.records.redrive import Redrive
from mulligan.store.messages import JobRequest, Request
from mulligan.testing.virtual import START
from mulligan.values.clock import Ids
from simulator.clocks import SkewedClock
from simulator.driver import SimulatedDriver
from simulator.follow_ups import FOLLOW_UP
from simulator.gateway import KIND as NEEDS_GATEWAY
from simulator.gateway import NAME as GATEWAY
from simulator.parameters import KINDS
from simulator.participants import Participant
from simulator.quotas import PLAIN
from simulator.tasks import POLICIES, plan

if TYPE_CHECKING:
    from simulator.world import World

T = TypeVar("T")

MANUAL_MOVES = (Move.MANUAL_RETRY, Move.RUN_NOW, Move.MANUAL_CANCEL, Move.MANUAL_CANCEL, Move.MANUAL_SNOOZE)
OWNERS = ("", "", "ann", "ben")
# Forgotten from time to time. It has no limits, and its jobs are in no batch.
FORGOTTEN = "dan"
# How long a key that was released and used again is kept.
KEPT = timedelta(minutes=1)
# How often a job is drawn until it has the wanted kind.
MOST_DRAWN = 100
# Between two shifts the clients do little.
REST = 0.02


class Clients(Participant):
    def __init__(self, world: "World") -> None:
        super().__init__(world, "clients")
        self._randomness = world.fork()
        self._ids = Ids(SkewedClock(world.timeline, timedelta(0)), self._randomness)
        self._driver = SimulatedDriver(self)
        self._latest: list[str] = []
        self._queues = world.parameters.allotment.names
        self._quotas = world.parameters.allotment.quotas
        self.accepted: dict[str, None] = {}
        """Jobs whose enqueue was acknowledged: none of them may ever be missing."""
        self._drafts: dict[str, None] = {}
        self._redrives = Redrives(lambda: self.store, self._ids)
        # Not forked: what other parts draw stays as it was.
        self._draw = random.Random(f"requests {world.seed}")
        parts = (self._enqueue(), self._meddle(), self._redrive(), self._request())
        self._work = [self.begin(part) for part in parts]

    def rest(self) -> None:
        """Stop enqueuing and moving jobs."""
        for work in self._work:
            work.cancel()

    def finish(self) -> None:
        """Publish all drafts, so that no member waits forever."""
        for batch in self._drafts:
            self.begin(self._publish(batch))

    def leave(self) -> None:
        self.rest()
        self.is_dead = True
        self.connection.cut()

    async def _pause(self, rate: float) -> None:
        busy = 1.0 if self.world.is_shift else REST
        await asyncio.sleep(self._randomness.expovariate(rate * busy))

    async def _enqueue(self) -> None:
        parameters = self.world.parameters
        while True:
            await self._pause(parameters.arrivals)
            jobs = [self._new_job() for _ in range(self._randomness.randint(1, parameters.batch))]
            is_batch = parameters.batches > self._randomness.random()
            if is_batch:
                jobs = await self._draft()
            stored = await self._accepted(jobs)
            self.accepted |= dict.fromkeys(job.id for job in stored)
            self._latest = [*self._latest, *(job.id for job in stored)][-30:]
            if is_batch and jobs[0].batch is not None:
                self._work.append(self.begin(self._publish(jobs[0].batch, after=self._randomness.uniform(0, 20))))

    async def _accepted(self, jobs: list[NewJob]) -> list[Job[Any]]:
        """Store the jobs. If their owner exceeds its rate, give up and return none."""
        try:
            return await self._surely(lambda: self.store.enqueue(jobs))
        except SubmitRateExceeded:
            return []

    async def _draft(self) -> list[NewJob]:
        randomness = self._randomness
        batch = NewBatch(
            id=self._ids(),
            name="a batch",
            success_at=randomness.choice((1.0, 0.5)),
            abort_above=randomness.choice((None, 0.0, 0.3)),
            expires_in=timedelta(seconds=randomness.uniform(5, 300)) if randomness.random() < 0.4 else None,
        )
        await self._surely(lambda: self.store.create_batch(batch))
        self._drafts[batch.id] = None
        # Without keys: a call that comes late could find its key free again, and the batch closed.
        plain: dict[str, Any] = {"dedupe_key": None, "dedupe_for": None, "dedupe_scope": "active", "batch": batch.id}
        return [structs.replace(self._new_job(), **plain) for _ in range(randomness.randint(1, 6))]

    async def _publish(self, batch: str, *, after: float = 0.0) -> None:
        await asyncio.sleep(after)
        await self._surely(lambda: self.store.publish(batch))
        self._drafts.pop(batch, None)

    def _new_job(self) -> NewJob:
        randomness, kind = self._randomness, self._randomness.choice(KINDS)
        policy = POLICIES[kind]
        is_keyed = randomness.random() < 0.15
        job = NewJob(
            id=self._ids(),
            kind=kind,
            queue=randomness.choice(self._queues),
            service=GATEWAY if kind == NEEDS_GATEWAY and self.world.parameters.has_gateway else "",
            arguments=json.dumps({"words": plan(kind, randomness, killers=self.world.parameters.killers)}),
            owner=randomness.choice(OWNERS),
            priority=randomness.choice((0, 0, 0, -10, 10)),
            submitted_at=START - timedelta(days=365) if randomness.random() < 0.05 else None,
            delay=timedelta(seconds=randomness.choice((0, 0, 0, 0, 3, 30, 90))),
            deadline=timedelta(seconds=randomness.uniform(5, 120)) if randomness.random() < 0.1 else policy.deadline,
            max_attempts=policy.max_attempts,
            max_crashes=policy.max_crashes,
            max_snoozes=policy.max_snoozes,
            dedupe_key=randomness.choice("abc") if is_keyed else None,
            dedupe_scope=randomness.choice(("active", "succeeded")) if is_keyed else "active",
            dedupe_for=timedelta(seconds=randomness.uniform(1, 300))
            if is_keyed and randomness.random() < 0.3
            else None,
        )
        is_followed = self._draw.random() < self.world.parameters.follow_ups
        return self._quotas.apply_to(structs.replace(job, on_cancelled=FOLLOW_UP if is_followed else None))

    async def _meddle(self) -> None:
        if not self.world.parameters.moves:
            return
        while True:
            await self._pause(self.world.parameters.moves)
            if self._latest:
                await self._move(self._randomness.choice(self._latest))

    async def _move(self, job: str) -> None:
        owner = self.world.oracle.lives.known(job).owner
        request = Request(
            id=self._ids(),
            move=self._randomness.choice(MANUAL_MOVES),
            job=job,
            owner=self._randomness.choice((None, None, owner, "carol")),
            actor="a person",
            delay=timedelta(seconds=self._randomness.choice((0, 5, 40))),
        )
        try:
            await self._surely(lambda: self.store.move(request))
        except JobNotFound:
            if request.owner != "carol" and job not in self.world.oracle.lives.deleted:
                self.world.break_promise(f"the job of {owner!r} was not found by {request.owner!r}")
        except (IllegalMove, Conflict, BatchExpired):
            return
        else:
            if request.owner == "carol":
                self.world.break_promise("an owner moved the job of another owner")

    async def _request(self) -> None:
        if not self.world.parameters.requests:
            return
        while True:
            await asyncio.sleep(self._draw.expovariate(self.world.parameters.requests))
            if self.world.is_shift:
                await self._draw.choice((self._reject, self._release_key, self._enqueue_of_forgotten, self._forget))()

    async def _reject(self) -> None:
        job = structs.replace(self._plain_job(), is_id_given=True)
        rejected = await self._surely(lambda: self.store.reject(job, engine_verdict("INVALID_INPUT")))
        self._latest = [*self._latest, rejected.id][-30:]

    async def _release_key(self) -> None:
        """Release a key, and use it again."""
        keyed = [life for life in self.world.oracle.lives.by_id.values() if life.key is not None]
        if not keyed:
            return
        life = self._draw.choice([each for each in keyed if each.is_over] or keyed)
        key, request = life.key, JobRequest(id=self._ids(), job=life.id, actor="a person")
        with suppress(JobNotFound, KeyInUse):
            await self._surely(lambda: self.store.release_key(request))
            again: dict[str, Any] = {
                "owner": life.owner,
                "dedupe_key": key,
                "dedupe_scope": "succeeded",
                "dedupe_for": KEPT,
            }
            # In some worlds a kind is enqueued no more.
            drawn = (self._plain_job() for _ in range(MOST_DRAWN))
            alike = next((job for job in drawn if job.kind == life.kind), None)
            if alike is None:
                return
            stored = await self._accepted([structs.replace(alike, **again)])
            self.accepted |= dict.fromkeys(one.id for one in stored if one.owner != FORGOTTEN)

    async def _enqueue_of_forgotten(self) -> None:
        jobs = [structs.replace(self._plain_job(), owner=FORGOTTEN) for _ in range(self._draw.randint(1, 4))]
        # Not repeated: the same ids could be those of jobs that are forgotten by then.
        with suppress(StoreUnavailable):
            stored = await self._driver.blocking(lambda: self.store.enqueue(jobs))
            self._latest = [*self._latest, *(job.id for job in stored)][-30:]

    async def _forget(self) -> None:
        await self._surely(lambda: self._redrives.forget(FORGOTTEN, actor="a person"))

    def _plain_job(self) -> NewJob:
        """Without a key, a rate or a turn."""
        plain: dict[str, Any] = {"dedupe_key": None, "dedupe_for": None, "dedupe_scope": "active"}
        return structs.replace(self._new_job(), queue=PLAIN, weight=None, submit_rate=None, owner="", **plain)

    async def _redrive(self) -> None:
        if not self.world.parameters.redrives:
            return
        randomness = self.world.fork()
        while True:
            await self._pause(self.world.parameters.redrives)
            begun = await self._surely(self._new_redrive(randomness))
            if randomness.random() < 0.2 and begun.id:
                await asyncio.sleep(randomness.uniform(0, 5))
                await self._surely(lambda begun=begun: self.store.cancel_redrive(begun.id, actor="a person"))  # type: ignore[misc]

    def _new_redrive(self, randomness: random.Random) -> Callable[[], Redrive]:
        owner = randomness.choice((None, None, "ann"))
        if randomness.random() < 0.15:
            return partial(
                self._redrives.start_bulk,
                "cancel",
                JobFilter(kind=randomness.choice(KINDS)),
                rate=randomness.choice(("1/s", "50/s")),
                owner=owner,
                actor="a person",
                request_id=self._ids(),
            )
        state = randomness.choice((None, State.FAILED, State.CANCELLED))
        return partial(
            self._redrives.start,
            JobFilter(kind=randomness.choice((None, *KINDS)), state=state),
            rate=randomness.choice(("1/s", "3/s", "50/s")),
            canary=randomness.choice((0, 1, 3)),
            abort_above=randomness.choice((0, 0.5, 1)),
            owner=owner,
            actor="a person",
            request_id=self._ids(),
        )

    async def _surely(self, call: Callable[[], T]) -> T:
        """Ask until there is an answer; now and then once more, as people who are not sure do."""
        while True:
            try:
                answer = await self._driver.blocking(call)
                return answer if self._randomness.random() < 0.9 else await self._driver.blocking(call)
            except StoreUnavailable:
                await asyncio.sleep(random_pause(self._randomness))


def random_pause(randomness: random.Random) -> float:
    return randomness.uniform(0.05, 3)
