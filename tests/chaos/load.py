"""What a client asks for: a seed in, jobs and batches without end out.

Some jobs have a place to wait for (a kind and an owner with limits), some stand in a fair queue, some call a service
that is down from time to time; members of batches come in drafts, and some batches are followed by a job.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from chaos.app import FAIR, GATEWAY, LIMITED_OWNER, MAX_ATTEMPTS, PATIENCE, WEIGHTS
from mulligan.records.batch import NewBatch
from mulligan.records.job import ANY_ID, FollowUp, NewJob
from mulligan.values.clock import Ids, SystemClock

MOST_PER_CALL = 12
LARGEST_BATCH = 8
A_BATCH = 0.3
KINDS = {
    "quick": 18,
    "plain": 8,
    "slow": 32,
    "heavy": 12,
    "flaky": 10,
    "doomed": 4,
    "refused": 4,
    "narrow": 10,
    "shared": 10,
    "calling": 20,
}
OF_BATCHES = ("quick", "slow", "flaky", "refused")
TIMED = ("slow", "heavy", "narrow", "shared")
AFTER = FollowUp(
    kind="after",
    arguments=json.dumps({"batch": ANY_ID}),
    queue="default",
    service="",
    priority=0,
    deadline=None,
    max_attempts=MAX_ATTEMPTS,
    max_crashes=3,
    max_snoozes=100,
    timeout=None,
    cost=0,
)


@dataclass(frozen=True)
class Order:
    """Jobs to be stored together; of a batch, once it is there and before it is published."""

    jobs: list[NewJob]
    batch: NewBatch | None = None


class Orders:
    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._ids = Ids(SystemClock(), self._draw)
        self._number = 0

    def __iter__(self) -> Iterator[Order]:
        while True:
            yield self._batch() if self._draw.random() < A_BATCH else self._some()

    def _some(self) -> Order:
        kinds = self._draw.choices(list(KINDS), list(KINDS.values()), k=self._draw.randint(1, MOST_PER_CALL))
        return Order([self._job(kind) for kind in kinds])

    def _batch(self) -> Order:
        batch = NewBatch(
            id=self._ids(),
            name="some",
            success_at=self._draw.choice([0.5, 1.0]),
            on_settled=self._draw.choice([AFTER, None]),
        )
        kinds = self._draw.choices(OF_BATCHES, k=self._draw.randint(0, LARGEST_BATCH))
        return Order([self._job(kind, batch=batch.id) for kind in kinds], batch)

    def _job(self, kind: str, *, batch: str | None = None) -> NewJob:
        self._number += 1
        arguments = {"number": self._number}
        if kind in TIMED:
            arguments["milliseconds"] = self._draw.randint(50, 500 if kind in ("slow", "heavy") else 150)
        if kind == "flaky":
            arguments["failures"] = self._draw.randint(1, MAX_ATTEMPTS - 1)
        return NewJob(
            id=self._ids(),
            kind=kind,
            arguments=json.dumps(arguments),
            max_attempts=PATIENCE if kind == "calling" else MAX_ATTEMPTS,
            delay=timedelta(milliseconds=self._draw.choice([0, 0, 0, 50])),
            batch=batch,
            **self._belonging(kind),
        )

    def _belonging(self, kind: str) -> dict[str, Any]:
        """Its owner, its queue and its service."""
        if kind == "shared":
            owner = self._draw.choice(list(WEIGHTS))
            return {"owner": owner, "queue": FAIR, "weight": WEIGHTS[owner]}
        if kind == "calling":
            return {"service": GATEWAY}
        return {"owner": LIMITED_OWNER if kind in ("flaky", "slow") and self._draw.random() < 0.15 else ""}
