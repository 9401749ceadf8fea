"""A few words about a job or an event, for one cell of a table."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from mulligan.duration import describe
from mulligan.explain.facts import Facts
from mulligan.explain.words import relative
from mulligan.job import ANOTHER_VERSION
from mulligan.lifecycle import BATCH_EVENTS, PURGED, State

if TYPE_CHECKING:
    from mulligan.event import Event
    from mulligan.job import Job


def about_job(job: "Job[Any]", now: datetime) -> str:
    """What is most worth knowing in its state."""
    match job.state:
        case State.WAITING:
            if job.waiting_for == "batch":
                return "until its batch is published"
            if job.waiting_for == ANOTHER_VERSION:
                return f"unhandled: needs a worker of another version, tried again {relative(job.due_at, now)}"
            return f"{job.waiting_for or 'waits'}, due {relative(job.due_at, now)}"
        case State.QUEUED:
            return f"queued {relative(job.queued_at or job.updated_at, now)}"
        case State.RUNNING:
            return _about_running(job, now)
        case State.FAILED:
            return f"{job.error_code}: {job.error_message}"
        case State.SUCCEEDED | State.CANCELLED:
            return f"finished {relative(job.finished_at or job.updated_at, now)}"


def _about_running(job: "Job[Any]", now: datetime) -> str:
    if job.lease_until and job.lease_until <= now:
        return f"its worker is silent, the lease ran out {relative(job.lease_until, now)}"
    parts = [f"started {relative(job.last_attempt_at or job.updated_at, now)}"]
    if job.progress or job.progress_text:
        parts.append(f"{job.progress:.0%} {job.progress_text}".rstrip())
    if job.cancel_requested:
        parts.append("cancelling")
    return ", ".join(parts)


def _about_no_job(event: "Event", facts: Facts) -> list[str]:
    """Of an event that is about no job: what it is about."""
    parts = [facts.text("name")]
    if event.type in BATCH_EVENTS:
        parts.append(_counts(facts))
    if (length := facts.duration("for")) is not None:
        parts.append(f"for {describe(length)}")
    if (did := facts.whole("did")) is not None:
        parts.append(f"{did:,} {'deleted' if event.type == PURGED else 'moved'}")
    numbers = {word: facts.whole(word) for word in ("matched", "retried")}
    parts += [f"{number:,} {word}" for word, number in numbers.items() if number is not None]
    if because := facts.text("because"):
        parts.append(because)
    return parts


def _counts(facts: Facts) -> str:
    ended = ", ".join(
        f"{number:,} {name}" for name in ("succeeded", "failed", "cancelled") if (number := facts.whole(name))
    )
    return f"{facts.text('state')}: {facts.whole('total') or 0:,} members{f', {ended}' if ended else ''}"


def about_event(event: "Event") -> str:
    facts = Facts(event.data)
    parts = [] if event.job else _about_no_job(event, facts)
    if (seconds := facts.duration("seconds")) is not None:
        parts.append(f"after {describe(seconds)}")
    if (delay := facts.duration("delay")) is not None:
        parts.append(f"waits {describe(delay)}")
    if because := facts.part("reasons").text("because"):
        parts.append(because)
    if event.actor:
        parts.append(": ".join(filter(None, [f"by {event.actor}", facts.text("reason")])))
    said = ": ".join(filter(None, [event.code, facts.text("message")]))
    return f"{said} ({', '.join(parts)})" if said and parts else said or ", ".join(parts)
