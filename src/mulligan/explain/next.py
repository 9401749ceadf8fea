"""Where a job stands, what comes next, and what a person can do about it."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mulligan.explain.event_data import Facts
from mulligan.explain.holds import held, waits_for_budget, waits_for_service
from mulligan.explain.reasons import because, was_not_tried
from mulligan.explain.words import at, counted, ended, listed, quoted, relative, worker_name
from mulligan.lifecycle import Move, State, possible_verbs
from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.duty import duty_of
from mulligan.records.event import Event
from mulligan.records.job import ANOTHER_VERSION, MAX_LOSSES, Job
from mulligan.records.limit import LimitRecord, SpendingRecord, part_of
from mulligan.records.pause import Pause
from mulligan.service.records import ServiceStatus
from mulligan.store.messages import WorkerRecord
from mulligan.values.duration import describe
from mulligan.values.text import with_detail

# A worker that was silent for longer is not counted on.
ALIVE = timedelta(seconds=60)
# Counting stops here.
MANY = 1_000

_WAITS = {
    "delay": "It was enqueued for later and waits",
    "retry": "It waits for its next try",
    "snooze": "It was put off and waits",
    "rate limit": "It was asked to slow down and waits",
    ANOTHER_VERSION: "It is unhandled: no worker that took it has the version of its task that fits. It waits",
    "service": "Its last failure was charged to its service, and it waits",
}
_PAUSED = {
    "retry": "Retries are paused",
    "promote": "Letting in delayed jobs is paused",
    "reclaim": "Taking leases back is paused",
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known besides the job itself."""

    events: Sequence[Event]
    workers: Sequence[WorkerRecord]
    now: datetime
    ahead: int
    is_known: bool
    pauses: Sequence[Pause] = ()
    stuck_after: timedelta = timedelta(minutes=30)
    batch: BatchRecord | None = None
    service: ServiceStatus | None = None
    """The job's."""
    limits: Sequence[LimitRecord] = ()
    """Those that concern the job."""
    spending: SpendingRecord | None = None
    """What the job's owner has spent of his retries."""

    @property
    def alive(self) -> list[WorkerRecord]:
        return [worker for worker in self.workers if is_alive(worker, self.now)]

    def at(self, moment: datetime) -> str:
        return at(moment, self.now)

    def pause_of(self, duty: str) -> Pause | None:
        return next((pause for pause in self.pauses if (pause.what, pause.name) == ("duty", duty)), None)

    def last(self, *types: str) -> Event | None:
        return next((event for event in reversed(self.events) if event.type in types), None)


Told = list[str]


def is_alive(worker: WorkerRecord, now: datetime) -> bool:
    return worker.seen_at is not None and now - worker.seen_at <= ALIVE


def follows(job: Job[Any], around: Surroundings) -> tuple[str, ...]:
    return (*_BY_STATE[job.state](job, around), *_what_can_be_done(job, around))


# Waiting


def _waiting(job: Job[Any], around: Surroundings) -> Told:
    if around.batch is not None and around.batch.state is BatchState.DRAFT:
        return [*_draft(around.batch), *_attempts_left(job), *_deadline(job, around)]
    if job.waiting_for == "budget":
        return [*_out_of_budget(job, around), *_attempts_left(job), *_deadline(job, around)]
    if job.waiting_for == "limit":
        waits = _no_place(around, _held(job, around))
        return [*waits, *_no_worker(job, around), *_attempts_left(job), *_deadline(job, around)]
    if service := waits_for_service(job):
        held_back = [*_held(job, around), *_no_worker(job, around)]
        return [service, *held_back, *_attempts_left(job), *_deadline(job, around)]
    if job.due_at > around.now:
        until = f"{_waits(job)} until {around.at(job.due_at)}."
        then = f"Then it is queued, and attempt {job.attempt + 1} starts when a worker is free."
        paused = [*_paused(_duty(job), around), *_held(job, around)]
        return [until, *paused, then, *_no_worker(job, around), *_attempts_left(job), *_deadline(job, around)]
    budget = waits_for_budget(job, around.service)
    if waits := [budget] if budget else _paused(_duty(job), around):
        due = f"It was due at {around.at(job.due_at)}."
        return [due, *waits, *_held(job, around), *_attempts_left(job), *_deadline(job, around)]
    due = f"It was due at {around.at(job.due_at)}, and the next worker that asks for work lets it in."
    return [due, *_takers(job, around), *_attempts_left(job), *_deadline(job, around)]


def _no_place(around: Surroundings, held: Told) -> Told:
    """Which limits are full and what else holds it back; or that nothing does."""
    full = [
        f"It waits for a place: limit of {limit.what} {limit.name!r} reached: "
        f"{limit.taken:,} of {limit.most:,} running or ready."
        for limit in around.limits
        if limit.taken >= limit.most
    ]
    if full or held:
        return [*full, *held]
    return ["It waits for a place under a limit, and there is one: the next worker that asks for work lets it in."]


def _out_of_budget(job: Job[Any], around: Surroundings) -> Told:
    until = f"It waits until {around.at(job.due_at)}, or until there is more to spend."
    spent = around.spending
    if spent is None:
        return [f"The retries of owner {job.owner!r} were used up.", until]
    budget = spent.budget
    parts = (
        (spent.today, 1, budget.per_day, "today"),
        (spent.this_month, 1, budget.per_month, "this month"),
        (spent.cost_this_month, job.cost, budget.cost_per_month, "of cost this month"),
    )
    limited = [(used, used + more, most, when) for used, more, most, when in parts if most is not None]
    used = ", ".join(f"{number:,} of {most:,} {when}" for number, _, most, when in limited)
    is_kept = any(part_of(most, job.priority) < then <= most for _, then, most, _ in limited)
    kept = ["The last part is kept for jobs of higher priority."] if is_kept else []
    return [f"The retries of owner {job.owner!r} are used up: {used}.", *kept, until]


def _draft(batch: BatchRecord) -> Told:
    return [
        f"Its batch {batch.name!r} is a draft of {counted(batch.total, 'member')}: they run when that is published.",
        f"To publish it: mulligan batches publish {batch.id}",
    ]


def _held(job: Job[Any], around: Surroundings) -> Told:
    return held(job, pauses=around.pauses, service=around.service, at=around.at)


def _duty(job: Job[Any]) -> str:
    """Which duty is to let it in; what was asked for by hand depends on none."""
    return duty_of(job.waiting_for).name if job.trigger == "automatic" else ""


def _paused(duty: str, around: Surroundings) -> Told:
    pause = around.pause_of(duty)
    if pause is None:
        return []
    until = f" until {around.at(pause.until)}" if pause.until else ""
    who = f" by {pause.actor}" if pause.actor else ""
    why = f" because {quoted(pause.reason)}" if pause.reason else ""
    return [ended(f"{_PAUSED[duty]}{until}{who}{why}"), f"To go on before: mulligan duties resume {duty}"]


def _waits(job: Job[Any]) -> str:
    reason = job.waiting_for or ""
    return _WAITS.get(reason) or f"It waits{f' ({reason})' if reason else ''}"


# Queued


def _queued(job: Job[Any], around: Surroundings) -> Told:
    since = f" since {around.at(job.queued_at)}" if job.queued_at else ""
    place = f"It stands in queue {job.queue!r}{since}; {_before(around.ahead)}."
    return [place, *_takers(job, around), *_attempts_left(job), *_deadline(job, around)]


def _before(ahead: int) -> str:
    if ahead == 0:
        return "no job of its kind comes before it"
    if ahead >= MANY:
        return f"{MANY:,} jobs of its kind or more come before it"
    return f"{counted(ahead, 'job')} of its kind {'comes' if ahead == 1 else 'come'} before it"


def _takers(job: Job[Any], around: Surroundings) -> Told:
    """Who can take it; or plainly, that nobody can, or that it is held back."""
    if missing := [*_held(job, around), *_no_worker(job, around)]:
        return missing
    able = [worker for worker in around.alive if _can_take(worker, job)]
    return [f"{counted(len(able), 'live worker')} can take it."]


def _can_take(worker: WorkerRecord, job: Job[Any]) -> bool:
    return job.kind in worker.kinds and (worker.queues is None or job.queue in worker.queues)


def _no_worker(job: Job[Any], around: Surroundings) -> Told:
    """Why nobody will run it; nothing when somebody will."""
    alive = around.alive
    start = "start one with: mulligan worker MODULE:APP"
    if not alive:
        return [f"Nothing will run it now: no worker is alive{_last_seen(around)}; {start}"]
    knowing = [worker for worker in alive if job.kind in worker.kinds]
    if not knowing:
        kinds = sorted({kind for worker in alive for kind in worker.kinds})
        here = "; the app asked here has it, so start a worker of this app" if around.is_known else ""
        return [f"Nothing will run it now: no live worker knows kind {job.kind!r} (they know {listed(kinds)}){here}."]
    if not any(_can_take(worker, job) for worker in knowing):
        queues = sorted({queue for worker in knowing for queue in worker.queues or ()})
        return [f"Nothing will run it now: no live worker that knows it serves queue {job.queue!r} ({listed(queues)})."]
    return []


def _last_seen(around: Surroundings) -> str:
    seen = max((worker.seen_at for worker in around.workers if worker.seen_at), default=None)
    return f" (the last was seen {relative(seen, around.now)})" if seen else ""


# Running


def _running(job: Job[Any], around: Surroundings) -> Told:
    since = f" since {around.at(job.last_attempt_at)}" if job.last_attempt_at else ""
    where = f" on {worker_name(job.leased_by, around.workers)}" if job.leased_by else ""
    running = f"Attempt {job.attempt} runs{where}{since}."
    return [
        running,
        *_stuck(job, around),
        *_lease(job, around),
        *_progress(job),
        *_cancelling(job),
        _if_it_fails(job),
        *_deadline(job, around),
    ]


def is_stuck(job: Job[Any], around: Surroundings) -> bool:
    limit = max(job.timeout or timedelta(0), around.stuck_after)
    return job.last_attempt_at is not None and job.last_attempt_at + limit < around.now


def _stuck(job: Job[Any], around: Surroundings) -> Told:
    if not is_stuck(job, around):
        return []
    limit = describe(max(job.timeout or timedelta(0), around.stuck_after))
    return [f"It is stuck: it runs for longer than {limit}, and its worker has not ended it."]


def _lease(job: Job[Any], around: Surroundings) -> Told:
    if job.lease_until is None:
        return []
    if job.lease_until > around.now:
        return [f"Its lease lasts until {around.at(job.lease_until)} and is extended while its worker is alive."]
    expired = f"Its lease ran out at {around.at(job.lease_until)}: its worker has gone silent."
    if paused := _paused("reclaim", around):
        return [expired, *paused]
    if job.at_most_once:
        only = "It runs at most once: the next worker that looks settles it as failed if its code had begun"
        return [expired, f"{only}, and else takes it back to the queue."]
    taken = f"Another worker takes it back to the queue, where this is loss {job.losses + 1} of {MAX_LOSSES}"
    return [expired, f"{taken}; at that limit it fails.", *_no_worker(job, around)]


def _progress(job: Job[Any]) -> Told:
    if not job.progress and not job.progress_text:
        return []
    text = f", {quoted(job.progress_text)}" if job.progress_text else ""
    return [ended(f"It is {job.progress:.0%} done{text}")]


def _cancelling(job: Job[Any]) -> Told:
    if not job.cancel_requested:
        return []
    return ["Cancelling was asked for: its worker stops it within seconds, unless it succeeds before that."]


def _if_it_fails(job: Job[Any]) -> str:
    left = _left(job) - 1
    if left <= 0:
        return "This is its last attempt: if it fails, the job fails."
    more = "1 more attempt is" if left == 1 else f"{left:,} more attempts are"
    return f"If it fails in a way that may pass, {more} left."


# Ended


def _succeeded(job: Job[Any], around: Surroundings) -> Told:
    when = f" at {around.at(job.finished_at)}" if job.finished_at else ""
    return [f"It succeeded{when} in attempt {job.attempt}. Nothing follows."]


def _failed(job: Job[Any], around: Surroundings) -> Told:
    when = f" at {around.at(job.finished_at)}" if job.finished_at else ""
    said = with_detail(job.error_message, job.error_detail)
    message = f": {quoted(said)}" if said else ""
    event = around.last("job.failed")
    reasons = Facts(event.data if event else None).part("reasons")
    service = shlex.quote(job.service)
    return [
        ended(f"It failed{when} with {job.error_code or 'no code'}{message}"),
        f"No retry follows, because {because(reasons, job.error_code)}.",
        *([f"How its service stands now: mulligan services show {service}"] if was_not_tried(reasons) else []),
    ]


def _cancelled(job: Job[Any], around: Surroundings) -> Told:
    when = f" at {around.at(job.finished_at)}" if job.finished_at else ""
    asked = around.last("job.cancelled", "job.cancel_requested")
    asked = asked if asked is None or asked.actor else around.last("job.cancel_requested")
    actor = f" by {asked.actor}" if asked and asked.actor else ""
    return [f"It was cancelled{actor}{when}. Nothing follows.", *_aborted(around)]


def _aborted(around: Surroundings) -> Told:
    batch = around.batch
    if batch is None or batch.aborted_at is None:
        return []
    failed = f"{batch.failed:,} of {counted(batch.total, 'member')} failed"
    return [f"Its batch {batch.name!r} was aborted at {around.at(batch.aborted_at)}: {failed}."]


# For all


def _left(job: Job[Any]) -> int:
    return max(job.max_attempts - job.failures, 0)


def _attempts_left(job: Job[Any]) -> Told:
    """And what failed last."""
    if not job.failures:
        return [*_last_failure(job), f"It may be tried {counted(job.max_attempts, 'time')}."]
    failed = f"It failed {counted(job.failures, 'time')} so far"
    # Run by hand beyond its limit: it has this one try.
    left = max(_left(job), 1)
    still = f"{counted(left, 'attempt')} of {job.max_attempts:,} {'is' if left == 1 else 'are'} left."
    return [*_last_failure(job), f"{failed}; {still}"]


def _last_failure(job: Job[Any]) -> Told:
    if job.last_code is None:
        return []
    said = with_detail(job.last_message, job.last_detail)
    return [ended(f"Its last failure was {job.last_code}{f': {quoted(said)}' if said else ''}")]


def _deadline(job: Job[Any], around: Surroundings) -> Told:
    if job.deadline is None:
        return []
    if job.deadline > around.now:
        return [f"Its deadline is {around.at(job.deadline)}: no try begins after that, and it fails."]
    if job.state is State.RUNNING:
        return [f"Its deadline passed at {around.at(job.deadline)}: this attempt may finish, but no other follows."]
    return [f"Its deadline passed at {around.at(job.deadline)}: it fails at the next upkeep of any worker."]


_OFFERS = {
    Move.RETRY_BY_HAND: "to start it again with all counters at zero: mulligan jobs retry {id}",
    Move.RUN_NOW: "to run it now, the counters as they are: mulligan jobs run-now {id}",
    Move.CANCEL_BY_HAND: "to stop it: mulligan jobs cancel {id}",
    Move.SNOOZE_BY_HAND: "to put it off: mulligan jobs snooze {id} 1h",
}


_OFFERS_IF_STUCK = [
    "to take it from its worker and start it again: mulligan jobs retry {id}",
    "to settle all stuck jobs as timed out: mulligan jobs process-stuck",
]


def _what_can_be_done(job: Job[Any], around: Surroundings) -> Told:
    possible = possible_verbs(job.state)
    offers = [offer for move, offer in _OFFERS.items() if move.verb in possible]
    if job.state is State.RUNNING and is_stuck(job, around):
        offers = [*_OFFERS_IF_STUCK, *offers]
    return [offer[0].upper() + offer[1:].format(id=job.id) for offer in offers]


_BY_STATE: dict[State, Callable[[Job[Any], Surroundings], Told]] = {
    State.WAITING: _waiting,
    State.QUEUED: _queued,
    State.RUNNING: _running,
    State.SUCCEEDED: _succeeded,
    State.FAILED: _failed,
    State.CANCELLED: _cancelled,
}
