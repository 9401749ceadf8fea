"""The state of a job, what comes next, and what a person can do about it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from mulligan.explain.actions import START_WORKER, change_service, moves_of, publish
from mulligan.explain.context import Context
from mulligan.explain.event_data import EventData
from mulligan.explain.explanation import Action, Hold, HoldCode, Part
from mulligan.explain.holds import describe_holds, duty_pause, waits_for_budget, waits_for_service
from mulligan.explain.reasons import reason_of, was_not_tried
from mulligan.explain.words import counted, end_sentence, listed, quoted, relative, worker_name
from mulligan.lifecycle import State
from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.duty import duty_of
from mulligan.records.job import ANOTHER_VERSION, MAX_LOSSES, Job
from mulligan.records.limit import LimitRecord, SpendingRecord, part_of
from mulligan.records.subscription import DELIVER_KIND
from mulligan.store.messages import WorkerRecord
from mulligan.values.duration import describe
from mulligan.values.text import with_detail

# Counting stops here.
MANY = 1_000

_WAITS = {
    "delay": (HoldCode.DELAY, "It was enqueued for later and waits"),
    "retry": (HoldCode.RETRY, "It waits for its next attempt"),
    "snooze": (HoldCode.SNOOZE, "It was snoozed and waits"),
    "rate limit": (HoldCode.RATE_LIMIT, "It was asked to slow down and waits"),
    ANOTHER_VERSION: (
        HoldCode.ANOTHER_VERSION,
        "It is unhandled: no worker that claimed it has a fitting version of its task. It waits",
    ),
    "service": (HoldCode.SERVICE_CHARGED, "Its last failure was charged to its service, and it waits"),
}


Sentences = list[str]
Parts = Sequence[Part]


def describe_next(job: Job[Any], context: Context) -> tuple[Part, ...]:
    """The job's state and what comes next; among it, what holds the job."""
    return tuple(_BY_STATE[job.state](job, context))


def possible_moves(job: Job[Any], context: Context) -> tuple[Action, ...]:
    return moves_of(job, is_stuck=is_stuck(job, context))


# Waiting


def _describe_waiting(job: Job[Any], context: Context) -> Parts:
    return [*_wait(job, context), *_attempts_left(job), *_deadline(job, context)]


def _wait(job: Job[Any], context: Context) -> Parts:
    if context.batch is not None and context.batch.state is BatchState.DRAFT:
        return [_draft(context.batch)]
    if job.waiting_for == "budget":
        return [_out_of_budget(job, context)]
    if job.waiting_for == "limit":
        return [*_no_slot(context, _holds(job, context)), *_no_worker(job, context)]
    if service := waits_for_service(job):
        return [service, *_holds(job, context), *_no_worker(job, context)]
    if job.due_at > context.now:
        then = f"Then it is queued, and attempt {job.attempt + 1} starts when a worker is free."
        paused = [*duty_pause(_duty(job), context), *_holds(job, context)]
        return [_not_due(job, context), *paused, then, *_no_worker(job, context)]
    budget = waits_for_budget(job, context.service)
    if waits := [budget] if budget else duty_pause(_duty(job), context):
        return [f"It was due at {context.at(job.due_at)}.", *waits, *_holds(job, context)]
    due = f"It was due at {context.at(job.due_at)}, and the next worker that asks for work promotes it."
    return [due, *_able_workers(job, context)]


def _not_due(job: Job[Any], context: Context) -> Hold:
    reason = job.waiting_for or ""
    other = f"It waits ({reason})" if reason else "It waits"
    code, words = _WAITS.get(reason, (HoldCode.WAITING, other))
    by = f"service/{job.service}" if code is HoldCode.SERVICE_CHARGED else None
    return Hold(code=code, sentence=f"{words} until {context.at(job.due_at)}.", by=by, until=job.due_at)


def _no_slot(context: Context, held: Parts) -> Parts:
    """Which limits are full and what else holds the job back; or that nothing does."""
    full = [_full(limit) for limit in context.limits if limit.taken >= limit.most]
    if full or held:
        return [*full, *held]
    return ["It waits for a slot of a limit, and one is free: the next worker that asks for work promotes it."]


def _full(limit: LimitRecord) -> Hold:
    slots = f"{limit.taken:,} of {limit.most:,} running or ready"
    return Hold(
        code=HoldCode.LIMIT,
        sentence=f"It waits for a slot: limit of {limit.what} {limit.name!r} reached: {slots}.",
        by=f"limit/{limit.what}/{limit.name}",
    )


def _out_of_budget(job: Job[Any], context: Context) -> Hold:
    until = f"It waits until {context.at(job.due_at)}, or until the budget is raised."
    first, *rest = _spent(job, context.spending)
    by = f"budget/owner/{job.owner}"
    return Hold(code=HoldCode.OWNER_BUDGET, sentence=first, notes=(*rest, until), by=by, until=job.due_at)


def _spent(job: Job[Any], spent: SpendingRecord | None) -> Sentences:
    if spent is None:
        return [f"The retries of owner {job.owner!r} were used up."]
    budget = spent.budget
    parts = (
        (spent.today, 1, budget.per_day, "today"),
        (spent.this_month, 1, budget.per_month, "this month"),
        (spent.cost_this_month, job.cost, budget.cost_per_month, "of cost this month"),
    )
    limited = [(used, used + more, most, when) for used, more, most, when in parts if most is not None]
    used = ", ".join(f"{number:,} of {most:,} {when}" for number, _, most, when in limited)
    is_kept = any(part_of(most, job.priority) < then <= most for _, then, most, _ in limited)
    kept = ["The rest is reserved for jobs of higher priority."] if is_kept else []
    return [f"The retries of owner {job.owner!r} are used up: {used}.", *kept]


def _draft(batch: BatchRecord) -> Hold:
    members = counted(batch.total, "member")
    return Hold(
        code=HoldCode.BATCH_DRAFT,
        sentence=f"Its batch {batch.name!r} is a draft of {members}: they run when it is published.",
        by=f"batch/{batch.id}",
        since=batch.created_at,
        actions=(publish(batch.id),),
    )


def _holds(job: Job[Any], context: Context) -> Parts:
    return describe_holds(job, context)


def _duty(job: Job[Any]) -> str:
    """The duty that promotes the job; a manual run depends on none."""
    return duty_of(job.waiting_for).name if job.trigger == "automatic" else ""


# Queued


def _describe_queued(job: Job[Any], context: Context) -> Parts:
    since = f" since {context.at(job.queued_at)}" if job.queued_at else ""
    position = f"It is in queue {job.queue!r}{since}; {_jobs_ahead(context.ahead)}."
    return [position, *_able_workers(job, context), *_attempts_left(job), *_deadline(job, context)]


def _jobs_ahead(ahead: int) -> str:
    if ahead == 0:
        return "no job of its kind is ahead of it"
    if ahead >= MANY:
        return f"{MANY:,} or more jobs of its kind are ahead of it"
    return f"{counted(ahead, 'job')} of its kind {'is' if ahead == 1 else 'are'} ahead of it"


def _able_workers(job: Job[Any], context: Context) -> Parts:
    """How many workers can claim it; or why none can."""
    if missing := [*_holds(job, context), *_no_worker(job, context)]:
        return missing
    able = [worker for worker in context.alive if _can_take(worker, job)]
    return [f"{counted(len(able), 'live worker')} can claim it."]


def _can_take(worker: WorkerRecord, job: Job[Any]) -> bool:
    return job.kind in worker.kinds and (worker.queues is None or job.queue in worker.queues)


def _no_worker(job: Job[Any], context: Context) -> Parts:
    """Why no worker will run it; nothing if one will."""
    alive = context.alive
    if not alive:
        return [_nothing_runs_it(HoldCode.NO_WORKER, "no worker is alive", _last_seen(context), START_WORKER)]
    knowing = [worker for worker in alive if job.kind in worker.kinds]
    if not knowing:
        why = f"no live worker knows kind {job.kind!r}"
        return [_nothing_runs_it(HoldCode.NO_WORKER_FOR_KIND, why, _known_kinds(context))]
    if not any(_can_take(worker, job) for worker in knowing):
        why = f"no live worker that knows it serves queue {job.queue!r}"
        return [_nothing_runs_it(HoldCode.NO_WORKER_FOR_QUEUE, why, _served_queues(knowing, context))]
    return []


def _nothing_runs_it(code: HoldCode, why: str, about_workers: str, *actions: Action) -> Hold:
    return Hold(code=code, sentence=f"Nothing will run it now: {why}{about_workers}.", actions=actions)


def _last_seen(context: Context) -> str:
    seen = max((worker.seen_at for worker in context.workers if worker.seen_at), default=None)
    return f" (the last was seen {relative(seen, context.now)})" if seen and not context.is_for_owner else ""


def _known_kinds(context: Context) -> str:
    if context.is_for_owner:
        return ""
    kinds = sorted({kind for worker in context.alive for kind in worker.kinds} - {DELIVER_KIND})
    here = "; this app has it, so start a worker of this app" if context.is_known else ""
    return f" (they know {listed(kinds)}){here}"


def _served_queues(workers: Sequence[WorkerRecord], context: Context) -> str:
    queues = sorted({queue for worker in workers for queue in worker.queues or ()})
    return "" if context.is_for_owner else f" ({listed(queues)})"


# Running


def _describe_running(job: Job[Any], context: Context) -> Parts:
    since = f" since {context.at(job.last_attempt_at)}" if job.last_attempt_at else ""
    where = f" on {worker_name(job.leased_by, context.workers)}" if job.leased_by else ""
    running = f"Attempt {job.attempt} runs{where}{since}."
    return [
        running,
        *_if_stuck(job, context),
        *_lease(job, context),
        *_progress(job),
        *_cancelling(job),
        _if_it_fails(job),
        *_deadline(job, context),
    ]


def is_stuck(job: Job[Any], context: Context) -> bool:
    limit = max(job.timeout or timedelta(0), context.stuck_after)
    return job.last_attempt_at is not None and job.last_attempt_at + limit < context.now


def _if_stuck(job: Job[Any], context: Context) -> Parts:
    if not is_stuck(job, context):
        return []
    limit = describe(max(job.timeout or timedelta(0), context.stuck_after))
    stuck = f"It is stuck: it has run for longer than {limit}, and its worker has not stopped it."
    return [Hold(code=HoldCode.STUCK, sentence=stuck, by=_holder(job), since=job.last_attempt_at)]


def _holder(job: Job[Any]) -> str | None:
    return f"worker/{job.leased_by}" if job.leased_by else None


def _lease(job: Job[Any], context: Context) -> Parts:
    if job.lease_until is None:
        return []
    if job.lease_until > context.now:
        return [f"Its lease lasts until {context.at(job.lease_until)} and is extended while its worker is alive."]
    words = f"Its lease expired at {context.at(job.lease_until)}: its worker sends no heartbeat."
    expired = Hold(code=HoldCode.LEASE_EXPIRED, sentence=words, by=_holder(job), since=job.lease_until)
    if paused := duty_pause("reclaim", context):
        return [expired, *paused]
    if job.at_most_once:
        only = "It runs at most once: the next worker that reclaims it settles it as failed if its code had begun"
        return [expired, f"{only}, and otherwise returns it to the queue."]
    loss = f"Another worker returns it to the queue; this is loss {job.losses + 1} of {MAX_LOSSES}"
    return [expired, f"{loss}, and at the limit it fails.", *_no_worker(job, context)]


def _progress(job: Job[Any]) -> Sentences:
    if not job.progress and not job.progress_text:
        return []
    text = f", {quoted(job.progress_text)}" if job.progress_text else ""
    return [end_sentence(f"It is {job.progress:.0%} done{text}")]


def _cancelling(job: Job[Any]) -> Sentences:
    if not job.cancel_requested:
        return []
    return ["Cancellation was requested: its worker stops it within seconds, unless it succeeds before that."]


def _if_it_fails(job: Job[Any]) -> str:
    left = _left(job) - 1
    if left <= 0:
        return "This is its last attempt: if it fails, the job fails."
    more = "1 more attempt is" if left == 1 else f"{left:,} more attempts are"
    return f"If it fails with a retryable error, {more} left."


# Ended


def _describe_succeeded(job: Job[Any], context: Context) -> Parts:
    when = f" at {context.at(job.finished_at)}" if job.finished_at else ""
    done = f"It succeeded{when} in attempt {job.attempt}. Nothing follows."
    if job.result_expired_at is None:
        return [done]
    return [done, f"Its result expired at {context.at(job.result_expired_at)}."]


def _describe_failed(job: Job[Any], context: Context) -> Parts:
    when = f" at {context.at(job.finished_at)}" if job.finished_at else ""
    said = with_detail(job.error_message, job.error_detail)
    message = f": {quoted(said)}" if said else ""
    event = context.last("job.failed")
    reasons = EventData(event.data if event else None).part("reasons")
    code, why = reason_of(reasons, job.error_code)
    look = (change_service("show", job.service, "To see its service"),) if was_not_tried(reasons) else ()
    failed = end_sentence(f"It failed{when} with {job.error_code or 'no code'}{message}")
    ended = f"No retry follows, because {why}."
    return [failed, Hold(code=code, sentence=ended, by=_ended_by(code, job), since=job.finished_at, actions=look)]


def _ended_by(code: HoldCode, job: Job[Any]) -> str | None:
    return {
        HoldCode.FAIL_FAST: f"service/{job.service}",
        HoldCode.BUDGET_EXHAUSTED: f"budget/owner/{job.owner}",
    }.get(code)


def _describe_cancelled(job: Job[Any], context: Context) -> Parts:
    when = f" at {context.at(job.finished_at)}" if job.finished_at else ""
    asked = context.last("job.cancelled", "job.cancel_requested")
    asked = asked if asked is None or asked.actor else context.last("job.cancel_requested")
    actor = f" by {asked.actor}" if asked and asked.actor else ""
    cancelled = Hold(
        code=HoldCode.CANCELLED,
        sentence=f"It was cancelled{actor}{when}. Nothing follows.",
        actor=asked.actor if asked else None,
        reason=EventData(asked.data).text("reason") or None if asked else None,
        since=job.finished_at,
    )
    return [cancelled, *_aborted(context)]


def _aborted(context: Context) -> Parts:
    batch = context.batch
    if batch is None or batch.aborted_at is None:
        return []
    failed = f"{batch.failed:,} of {counted(batch.total, 'member')} failed"
    aborted = f"Its batch {batch.name!r} was aborted at {context.at(batch.aborted_at)}: {failed}."
    return [Hold(code=HoldCode.BATCH_ABORTED, sentence=aborted, by=f"batch/{batch.id}", since=batch.aborted_at)]


# For all


def _left(job: Job[Any]) -> int:
    return max(job.max_attempts - job.failures, 0)


def _attempts_left(job: Job[Any]) -> Sentences:
    """The attempts left, and the last failure."""
    if not job.failures:
        return [*_last_failure(job), f"It has {counted(job.max_attempts, 'attempt')}."]
    failed = f"It has failed {counted(job.failures, 'time')} so far"
    # A manual run beyond its limit has one attempt.
    left = max(_left(job), 1)
    still = f"{counted(left, 'attempt')} of {job.max_attempts:,} {'is' if left == 1 else 'are'} left."
    return [*_last_failure(job), f"{failed}; {still}"]


def _last_failure(job: Job[Any]) -> Sentences:
    if job.last_code is None:
        return []
    said = with_detail(job.last_message, job.last_detail)
    return [end_sentence(f"Its last failure was {job.last_code}{f': {quoted(said)}' if said else ''}")]


def _deadline(job: Job[Any], context: Context) -> Sentences:
    if job.deadline is None:
        return []
    if job.deadline > context.now:
        return [f"Its deadline is {context.at(job.deadline)}: no attempt starts after that, and it fails."]
    if job.state is State.RUNNING:
        return [f"Its deadline passed at {context.at(job.deadline)}: this attempt may finish, but no other follows."]
    return [f"Its deadline passed at {context.at(job.deadline)}: it fails at the next run of the duty 'expire'."]


_BY_STATE: dict[State, Callable[[Job[Any], Context], Parts]] = {
    State.WAITING: _describe_waiting,
    State.QUEUED: _describe_queued,
    State.RUNNING: _describe_running,
    State.SUCCEEDED: _describe_succeeded,
    State.FAILED: _describe_failed,
    State.CANCELLED: _describe_cancelled,
}
