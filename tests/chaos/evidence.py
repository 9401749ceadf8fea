"""What an ordeal leaves behind."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.counters import Counters
from chaos.ledger import Run
from chaos.plan import Fault
from chaos.workers import Life
from mulligan.event import Event
from mulligan.job import Job
from mulligan.store.protocols import WorkerRecord
from mulligan.testing.stores.invariants import check_history


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
    histories: dict[str, list[Event]]
    """Of jobs whose events are not in order in the stream of all: as each is told of itself."""
    read: list[str]
    workers: list[WorkerRecord]
    lives: list[Life]
    statuses: list[int]
    log: str
    counters: Counters
    crashes: list[float] = field(default_factory=list)
    """When the database crashed."""


def disordered(jobs: Sequence[Job[Any]], events: Sequence[Event]) -> Iterator[str]:
    """Those whom the stream tells of something before it tells of what led there. Transactions on PostgreSQL that see
    each other's rows stand in it by their ids (docs/decisions/008-event-positions.md)."""
    by_job: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_job[event.job].append(event)
    for job in jobs:
        try:
            check_history(job, by_job[job.id])
        except AssertionError:
            yield job.id


def summary(evidence: Evidence) -> str:
    types = Counter(event.type for event in evidence.events)
    kills = sum(life.killed is not None for life in evidence.lives)
    lost = sum(event.code == "WORKER_LOST" for event in evidence.events)
    return (
        f"{kills} kills, {sum(len(life.stops) for life in evidence.lives)} stops, {len(evidence.crashes)} database "
        f"crashes; {len(evidence.accepted)} jobs accepted, {len(evidence.runs)} runs, {lost} attempts lost, "
        f"{types['job.refused']} late results refused, {len(evidence.events)} events, {len(evidence.histories)} jobs "
        f"whose own are not in order among them"
    )
