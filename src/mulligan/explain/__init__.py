"""Explains a job: what happened, what comes next, and what can be done, as data and in plain sentences.

explanation.py  the data: holds, actions, and the sentences made from them
context.py      what is known besides the job, and what of it an owner may see
history.py      one sentence per event
next.py         the job's state, what comes next, and what holds it
holds.py        why a ready job is not claimed
actions.py      what can be done
reasons.py      why no retry follows
event_data.py   the data of an event, read defensively
words.py        times and counts as people write them
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mulligan.explain.actions import for_owner
from mulligan.explain.context import Context, hide_from_owner
from mulligan.explain.explanation import Action, Explanation, Hold, HoldCode, holds_in, sentences_of
from mulligan.explain.history import describe_event
from mulligan.explain.holds import blocked_by
from mulligan.explain.next import describe_next, possible_moves
from mulligan.records.batch import BatchRecord
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.records.limit import LimitRecord, SpendingRecord
from mulligan.records.pause import Pause
from mulligan.service.records import ServiceStatus
from mulligan.store.messages import WorkerRecord
from mulligan.traces import trace_id_in

__all__ = ["Action", "Explanation", "Hold", "HoldCode", "blocked_by", "explain"]


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
    is_for_owner: bool = False,
) -> Explanation:
    """Explain a job. Pure. `ahead` counts the jobs before it in its lane. `is_known`: the calling app has its task.
    `service`, `limits` and `spending` are those of the job and its owner. `is_for_owner`: name no worker, no person and
    no shell command."""
    context = Context(events, workers, now, ahead, is_known, pauses, stuck_after, batch, service, limits, spending)
    if is_for_owner:
        job, context = hide_from_owner(job, context)
    parts = [_for_reader(part, context) for part in describe_next(job, context)]
    actions = possible_moves(job, context)
    actions = for_owner(actions) if is_for_owner else actions
    return Explanation(
        job,
        happened=tuple(_describe_event(event, job, context) for event in context.events),
        next=sentences_of(parts, actions),
        holds=holds_in(parts),
        actions=actions,
        trace_id=trace_id_in(job.tags),
    )


def _describe_event(event: Event, job: Job[Any], context: Context) -> str:
    sentence = describe_event(event, job, context.workers, is_for_owner=context.is_for_owner)
    return f"{context.at(event.at)}: {sentence}"


def _for_reader(part: str | Hold, context: Context) -> str | Hold:
    if isinstance(part, Hold) and context.is_for_owner:
        return replace(part, actions=for_owner(part.actions))
    return part
