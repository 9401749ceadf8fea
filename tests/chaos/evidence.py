"""The evidence that a run leaves."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.counters import Counters
from chaos.ledger import Run
from chaos.plan import Fault
from chaos.workers import Life
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.store.messages import WorkerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is left when it is over."""

    plan: Sequence[Fault]
    accepted: list[str]
    published: dict[str, bool]
    """Batches, and whether a job follows them."""
    runs: list[Run]
    jobs: list[Job[Any]]
    events: list[Event]
    read: list[str]
    workers: list[WorkerRecord]
    lives: list[Life]
    statuses: list[int]
    log: str
    counters: Counters
    crashes: list[float] = field(default_factory=list)
    """When the database crashed."""


def summary(evidence: Evidence) -> str:
    types = Counter(event.type for event in evidence.events)
    kills = sum(life.killed is not None for life in evidence.lives)
    lost = sum(event.code == "WORKER_LOST" for event in evidence.events)
    return (
        f"{kills} kills, {sum(len(life.stops) for life in evidence.lives)} stops, {len(evidence.crashes)} database "
        f"crashes; {len(evidence.accepted)} jobs accepted, {len(evidence.runs)} runs, {lost} attempts lost, "
        f"{types['job.refused']} late results refused, {len(evidence.events)} events"
    )
