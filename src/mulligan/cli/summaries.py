"""Short summaries of jobs and events, for one cell of a table."""

from datetime import datetime
from typing import Any

from mulligan.explain.event_data import EventData
from mulligan.explain.holds import describe_trouble
from mulligan.explain.words import relative
from mulligan.lifecycle import BATCH_EVENTS, PURGED, State
from mulligan.records.event import Event
from mulligan.records.job import ANOTHER_VERSION, Job
from mulligan.values.duration import describe
from mulligan.values.text import with_detail

WHOLE_ID = 36


def short(id_: str) -> str:
    """The random end of an id. Ids begin with their time, so their beginnings look alike."""
    return id_.rpartition("-")[2] if len(id_) == WHOLE_ID else id_


def about_job(job: Job[Any], now: datetime, blocked_by: str | None = None) -> str:
    """The most useful facts in the current state of a job."""
    match job.state:
        case State.WAITING if job.waiting_for == "batch":
            return "until its batch is published"
        case State.WAITING:
            if job.waiting_for == ANOTHER_VERSION:
                unhandled = f"unhandled: needs a worker of another version, tried again {relative(job.due_at, now)}"
                return _about_live(job, unhandled, blocked_by)
            return _about_live(job, f"{job.waiting_for or 'waits'}, due {relative(job.due_at, now)}", blocked_by)
        case State.QUEUED:
            return _about_live(job, f"queued {relative(job.queued_at or job.updated_at, now)}", blocked_by)
        case State.RUNNING:
            return _about_running(job, now)
        case State.FAILED:
            return f"{job.error_code}: {with_detail(job.error_message, job.error_detail)}"
        case State.SUCCEEDED | State.CANCELLED:
            return f"finished {relative(job.finished_at or job.updated_at, now)}"


def _about_live(job: Job[Any], state: str, blocked_by: str | None) -> str:
    blocked = f", blocked by {blocker(blocked_by)}" if blocked_by else ""
    last = f"; last {job.last_code}: {with_detail(job.last_message, job.last_detail)}" if job.last_code else ""
    return f"{state}{blocked}{last}"


def blocker(blocked_by: str) -> str:
    """`the limit of kind convert`, of `limit/kind/convert`."""
    what, _, name = blocked_by.partition("/")
    if what not in ("limit", "pause", "budget"):
        return f"{what} {name}"
    return f"the {what} of {name.replace('/', ' ', 1)}"


def _about_running(job: Job[Any], now: datetime) -> str:
    if job.lease_until and job.lease_until <= now:
        return f"its worker is silent, its lease expired {relative(job.lease_until, now)}"
    parts = [f"started {relative(job.last_attempt_at or job.updated_at, now)}"]
    if job.progress or job.progress_text:
        parts.append(f"{job.progress:.0%} {job.progress_text}".rstrip())
    if job.cancel_requested:
        parts.append("cancelling")
    return ", ".join(parts)


def _about_no_job(event: Event, facts: EventData) -> list[str]:
    """The subject of an event that belongs to no job."""
    parts = [facts.text("name") or facts.text("service")]
    if event.type in BATCH_EVENTS:
        parts.append(_counts(facts))
    if (length := facts.duration("for")) is not None:
        parts.append(f"for {describe(length)}")
    if (did := facts.integer("did")) is not None:
        parts.append(f"{did:,} {'deleted' if event.type == PURGED else 'moved'}")
    numbers = {word: facts.integer(word) for word in ("matched", "retried")}
    parts += [f"{number:,} {word}" for word, number in numbers.items() if number is not None]
    if because := describe_trouble(event.data) or facts.text("because"):
        parts.append(because)
    return [part for part in parts if part]


def _counts(facts: EventData) -> str:
    ended = ", ".join(
        f"{number:,} {name}" for name in ("succeeded", "failed", "cancelled") if (number := facts.integer(name))
    )
    return f"{facts.text('state')}: {facts.integer('total') or 0:,} members{f', {ended}' if ended else ''}"


def about_event(event: Event) -> str:
    facts = EventData(event.data)
    parts = [] if event.job else _about_no_job(event, facts)
    if (seconds := facts.duration("seconds")) is not None:
        parts.append(f"after {describe(seconds)}")
    if (delay := facts.duration("delay")) is not None:
        parts.append(f"waits {describe(delay)}")
    if because := facts.part("reasons").text("because"):
        parts.append(because)
    if event.actor:
        parts.append(": ".join(filter(None, [f"by {event.actor}", facts.text("reason")])))
    message = ": ".join(filter(None, [event.code, with_detail(facts.text("message"), facts.text("error"))]))
    return f"{message} ({', '.join(parts)})" if message and parts else message or ", ".join(parts)
