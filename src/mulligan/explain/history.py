"""What happened: one sentence an event, with what was raised, what was decided and why. Never the traceback."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mulligan.explain.event_data import Facts
from mulligan.explain.reasons import because, was_not_tried
from mulligan.explain.words import ended, quoted, stamp, worker_name
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.records.schedule import TAG, job_id_of
from mulligan.store.messages import WorkerRecord
from mulligan.values.duration import describe
from mulligan.values.text import with_detail

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class History:
    """An event, and what is needed to tell it."""

    event: Event
    job: Job[Any]
    workers: Sequence[WorkerRecord]

    @property
    def facts(self) -> Facts:
        return Facts(self.event.data)

    @property
    def reasons(self) -> Facts:
        return self.facts.part("reasons")

    @property
    def attempt(self) -> str:
        return f"attempt {self.event.attempt}"

    @property
    def is_settled(self) -> bool:
        """An attempt's end; else it was done by hand or by upkeep."""
        return "by" in self.facts or "worker" in self.facts


def sentence(event: Event, job: Job[Any], workers: Sequence[WorkerRecord]) -> str:
    told = TELLERS.get(event.type, _something)(History(event, job, workers))
    return ended(told[0].upper() + told[1:])


def _something(story: History) -> str:
    code = f" with {story.event.code}" if story.event.code else ""
    by_hand = f" by {story.event.actor}" if story.event.actor else ""
    return f"there was {story.event.type} ({story.attempt}){code}{by_hand}"


# Coming in


def _parked(story: History) -> str:
    if not story.is_settled:
        return "it gave its place back, to wait until it can run"
    delay = story.facts.duration("delay")
    then = f"; it waits {describe(delay)}" if delay else ""
    return f"{_failure(story)}; {story.reasons.text('because')}: no attempt is used up{then}{_notes(story.reasons)}"


def _enqueued(story: History) -> str:
    delay = story.facts.duration("delay")
    owner = f" for {story.event.owner}" if story.event.owner else ""
    when = f"{describe(delay)} later" if delay else "at once"
    if story.facts.text("batch"):
        when = "when its batch is published" + (f", not before {describe(delay)} have passed" if delay else "")
    if story.facts.text("waiting_for") == "limit":
        when = "when there is a place for it"
    return f"it was enqueued{_by_schedule(story)}{owner}, to run {when}"


def _by_schedule(story: History) -> str:
    """Which schedule made it, and for which tick."""
    job = story.job
    name = next((tag.removeprefix(TAG) for tag in job.tags if tag.startswith(TAG)), None)
    if name is None:
        return ""
    is_tick = job.id == job_id_of(name, job.submitted_at)
    return f" by schedule {name!r}" + (f" for its tick at {stamp(job.submitted_at)}" if is_tick else ", run by hand")


def _queued(story: History) -> str:
    return f"its time had come, so it was queued in {story.job.queue!r}"


def _started(story: History) -> str:
    worker = story.facts.text("worker")
    where = f" on {worker_name(worker, story.workers)}" if worker else ""
    by_hand = ", asked for by hand" if story.facts.text("trigger") == "manual" else ""
    version = story.facts.text("version")
    return f"{story.attempt} started{where}{f', version {version}' if version else ''}{by_hand}"


# How attempts ended


def _succeeded(story: History) -> str:
    return f"{story.attempt} succeeded{_after(story)}"


def _retried(story: History) -> str:
    delay = story.facts.duration("delay")
    later = f"{describe(delay)} later" if delay is not None else "later"
    return f"{_failure(story)}; it is tried again {later}{_delayed_by(story.reasons)}{_notes(story.reasons)}"


def _failed(story: History) -> str:
    why = because(story.reasons, story.event.code)
    return f"{_failure(story)}; no retry follows, because {why}{_notes(story.reasons)}"


def _failure(story: History) -> str:
    subject = f"{story.attempt} failed{_after(story)}" if story.is_settled else "it failed"
    if was_not_tried(story.reasons):
        subject = f"{story.attempt} was not tried and failed"
    code = f" with {story.event.code}" if story.event.code else ""
    return f"{subject}{code}{_words(story)}{_judged_by(story.reasons)}{_told_of_services(story)}"


def _words(story: History) -> str:
    """The line for people, and the technical one beside it."""
    said = with_detail(story.facts.text("message"), story.facts.text("error"))
    return f": {quoted(said)}" if said else ""


def _told_of_services(story: History) -> str:
    """What the breaker of a service heard of it."""
    told = list(story.facts.parts("services").items())[:MOST_NAMED]
    blamed = [repr(name) for name, calls in told if calls.whole("failed")]
    cleared = [repr(name) for name, calls in told if calls.whole("ok") and not calls.whole("failed")]
    parts = [f"it counts against service {' and '.join(blamed)}"] if blamed else []
    parts += [f"service {' and '.join(cleared)} did its part"] if cleared else []
    return f" [{'; '.join(parts)}]" if parts else ""


def _judged_by(reasons: Facts) -> str:
    rule, failure, limit = reasons.text("rule"), reasons.whole("failure"), reasons.whole("of")
    parts = [f"rule {rule}"] if rule else []
    if failure is not None and limit is not None:
        parts.append(f"failure {failure} of {limit}")
    if version := reasons.text("policies"):
        parts.append(f"policies {version}")
    return f" ({', '.join(parts)})" if parts else ""


def _delayed_by(reasons: Facts) -> str:
    hint = reasons.duration("hint")
    parts = [f"it was asked to wait at least {describe(hint)}"] if hint is not None else []
    if window := _moment(reasons.text("window")):
        parts.append(f"the policy's windows allow it from {stamp(window)} on")
    if backoff := reasons.text("backoff"):
        parts.append(f"the policy's backoff could not be used: {backoff}")
    return f" ({'; '.join(parts)})" if parts else ""


def _notes(reasons: Facts) -> str:
    notes = reasons.texts("notes")
    return f" (note: {'; '.join(' '.join(note.split()) for note in notes[:3])})" if notes else ""


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _after(story: History) -> str:
    seconds = story.facts.duration("seconds")
    return f" after {describe(seconds)}" if seconds is not None else ""


def _snoozed(story: History) -> str:
    delay = story.facts.duration("delay")
    wait = describe(delay) if delay is not None else "a while"
    if not story.is_settled:
        return f"it was put off for {wait} by {_who_and_why(story)}"
    if (misfit := story.reasons.whole("misfit")) is not None:
        count = f"misfit {misfit} of {story.reasons.whole('of')}"
        given_back = f"was not run, because its arguments are of another version of the task{_notes(story.reasons)}"
        return f"{story.attempt} {given_back}; a worker of that version may take it {wait} later ({count})"
    slow = f"was told to slow down ({story.event.code}{_words(story)})"
    what = "asked to run again" if story.event.code == "SNOOZED" else slow
    number, limit = story.reasons.whole("snooze"), story.reasons.whole("of")
    count = f" (wait {number} of {limit})" if number is not None and limit is not None else ""
    return f"{story.attempt} {what}: it waits {wait}, and no attempt is used up{count}{_told_of_services(story)}"


def _released(story: History) -> str:
    for word, what in (("loss", "lost its worker, which went silent"), ("crash", "ended because its process died")):
        count, limit = story.reasons.whole(word), story.reasons.whole("of")
        if count is not None:
            of = f" ({word} {count} of {limit})" if limit is not None else ""
            return f"{story.attempt} {what}{of}; the job went back to its queue, and no attempt is used up"
    why = story.reasons.text("why")
    said = "because its worker was stopped" if why == "shutdown" else f"({why})" if why else ""
    return f"{story.attempt} was handed back {said}".rstrip() + "; nothing is counted"


def _cancelled(story: History) -> str:
    reason = story.facts.text("reason")
    if not story.is_settled and reason and not story.event.actor:
        return f"it was cancelled, because {reason}"
    if not story.is_settled:
        return f"it was cancelled by {_who_and_why(story)}"
    if story.event.code:
        return f"{_failure(story)}; cancelling had been asked for, so the job was cancelled"
    return f"{story.attempt} was stopped{_after(story)} as asked, and the job was cancelled"


def _refused(story: History) -> str:
    decision = story.facts.text("decision")
    what = f"the outcome of {story.attempt}" + (f" ({decision})" if decision else "")
    return f"{what} came too late and was refused: its lease was another's by then"


# By hand


def _cancel_requested(story: History) -> str:
    return f"while {story.attempt} was running, cancelling was asked for by {_who_and_why(story)}"


def _retry_requested(story: History) -> str:
    redrive = story.facts.text("redrive")
    part = f", as part of redrive {redrive}" if redrive else ""
    return f"a retry with all counters at zero was asked for by {_who_and_why(story)}{part}"


def _run_requested(story: History) -> str:
    return f"a run at once, the counters as they were, was asked for by {_who_and_why(story)}"


def _who_and_why(story: History) -> str:
    reason = story.facts.text("reason")
    return (story.event.actor or "somebody") + (f", who said {quoted(reason)}" if reason else "")


TELLERS: dict[str, Callable[[History], str]] = {
    "job.enqueued": _enqueued,
    "job.queued": _queued,
    "job.parked": _parked,
    "job.started": _started,
    "job.succeeded": _succeeded,
    "job.retried": _retried,
    "job.failed": _failed,
    "job.snoozed": _snoozed,
    "job.released": _released,
    "job.cancelled": _cancelled,
    "job.cancel_requested": _cancel_requested,
    "job.retry_requested": _retry_requested,
    "job.run_requested": _run_requested,
    "job.refused": _refused,
}
