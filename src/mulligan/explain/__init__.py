"""Explains a job in plain sentences for the person on call: what happened, and what comes next.

history.py      one sentence per event
next.py         the job's state, what comes next, and what can be done
holds.py        why a ready job is not claimed
reasons.py      why no retry follows
event_data.py   the data of an event, read defensively
words.py        times and counts as people write them
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mulligan.explain.history import describe_event
from mulligan.explain.holds import blocked_by
from mulligan.explain.next import Context, describe_next
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
    """`happened` has one sentence per event, oldest first. `next` has the job's state, what comes next, and what can be
    done."""

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
    """Explain a job. Pure. `ahead` counts the jobs before it in its lane. `is_known`: the calling app has its task.
    `service`, `limits` and `spending` are those of the job and its owner."""
    context = Context(events, workers, now, ahead, is_known, pauses, stuck_after, batch, service, limits, spending)
    return Explanation(
        job,
        happened=tuple(f"{at(event.at, now)}: {describe_event(event, job, workers)}" for event in events),
        next=describe_next(job, context),
    )
