"""The sentence that opens the page of a job: why it is where it is, and what comes next. Fixed templates, by state and
by what holds the job, as `explain` says."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mulligan.explain import Explanation, Hold, HoldCode
from mulligan.lifecycle import State
from mulligan.records.job import Job
from mulligan.web.pages import words
from mulligan.web.pages.blocks import to_block
from mulligan.web.pages.gates import first_hold
from mulligan.web.pages.pieces import Pieces, ago, clock, countdown

Template = Callable[[Job[Any], Hold, datetime], tuple[str, Pieces]]


@dataclass(frozen=True, slots=True)
class Opening:
    """`sign` is the sign of its state and `word` the word beside it."""

    sign: str
    word: str
    title: str
    lead: Pieces


def open_page(explanation: Explanation, *, position: int | None, now: datetime) -> Opening:
    """`position` is the place of a queued job."""
    job, hold = explanation.job, first_hold(explanation)
    word = str(job.state).capitalize()
    match job.state:
        case State.WAITING | State.QUEUED if hold is not None:
            title, lead = _HELD.get(hold.code, _held_otherwise)(job, hold, now)
            is_time = hold.code in _TIMES
            return Opening(str(job.state) if is_time else "held", word if is_time else f"{word}, held", title, lead)
        case State.WAITING:
            return Opening("waiting", word, "It is due, and the next free worker takes it.", _due(job))
        case State.QUEUED:
            return Opening("queued", word, *_queued(job, position))
        case State.RUNNING if hold is not None:
            return Opening("stuck", f"{word}, stuck", *_HELD[hold.code](job, hold, now))
        case State.RUNNING:
            return Opening("running", word, *_running(job))
        case State.SUCCEEDED:
            return Opening("succeeded", word, *_succeeded(job))
        case State.FAILED:
            return Opening("failed", word, *_failed(job, explanation.holds))
        case State.CANCELLED:
            return Opening("cancelled", word, *_cancelled(explanation.holds))


# It goes on by itself


def _due(job: Job[Any]) -> Pieces:
    return ("It was due ", ago(job.due_at), f". {_attempt(job)} starts then.")


def _queued(job: Job[Any], position: int | None) -> tuple[str, Pieces]:
    since: Pieces = () if job.queued_at is None else ("It was queued ", ago(job.queued_at), ". ")
    place = "" if position is None else f" It is number {words.number(position)} of all queued jobs."
    return "It is ready, and the next free worker takes it.", (*since, f"{_attempt(job)} starts then.{place}")


def _running(job: Job[Any]) -> tuple[str, Pieces]:
    title = f"Attempt {job.attempt} is {'being stopped' if job.cancel_requested else 'running'}."
    started: Pieces = () if job.last_attempt_at is None else ("It started ", ago(job.last_attempt_at), ". ")
    if job.cancel_requested:
        return title, (*started, "Its worker stops it within seconds, unless it ends before that.")
    return title, (*started, _if_it_fails(job))


def _if_it_fails(job: Job[Any]) -> str:
    left = job.max_attempts - job.failures - 1
    if left <= 0:
        return "This is its last attempt: if it fails, the job fails."
    return (
        f"If it fails with a retryable error, {words.plural(left, 'more attempt')} {'is' if left == 1 else 'are'} left."
    )


def _attempt(job: Job[Any]) -> str:
    return f"Attempt {job.attempt + 1}"


# It is over


def _succeeded(job: Job[Any]) -> tuple[str, Pieces]:
    first = "It succeeded at the first attempt."
    title = first if job.attempt <= 1 else f"It succeeded in attempt {job.attempt}."
    when: Pieces = (
        () if job.finished_at is None else ("That was ", ago(job.finished_at), ", at ", clock(job.finished_at))
    )
    failures = f", after {words.plural(job.failures, 'failure')}" if job.failures else ""
    return title, (*when, f"{failures}. Nothing follows.")


def _failed(job: Job[Any], holds: tuple[Hold, ...]) -> tuple[str, Pieces]:
    code = job.error_code or "no code"
    if job.attempt == 0:
        title = f"It failed with {code} and never ran."
    elif job.failures > 1:
        title = f"It failed with {code} after {words.plural(job.failures, 'failed attempt')}."
    else:
        title = f"It failed with {code}."
    when: Pieces = (
        () if job.finished_at is None else ("That was ", ago(job.finished_at), ", at ", clock(job.finished_at), ". ")
    )
    return title, (*when, *(hold.sentence for hold in holds[:1]))


def _cancelled(holds: tuple[Hold, ...]) -> tuple[str, Pieces]:
    hold = next(iter(holds), None)
    by = f" by {hold.actor}" if hold and hold.actor else ""
    when: Pieces = (
        () if hold is None or hold.since is None else ("That was ", ago(hold.since), ", at ", clock(hold.since), ". ")
    )
    reason = f"The reason given: {hold.reason}. " if hold and hold.reason else ""
    aborted = "".join(f"{each.sentence} " for each in holds if each.code is HoldCode.BATCH_ABORTED)
    return f"It was cancelled{by}.", (*when, f"{reason}{aborted}Nothing follows by itself.")


# It waits for a time


def _retry(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    failed = f"after {job.last_code}" if job.last_code else "after a failure"
    left = max(job.max_attempts - job.failures, 1)
    are = "is" if left == 1 else "are"
    tail = f" {words.plural(left, 'attempt')} of {job.max_attempts} {are} left."
    return f"It waits for attempt {job.attempt + 1} {failed}.", (*_until(hold, "It is due"), tail)


def _delay(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    return "It was enqueued for later.", (*_until(hold, "It is due"), f" {_attempt(job)} starts when a worker is free.")


def _snooze(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    return "It was snoozed.", (*_until(hold, "It goes on"), " No attempt is used up.")


def _rate_limit(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    return "It was asked to slow down.", (*_until(hold, "It goes on"), " No attempt is used up.")


def _another_version(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    tail = " A worker of the version that enqueued it can run it."
    return "No worker has a fitting version of its task.", (*_until(hold, "It is offered again"), tail)


def _waiting(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    return "It waits.", _until(hold, "It is due")


def _until(hold: Hold, what: str) -> Pieces:
    return (
        (f"{what} later.",)
        if hold.until is None
        else (f"{what} in ", countdown(hold.until), ", at ", clock(hold.until), ".")
    )


# Something holds it


def _paused(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:
    what, name = (hold.by or "pause/job/").split("/", 2)[1:]
    subject = {"retry": "retries are", "promote": "promoting delayed jobs is", "reclaim": "reclaiming leases is"}
    paused = subject.get(name, f"{name} is") if what == "duty" else f"{what} {name} is"
    until: Pieces = (" It goes on when the pause is ended.",)
    if hold.until is not None and hold.until > now:
        until = (" The pause ends in ", countdown(hold.until), ", at ", clock(hold.until), ".")
    return f"It waits: {paused} paused.", (*_who(hold, "Paused"), *until, _unused(job))


def _who(hold: Hold, what: str) -> Pieces:
    by = f" by {hold.actor}" if hold.actor else ""
    since: Pieces = () if hold.since is None else (" since ", clock(hold.since))
    reason = f": {hold.reason}" if hold.reason else ""
    return (f"{what}{by}", *since, f"{reason}.")


def _unused(job: Job[Any]) -> str:  # noqa: ARG001
    return " No attempt is used up meanwhile."


def _open(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:
    since = f", which has been down since {_short(hold.since, now)}" if hold.since else ", which is down"
    answer = f"{_attempt(job)} starts when the service answers a probe."
    probe: Pieces = (" The next probe is due now.",)
    if hold.until is not None and hold.until > now:
        probe = (" The next probe is in ", countdown(hold.until), ", at ", clock(hold.until), ".")
    return f"It waits for service {job.service}{since}.", (answer, *probe, *_fails_fast(hold))


def _short(moment: datetime, now: datetime) -> str:
    """`14:05`, with the day if it is another one."""
    text = words.clock_time(moment, now)
    return text if " " in text else text[:5]


def _fails_fast(hold: Hold) -> Pieces:
    """Jobs of a service that fails fast do not wait."""
    return (f" {hold.notes[0]}",) if hold.notes else (" No attempt is used up meanwhile.",)


def _forced(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    title = f"It waits for service {job.service}, which was opened manually."
    return title, (*_who(hold, "Opened"), " It stays open until a person closes it.", *_fails_fast(hold))


def _half_open(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    title = f"It waits while service {job.service} is being probed."
    return title, ("The other jobs of the service wait until its probes succeed.", _unused(job))


def _charged(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    title = f"It waits for service {job.service}, which failed its last call."
    tail: Pieces = (" It is tried again when the service is closed.",)
    if hold.until is not None:
        tail = (" ", *_until(hold, "It is due"))
    return title, ("The failure was charged to the service: no attempt was used up.", *tail)


def _service_budget(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    return f"It waits for the retry budget of service {to_block(hold.by or '').name}.", (hold.sentence,)


def _owner_budget(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    until = () if hold.until is None else (" It goes on in ", countdown(hold.until), ", or when the budget is raised.")
    return f"The retries of owner {job.owner} are used up.", (hold.sentence, *until)


def _limit(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    what, name = (hold.by or "limit/it/").split("/", 2)[1:]
    return f"It waits for a slot of {what} {name}.", (hold.sentence.partition(": ")[2].capitalize(), _unused(job))


def _draft(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    return "It waits until its batch is published.", (hold.sentence,)


def _no_worker(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    title = {
        HoldCode.NO_WORKER: "No worker is alive to run it.",
        HoldCode.NO_WORKER_FOR_KIND: f"No live worker knows kind {job.kind}.",
        HoldCode.NO_WORKER_FOR_QUEUE: f"No live worker that knows it serves queue {job.queue}.",
    }[hold.code]
    return title, ("It starts when there is such a worker.",)


def _stuck(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    since: Pieces = () if hold.since is None else ("It started ", ago(hold.since), ". ")
    said = "Its worker has not stopped it. A retry takes it from its worker first."
    return f"Attempt {job.attempt} is stuck.", (*since, said)


def _lease_expired(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    since: Pieces = () if hold.since is None else ("Its lease expired ", ago(hold.since), ". ")
    said = "Another worker returns it to the queue."
    if job.at_most_once:
        said = "It runs at most once: it fails if its code had begun, and otherwise returns to the queue."
    return f"The worker of attempt {job.attempt} sends no heartbeat.", (*since, said)


def _held_otherwise(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:  # noqa: ARG001
    return "It waits.", (hold.sentence,)


_TIMES: dict[HoldCode, Template] = {
    HoldCode.DELAY: _delay,
    HoldCode.RETRY: _retry,
    HoldCode.SNOOZE: _snooze,
    HoldCode.RATE_LIMIT: _rate_limit,
    HoldCode.ANOTHER_VERSION: _another_version,
    HoldCode.WAITING: _waiting,
}
_HELD: dict[HoldCode, Template] = {
    **_TIMES,
    HoldCode.PAUSED: _paused,
    HoldCode.SERVICE_OPEN: _open,
    HoldCode.SERVICE_FORCED_OPEN: _forced,
    HoldCode.SERVICE_HALF_OPEN: _half_open,
    HoldCode.SERVICE_CHARGED: _charged,
    HoldCode.SERVICE_BUDGET: _service_budget,
    HoldCode.OWNER_BUDGET: _owner_budget,
    HoldCode.LIMIT: _limit,
    HoldCode.BATCH_DRAFT: _draft,
    HoldCode.NO_WORKER: _no_worker,
    HoldCode.NO_WORKER_FOR_KIND: _no_worker,
    HoldCode.NO_WORKER_FOR_QUEUE: _no_worker,
    HoldCode.STUCK: _stuck,
    HoldCode.LEASE_EXPIRED: _lease_expired,
}


def find_useless(explanation: Explanation, hold: Hold | None, now: datetime) -> str:
    """Why running the job now would not help; empty if it would, or is not possible."""
    if hold is None or hold.code in _TIMES or not any(action.code == "run-now" for action in explanation.actions):
        return ""
    job = explanation.job
    if job.state is not State.WAITING:
        return ""
    title, _ = _HELD.get(hold.code, _held_otherwise)(job, hold, now)
    return f"Run now would not help. {title}"
