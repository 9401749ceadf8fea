"""What happened to a job and what comes next, in plain sentences for whoever is on call.

words.py      times and counts as people say them
facts.py      an event's data, read with care
happened.py   one sentence an event
because.py    why no retry follows
held.py       why a job that is ready is left where it is
follows.py    where the job stands, what comes next, what can be done
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mulligan.explain.history import sentence
from mulligan.explain.holds import blocked_by
from mulligan.explain.next import Surroundings, follows
from mulligan.explain.words import at
from mulligan.records.batch import BatchRecord
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.records.limit import LimitRecord, SpendingRecord
from mulligan.records.pause import Pause
from mulligan.service.records import ServiceStatus
from mulligan.store.messages import WorkerRecord

__all__ = ["Explanation", "blocked_by", "explain"]


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
    pauses: Sequence[Pause] = (),
    stuck_after: timedelta = timedelta(minutes=30),
    batch: BatchRecord | None = None,
    service: ServiceStatus | None = None,
    limits: Sequence[LimitRecord] = (),
    spending: SpendingRecord | None = None,
) -> Explanation:
    """Pure. `ahead` counts the jobs before it in its lane; `is_known`: the app that asks has its task; `service` is the
    job's; `limits` are those that concern it, `spending` is its owner's."""
    around = Surroundings(events, workers, now, ahead, is_known, pauses, stuck_after, batch, service, limits, spending)
    return Explanation(
        job,
        happened=tuple(f"{at(event.at, now)}: {sentence(event, job, workers)}" for event in events),
        next=follows(job, around),
    )
