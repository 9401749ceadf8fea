"""The life of a job as spans of time: when it waited, was ready, ran, and how each run ended."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mulligan.explain import Hold
from mulligan.explain.event_data import EventData
from mulligan.lifecycle import TABLE, State
from mulligan.records.event import Event
from mulligan.records.job import Job

MOST_SPANS = 200

_TARGETS = {step.event: step.target for step in TABLE.values()}
# The tone of a run by the event that ended it.
_TONES = {
    "job.succeeded": "succeeded",
    "job.retried": "failed",
    "job.failed": "failed",
    "job.snoozed": "waiting",
    "job.parked": "held",
    "job.released": "rule-2",
    "job.cancelled": "cancelled",
}


class Span(NamedTuple):
    """`sort` is waiting, queued, held or run. `attempt` is the number of a run."""

    start: datetime
    end: datetime
    sort: str
    tone: str = ""
    attempt: int = 0


def spans_of(job: Job[Any], events: Sequence[Event], hold: Hold | None, now: datetime) -> list[Span]:
    """`hold` is what holds the job now; a time is no such thing."""
    spans: list[Span] = []
    state, since = None, job.enqueued_at
    for event in events:
        target = _target(event)
        if target is None:
            continue
        spans += _span(state, since, event.at, _TONES.get(event.type, "rule-2"), event.attempt)
        state, since = target, event.at
    spans += _span(state, since, now, "running", job.attempt)
    return _with_hold(spans, hold, now)[-MOST_SPANS:]


def _target(event: Event) -> State | None:
    if event.type == "job.enqueued":
        facts = EventData(event.data)
        is_ready = not facts.duration("delay") and not facts.text("batch") and not facts.text("waiting_for")
        return State.QUEUED if is_ready else State.WAITING
    # A request to stop a run does not end it.
    return None if event.type == "job.cancel_requested" else _TARGETS.get(event.type)


def _span(state: State | None, start: datetime, end: datetime, tone: str, attempt: int) -> list[Span]:
    match state:
        case State.RUNNING:
            return [Span(start, end, "run", tone, attempt)]
        case State.WAITING | State.QUEUED if end > start:
            return [Span(start, end, str(state))]
    return []


def _with_hold(spans: list[Span], hold: Hold | None, now: datetime) -> list[Span]:
    """The last span is held from the moment at which the job could have gone on."""
    if not spans or hold is None or spans[-1].sort == "run" or spans[-1].end != now:
        return spans
    *before, last = spans
    since = max(hold.since or last.start, last.start)
    free = [last._replace(end=since)] if since > last.start else []
    return [*before, *free, last._replace(start=since, sort="held")]
