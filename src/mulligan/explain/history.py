"""What happened: one sentence per event, with the error, the decision and its reason. Never the traceback."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mulligan.explain.event_data import EventData
from mulligan.explain.reasons import describe_reason, was_not_tried
from mulligan.explain.words import end_sentence, quoted, stamp, worker_name
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.records.schedule import TAG, job_id_of
from mulligan.store.messages import WorkerRecord
from mulligan.values.duration import describe
from mulligan.values.text import with_detail

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class History:
    """An event, and what is needed to describe it."""

    event: Event
    job: Job[Any]
    workers: Sequence[WorkerRecord]
    is_for_owner: bool = False

    @property
    def facts(self) -> EventData:
        return EventData(self.event.data)

    @property
    def reasons(self) -> EventData:
        return self.facts.part("reasons")

    @property
    def attempt(self) -> str:
        return f"attempt {self.event.attempt}"

    @property
    def is_settled(self) -> bool:
        """The event ends an attempt; otherwise it is manual or of a duty."""
        return "by" in self.facts or "worker" in self.facts


def describe_event(event: Event, job: Job[Any], workers: Sequence[WorkerRecord], *, is_for_owner: bool = False) -> str:
    sentence = DESCRIPTIONS.get(event.type, _describe_other)(History(event, job, workers, is_for_owner))
    return end_sentence(sentence[0].upper() + sentence[1:])


def _describe_other(history: History) -> str:
    code = f" with {history.event.code}" if history.event.code else ""
    by_hand = f" by {history.event.actor}" if history.event.actor else ""
    return f"there was {history.event.type} ({history.attempt}){code}{by_hand}"


# Before an attempt


def _describe_parked(history: History) -> str:
    if not history.is_settled:
        return "it gave its slot back and waits until it can run"
    delay = history.facts.duration("delay")
    then = f"; it waits {describe(delay)}" if delay else ""
    return (
        f"{_failure(history)}; {history.reasons.text('because')}: no attempt is used up{then}{_notes(history.reasons)}"
    )


def _describe_enqueued(history: History) -> str:
    delay = history.facts.duration("delay")
    owner = f" for {history.event.owner}" if history.event.owner else ""
    when = f"after {describe(delay)}" if delay else "at once"
    if history.facts.text("batch"):
        when = "when its batch is published" + (f", but not before {describe(delay)} have passed" if delay else "")
    if history.facts.text("waiting_for") == "limit":
        when = "when a slot is free"
    return f"it was enqueued{_by_schedule(history)}{owner}, to run {when}"


def _by_schedule(history: History) -> str:
    """The schedule and the tick that made it."""
    job = history.job
    name = next((tag.removeprefix(TAG) for tag in job.tags if tag.startswith(TAG)), None)
    if name is None:
        return ""
    is_tick = job.id == job_id_of(name, job.submitted_at)
    return f" by schedule {name!r}" + (f" for its tick at {stamp(job.submitted_at)}" if is_tick else ", run manually")


def _describe_queued(history: History) -> str:
    return f"it was due, so it was queued in {history.job.queue!r}"


def _describe_started(history: History) -> str:
    worker = history.facts.text("worker")
    where = f" on {worker_name(worker, history.workers)}" if worker else ""
    by_hand = ", requested manually" if history.facts.text("trigger") == "manual" else ""
    version = history.facts.text("version")
    return f"{history.attempt} started{where}{f', version {version}' if version else ''}{by_hand}"


# How attempts ended


def _describe_succeeded(history: History) -> str:
    return f"{history.attempt} succeeded{_after(history)}"


def _describe_retried(history: History) -> str:
    delay = history.facts.duration("delay")
    later = f"{describe(delay)} later" if delay is not None else "later"
    return f"{_failure(history)}; it is retried {later}{_delay_reasons(history.reasons)}{_notes(history.reasons)}"


def _describe_failed(history: History) -> str:
    why = describe_reason(history.reasons, history.event.code)
    return f"{_failure(history)}; no retry follows, because {why}{_notes(history.reasons)}"


def _failure(history: History) -> str:
    subject = f"{history.attempt} failed{_after(history)}" if history.is_settled else "it failed"
    if was_not_tried(history.reasons):
        subject = f"{history.attempt} failed without running"
    code = f" with {history.event.code}" if history.event.code else ""
    return f"{subject}{code}{_message(history)}{_rule_and_count(history.reasons)}{_service_calls(history)}"


def _message(history: History) -> str:
    """The line for users, with the technical line."""
    said = with_detail(history.facts.text("message"), history.facts.text("error"))
    return f": {quoted(said)}" if said else ""


def _service_calls(history: History) -> str:
    """The call results that were recorded for services."""
    services = list(history.facts.parts("services").items())[:MOST_NAMED]
    failed = [repr(name) for name, calls in services if calls.integer("failed")]
    answered = [repr(name) for name, calls in services if calls.integer("ok") and not calls.integer("failed")]
    parts = [f"counted as a failed call of service {' and '.join(failed)}"] if failed else []
    parts += [f"counted as a good call of service {' and '.join(answered)}"] if answered else []
    return f" [{'; '.join(parts)}]" if parts else ""


def _rule_and_count(reasons: EventData) -> str:
    rule, failure, limit = reasons.text("rule"), reasons.integer("failure"), reasons.integer("of")
    parts = [f"rule {rule}"] if rule else []
    if failure is not None and limit is not None:
        parts.append(f"failure {failure} of {limit}")
    if version := reasons.text("policies"):
        parts.append(f"policies {version}")
    return f" ({', '.join(parts)})" if parts else ""


def _delay_reasons(reasons: EventData) -> str:
    hint = reasons.duration("hint")
    parts = [f"it was asked to wait at least {describe(hint)}"] if hint is not None else []
    if window := _moment(reasons.text("window")):
        parts.append(f"the policy's windows allow it from {stamp(window)} on")
    if backoff := reasons.text("backoff"):
        parts.append(f"the policy's backoff could not be used: {backoff}")
    return f" ({'; '.join(parts)})" if parts else ""


def _notes(reasons: EventData) -> str:
    notes = reasons.texts("notes")
    return f" (note: {'; '.join(' '.join(note.split()) for note in notes[:3])})" if notes else ""


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _after(history: History) -> str:
    seconds = history.facts.duration("seconds")
    return f" after {describe(seconds)}" if seconds is not None else ""


def _describe_snoozed(history: History) -> str:
    delay = history.facts.duration("delay")
    wait = describe(delay) if delay is not None else "a while"
    if not history.is_settled:
        return f"it was snoozed for {wait}{_by_actor(history)}"
    if (misfit := history.reasons.integer("misfit")) is not None:
        count = f"misfit {misfit} of {history.reasons.integer('of')}"
        given_back = (
            f"did not run, because its arguments belong to another version of the task{_notes(history.reasons)}"
        )
        return f"{history.attempt} {given_back}; a worker of that version may claim it {wait} later ({count})"
    slow = f"was asked to slow down ({history.event.code}{_message(history)})"
    what = "asked to run again" if history.event.code == "SNOOZED" else slow
    number, limit = history.reasons.integer("snooze"), history.reasons.integer("of")
    count = f" (wait {number} of {limit})" if number is not None and limit is not None else ""
    return f"{history.attempt} {what}: it waits {wait}, and no attempt is used up{count}{_service_calls(history)}"


def _describe_released(history: History) -> str:
    for word, what in (
        ("loss", "lost its worker, which sent no heartbeat"),
        ("crash", "ended because its process died"),
    ):
        count, limit = history.reasons.integer(word), history.reasons.integer("of")
        if count is not None:
            of = f" ({word} {count} of {limit})" if limit is not None else ""
            return f"{history.attempt} {what}{of}; the job returned to its queue, and no attempt is used up"
    why = history.reasons.text("why")
    reason = "because its worker was stopped" if why == "shutdown" else f"({why})" if why else ""
    return f"{history.attempt} was released {reason}".rstrip() + "; no attempt is used up"


def _describe_cancelled(history: History) -> str:
    reason = history.facts.text("reason")
    if not history.is_settled and reason and not history.event.actor:
        return f"it was cancelled, because {reason}"
    if not history.is_settled:
        return f"it was cancelled{_by_actor(history)}"
    if history.event.code:
        return f"{_failure(history)}; cancellation had been requested, so the job was cancelled"
    return f"{history.attempt} was stopped{_after(history)} as requested, and the job was cancelled"


def _describe_refused(history: History) -> str:
    decision = history.facts.text("decision")
    what = f"the outcome of {history.attempt}" + (f" ({decision})" if decision else "")
    return f"{what} was refused: another worker held the lease by then"


def _describe_key_released(history: History) -> str:
    return f"its dedupe key was released{_by_actor(history)}"


def _describe_result_expired(history: History) -> str:
    is_manual = history.event.actor is not None
    return f"its result was deleted{_by_actor(history)}" if is_manual else "its result expired and was deleted"


# Manual


def _describe_cancel_requested(history: History) -> str:
    return f"while {history.attempt} was running, cancellation was requested{_by_actor(history)}"


def _describe_retry_requested(history: History) -> str:
    redrive = history.facts.text("redrive")
    part = f", as part of redrive {redrive}" if redrive else ""
    return f"a retry with all counters reset was requested{_by_actor(history)}{part}"


def _describe_run_requested(history: History) -> str:
    return f"an immediate run with unchanged counters was requested{_by_actor(history)}"


def _by_actor(history: History) -> str:
    """The actor and the reason that the actor gave."""
    if history.is_for_owner:
        return ""
    reason = history.facts.text("reason")
    return f" by {history.event.actor or 'an unknown person'}" + (f" (reason: {quoted(reason)})" if reason else "")


DESCRIPTIONS: dict[str, Callable[[History], str]] = {
    "job.enqueued": _describe_enqueued,
    "job.queued": _describe_queued,
    "job.parked": _describe_parked,
    "job.started": _describe_started,
    "job.succeeded": _describe_succeeded,
    "job.retried": _describe_retried,
    "job.failed": _describe_failed,
    "job.snoozed": _describe_snoozed,
    "job.released": _describe_released,
    "job.cancelled": _describe_cancelled,
    "job.cancel_requested": _describe_cancel_requested,
    "job.retry_requested": _describe_retry_requested,
    "job.run_requested": _describe_run_requested,
    "job.refused": _describe_refused,
    "job.result_expired": _describe_result_expired,
    "job.key_released": _describe_key_released,
}
