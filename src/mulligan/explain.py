"""What happened to a job and what comes next, in plain sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mulligan.event import Event
from mulligan.job import Job
from mulligan.store.protocols import WorkerRecord


@dataclass(frozen=True, slots=True)
class Explanation:
    """`happened`: a sentence an event, oldest first. `next`: why it is where it is, and what can be done."""

    job: Job[Any]
    happened: tuple[str, ...]
    next: tuple[str, ...]


def explain(
    job: Job[Any],
    *,
    events: Sequence[Event],
    workers: Sequence[WorkerRecord],
    now: datetime,
    ahead: int,
    is_known: bool,
) -> Explanation:
    return Explanation(job, (), ())
