"""What happened to a job: its events as a story. An attempt is one item, with its verdict, the decision about it, and
the reasons of the decision in words."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from mulligan.explain.event_data import EventData
from mulligan.explain.history import describe_event
from mulligan.explain.reasons import describe_reason, was_not_tried
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.store.messages import WorkerRecord
from mulligan.web.pages import strokes, words
from mulligan.web.pages.strokes import Stroke

# Items that are shown: the first ones, and the newest.
FIRST_ITEMS, LAST_ITEMS = 10, 60
# Characters of tracebacks in one page; each is shown once.
MOST_DETAIL, LONGEST_DETAIL = 40_000, 12_000
MOST_CALLS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of the story. `gap` stands before it: what passed since the item before."""

    at: datetime
    position: int
    sign: str
    tone: str
    title: str
    is_minor: bool = False
    attempt: int = 0
    end: datetime | None = None
    stroke: Stroke | None = None
    meta: str = ""
    verdict: str = ""
    decision: str = ""
    because: str = ""
    by: str = ""
    reasons: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    error: str = ""
    detail: str = ""
    is_cut: bool = False
    same_as: int | None = None
    gap: str = ""
    is_hold: bool = False

    @property
    def ran(self) -> timedelta | None:
        return None if self.end is None or not self.attempt else self.end - self.at


@dataclass(slots=True)
class Story:
    """The items, and how many in the middle are left out."""

    items: list[Item]
    left_out: int = 0
    attempts: list[Item] = field(default_factory=list)


def tell(
    job: Job[Any], events: Sequence[Event], *, workers: Sequence[WorkerRecord] = (), is_for_owner: bool = False
) -> Story:
    items = list(_items(job, events, workers, is_for_owner=is_for_owner))
    attempts = [item for item in items if item.attempt]
    left_out = max(0, len(items) - FIRST_ITEMS - LAST_ITEMS)
    shown = items[:FIRST_ITEMS] + items[FIRST_ITEMS + left_out :]
    return Story(_say_once(_limit_details(shown)), left_out, attempts)


def _items(
    job: Job[Any], events: Iterable[Event], workers: Sequence[WorkerRecord], *, is_for_owner: bool
) -> Iterable[Item]:
    started: Event | None = None
    gap = ""
    previous: Event | None = None
    for event in events:
        if event.type == "job.started":
            started = event
        elif event.type == "job.queued":
            gap = _until_due(previous, event)
        else:
            item = _item(job, event, started, workers, is_for_owner=is_for_owner)
            yield replace(item, gap=gap)
            gap, started = "", None if item.attempt else started
        previous = event
    if started is not None:
        yield replace(_running(started, workers), gap=gap)


def _until_due(previous: Event | None, event: Event) -> str:
    if previous is None or (event.at - previous.at) < timedelta(seconds=1):
        return ""
    return f"{words.duration(event.at - previous.at)} until it was queued"


def _item(
    job: Job[Any],
    event: Event,
    started: Event | None,
    workers: Sequence[WorkerRecord],
    *,
    is_for_owner: bool,
) -> Item:
    facts = EventData(event.data)
    # A worker settled it, or in its place another worker or a person.
    if ("by" in facts or "worker" in facts) and (settle := _ENDS.get(event.type)):
        return settle(_attempt(event, started, workers), event, facts)
    if tell_it := _MOVES.get(event.type):
        return tell_it(event, facts, job)
    return _plain(event, describe_event(event, job, workers, is_for_owner=is_for_owner))


def _plain(event: Event, sentence: str, sign: str = "in", tone: str = "queued") -> Item:
    return Item(at=event.at, position=event.position, sign=sign, tone=tone, title=sentence, is_minor=True)


# Attempts


def _attempt(event: Event, started: Event | None, workers: Sequence[WorkerRecord]) -> Item:
    """What every attempt has, however it ended."""
    facts = EventData(event.data)
    seconds = facts.duration("seconds")
    at = started.at if started is not None else event.at - (seconds or timedelta(0))
    return Item(
        at=at,
        position=event.position,
        sign="failed",
        tone="failed",
        title=f"Attempt {event.attempt}",
        attempt=event.attempt,
        end=event.at,
        meta=_where(EventData(started.data) if started else facts, workers),
        verdict=facts.text("message"),
        error=facts.text("error"),
        detail=facts.text("detail"),
        calls=_calls(event),
        reasons=_reasons(facts.part("reasons")),
    )


def _running(started: Event, workers: Sequence[WorkerRecord]) -> Item:
    return Item(
        at=started.at,
        position=started.position,
        sign="running",
        tone="running",
        title=f"Attempt {started.attempt} is running",
        attempt=started.attempt,
        stroke=strokes.RUNNING,
        meta=_where(EventData(started.data), workers),
    )


def _where(facts: EventData, workers: Sequence[WorkerRecord]) -> str:
    worker, version = facts.text("worker"), facts.text("version")
    parts = [f"on {_worker(worker, workers)}"] if worker else []
    parts += [f"version {version}"] if version else []
    parts += ["started manually"] if facts.text("trigger") == "manual" else []
    return ", ".join(parts)


def _worker(incarnation: str, workers: Sequence[WorkerRecord]) -> str:
    """Its host, if it is known; otherwise a part of its id."""
    found = next((worker for worker in workers if worker.incarnation == incarnation), None)
    return found.host if found else f"worker {words.short_id(incarnation)}"


def _calls(event: Event) -> tuple[str, ...]:
    """The calls of services that the attempt reported."""
    facts = EventData(event.data)
    listed = event.data.get("calls") if isinstance(event.data, Mapping) else None
    calls = listed if isinstance(listed, list) else []
    said = [_call(call) for call in calls[:MOST_CALLS]]
    more = len(calls) - len(said) + (facts.integer("more_calls") or 0)
    return (*said, words.plural(more, "more call")) if more else tuple(said)


def _call(call: Any) -> str:
    facts = EventData(call)
    status, took = facts.integer("status"), facts.duration("seconds")
    answer = "answered" if isinstance(call, Mapping) and call.get("ok") else "failed"
    with_status = f" with {status}" if status is not None else ""
    return f"{facts.text('service')} {answer}{with_status}{f' in {words.duration(took)}' if took is not None else ''}"


def _reasons(reasons: EventData) -> tuple[str, ...]:
    hint, window = reasons.duration("hint"), reasons.text("window")
    parts = [f"it was asked to wait at least {words.duration(hint)}"] if hint is not None else []
    parts += [f"its windows allow it from {window} on"] if window else []
    parts += [f"the backoff of the policy could not be used: {reasons.text('backoff')}"] if "backoff" in reasons else []
    parts += [f"rule {reasons.text('rule')}"] if reasons.text("rule") else []
    parts += [f"policies {reasons.text('policies')}"] if reasons.text("policies") else []
    return (*parts, *reasons.texts("notes")[:3])


def _code(event: Event) -> str:
    return f" with {event.code}" if event.code else ""


def _later(facts: EventData) -> str:
    delay = facts.duration("delay")
    return "at once" if delay is not None and not delay else f"after {words.duration(delay)}" if delay else "later"


def _end_succeeded(item: Item, event: Event, facts: EventData) -> Item:  # noqa: ARG001
    title = f"Attempt {event.attempt} succeeded"
    return replace(item, sign="succeeded", tone="succeeded", title=title, stroke=strokes.SUCCEEDED, reasons=())


def _end_retried(item: Item, event: Event, facts: EventData) -> Item:
    return replace(
        item,
        title=f"Attempt {event.attempt} failed{_code(event)}",
        stroke=strokes.FAILED,
        decision=f"Retried {_later(facts)}.",
        because=_why_retried(event, facts),
        by="waiting",
    )


def _why_retried(event: Event, facts: EventData) -> str:
    reasons = facts.part("reasons")
    number, limit = reasons.integer("failure"), reasons.integer("of")
    counted = f"this was failure {number} of {limit}" if number is not None and limit is not None else ""
    sort = f"{event.code} is retryable" if event.code and facts.text("class") == "retryable" else ""
    said = ", and ".join(filter(None, [sort, counted]))
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _end_failed(item: Item, event: Event, facts: EventData) -> Item:
    reasons = facts.part("reasons")
    why = describe_reason(reasons, event.code)
    ran = f"Attempt {event.attempt} failed{_code(event)}"
    return replace(
        item,
        title=f"Attempt {event.attempt} failed{_code(event)} without running" if was_not_tried(reasons) else ran,
        stroke=strokes.FAILED,
        decision="No retry follows.",
        because=f"{why[0].upper()}{why[1:]}.",
        by="failed",
    )


def _end_snoozed(item: Item, event: Event, facts: EventData) -> Item:
    reasons = facts.part("reasons")
    number, limit = reasons.integer("snooze"), reasons.integer("of")
    count = f" This was wait {number} of {limit}." if number is not None and limit is not None else ""
    snoozed = replace(
        item,
        sign="snooze",
        tone="waiting",
        stroke=strokes.SNOOZED,
        decision=f"It goes on {_later(facts)}.",
        by="waiting",
    )
    if (misfit := reasons.integer("misfit")) is not None:
        title = f"Attempt {event.attempt} did not run: its arguments belong to another version of the task"
        return replace(snoozed, title=title, because=f"Nothing is used up. Misfit {misfit} of {limit}.")
    if event.code == "SNOOZED":
        return replace(
            snoozed, title=f"Attempt {event.attempt} asked to run again later", because=f"No attempt is used up.{count}"
        )
    title = f"Attempt {event.attempt} was asked to slow down{_code(event)}"
    return replace(snoozed, title=title, because=f"No attempt is used up.{count}")


def _end_released(item: Item, event: Event, facts: EventData) -> Item:
    reasons = facts.part("reasons")
    loss, crash, limit = reasons.integer("loss"), reasons.integer("crash"), reasons.integer("of")
    back = replace(
        item, sign="lost", tone="cancelled", stroke=strokes.RELEASED, decision="Returned to its queue.", by=""
    )
    if crash is not None:
        count = f"This counts as crash {crash} of {limit}, not as a failure."
        return replace(
            back,
            tone="failed",
            stroke=strokes.CRASHED,
            title=f"The process of attempt {event.attempt} died",
            because=count,
        )
    if loss is not None:
        count = f"Its worker sent no heartbeat. This counts as loss {loss} of {limit}, not as a failure."
        return replace(
            back, stroke=strokes.LOST, title=f"Attempt {event.attempt} was lost with its worker", because=count
        )
    stopped = "Its worker was stopped. " if reasons.text("why") == "shutdown" else ""
    return replace(
        back, title=f"Attempt {event.attempt} was released", because=f"{stopped}No attempt is used up.", verdict=""
    )


def _end_cancelled(item: Item, event: Event, facts: EventData) -> Item:  # noqa: ARG001
    title = f"Attempt {event.attempt} {'failed' + _code(event) if event.code else 'was stopped'}"
    return replace(
        item,
        sign="cancelled",
        tone="cancelled",
        title=title,
        stroke=strokes.FAILED if event.code else strokes.STOPPED,
        decision="The job is cancelled.",
        because="Cancellation had been requested.",
    )


def _end_parked(item: Item, event: Event, facts: EventData) -> Item:
    because = facts.part("reasons").text("because")
    said = f"{because[0].upper()}{because[1:]}. " if because else ""
    return replace(
        item,
        tone="held",
        sign="held",
        title=f"Attempt {event.attempt} failed{_code(event)}",
        stroke=strokes.SPARED,
        decision="It waits for its service.",
        because=f"{said}No attempt is used up.",
        by="held",
    )


_ENDS: dict[str, Callable[[Item, Event, EventData], Item]] = {
    "job.succeeded": _end_succeeded,
    "job.retried": _end_retried,
    "job.failed": _end_failed,
    "job.snoozed": _end_snoozed,
    "job.released": _end_released,
    "job.cancelled": _end_cancelled,
    "job.parked": _end_parked,
}


# Manual moves, and what happened between attempts


def _manual(title: str, tone: str = "queued") -> Callable[[Event, EventData, Job[Any]], Item]:
    def tell_it(event: Event, facts: EventData, job: Job[Any]) -> Item:  # noqa: ARG001
        redrive = facts.text("redrive")
        delay = facts.duration("delay")
        return Item(
            at=event.at,
            position=event.position,
            sign="hand",
            tone=tone,
            title=title.format(wait=words.duration(delay) if delay is not None else "a while", attempt=event.attempt),
            meta=f"by {event.actor}" if event.actor else "",
            verdict=facts.text("reason"),
            reasons=(f"part of operation {redrive}",) if redrive else (),
        )

    return tell_it


def _fail_alone(event: Event, facts: EventData, job: Job[Any]) -> Item:  # noqa: ARG001
    """It failed outside an attempt: rejected, too late, or out of budget."""
    why = describe_reason(facts.part("reasons"), event.code)
    return Item(
        at=event.at,
        position=event.position,
        sign="failed",
        tone="failed",
        title=f"It failed{_code(event)}",
        verdict=facts.text("message"),
        decision="No retry follows.",
        because=f"{why[0].upper()}{why[1:]}.",
        by="failed",
        reasons=_reasons(facts.part("reasons")),
    )


def _cancel_alone(event: Event, facts: EventData, job: Job[Any]) -> Item:
    if event.actor or not facts.text("reason"):
        return _manual("It was cancelled", "cancelled")(event, facts, job)
    sentence = f"It was cancelled: {facts.text('reason')}."
    return _plain(event, sentence, "cancelled", "cancelled")


def _expire(event: Event, facts: EventData, job: Job[Any]) -> Item:
    if event.actor:
        return _manual("Its result was deleted")(event, facts, job)
    return _plain(event, "Its result expired and was deleted.", "cancelled", "cancelled")


_MOVES: dict[str, Callable[[Event, EventData, Job[Any]], Item]] = {
    "job.retry_requested": _manual("Retried manually, with all counters reset"),
    "job.run_requested": _manual("Run manually, with unchanged counters"),
    "job.cancel_requested": _manual("Cancellation of attempt {attempt} was requested"),
    "job.snoozed": _manual("Snoozed manually for {wait}", "waiting"),
    "job.cancelled": _cancel_alone,
    "job.failed": _fail_alone,
    "job.key_released": _manual("Its dedupe key was released"),
    "job.result_expired": _expire,
}


# Messages and tracebacks are often the same, and tracebacks are long.


def _say_once(items: Sequence[Item]) -> list[Item]:
    """An attempt that failed like the one before says so in fewer words."""
    said, found = "", []
    for item in items:
        is_same = bool(item.attempt and item.same_as and item.verdict == said)
        said = item.verdict if item.attempt else said
        found.append(replace(item, verdict="") if is_same else item)
    return found


def _limit_details(items: Sequence[Item]) -> list[Item]:
    """The newest tracebacks in full, as long as there is room; each is shown at its first attempt only."""
    first: dict[str, int] = {}
    for item in items:
        if item.detail:
            first.setdefault(item.detail, item.attempt)
    room = MOST_DETAIL
    limited: list[Item] = []
    for item in reversed(items):
        if item.detail and first[item.detail] != item.attempt:
            item = replace(item, detail="", same_as=first[item.detail])
        elif item.detail:
            length = min(LONGEST_DETAIL, room)
            room -= min(len(item.detail), length)
            item = replace(item, detail=item.detail[:length], is_cut=len(item.detail) > length)
        limited.append(item)
    return limited[::-1]
