"""A job: what happened, why is it not running, and what comes next. Its moves, its arguments, its raw events."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response, StreamingResponse

from mulligan.console.arguments import LARGEST_PAGE, LAST_POSITION
from mulligan.explain import Explanation, Hold
from mulligan.lifecycle import State
from mulligan.records.document import document_of
from mulligan.records.event import Event
from mulligan.records.job import MAX_LOSSES, PRIORITIES, Job
from mulligan.records.key import Scope
from mulligan.store.messages import WorkerRecord
from mulligan.web.pages import strokes, words
from mulligan.web.pages.blocks import to_block
from mulligan.web.pages.gates import first_hold, gates_of
from mulligan.web.pages.jobs import redirect
from mulligan.web.pages.life import spans_of
from mulligan.web.pages.life_chart import LifeChart, draw_life
from mulligan.web.pages.opening import find_useless, open_page
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.story import Story, tell
from mulligan.web.pages.strokes import Strokes

pages = Pages("Job")

WIDE, NARROW = 1120, 358
EVENTS_SHOWN = 50
# Characters of one value in a page.
LONGEST_VALUE, LONGEST_REVEALED, LONGEST_EVENT = 16_000, 100_000, 6_000
DELAY = "1h"


@dataclass(frozen=True, slots=True)
class Offer:
    """A legal move that the caller may make. `label` opens a form with a question, `confirm` sends it."""

    verb: str
    label: str
    question: str
    text: str
    confirm: str
    key: str = ""
    is_first: bool = False
    is_grave: bool = False


@pages.page("/jobs/{job_id}", scope=Scope.JOBS_READ)
def job(call: PageCall, job_id: str) -> View | Response:
    whole = call.bound.find_id("job", job_id)
    if whole != job_id:
        return redirect(call, f"/jobs/{whole}")
    explanation: Explanation = call.console.explain(job_id)
    found, hold = explanation.job, first_hold(explanation)
    events = _history(call, job_id)
    story = tell(found, events, workers=_workers(call), is_for_owner=not call.caller.is_admin)
    position = call.console.queue_position(job_id) if found.state is State.QUEUED and hold is None else None
    opening = open_page(explanation, position=position, now=call.now)
    useless = find_useless(explanation, hold, call.now)
    gates = gates_of(explanation, now=call.now, is_admin=call.caller.is_admin)
    return View(
        "job.html",
        job=found,
        explanation=explanation,
        opening=opening,
        gates=gates,
        shut=next((gate for gate in gates if gate.standing == "shut"), None),
        story=story,
        strokes=_strokes(found, story),
        charts=_charts(call, found, events, hold, is_held=opening.sign == "held"),
        offers=offers_for(call, explanation),
        useless=useless,
        counters=_counters(found),
        priority=next((name for name, number in PRIORITIES.items() if number == found.priority), str(found.priority)),
        arguments=_clip(words.pretty(found.arguments), LONGEST_VALUE),
        result=_clip(words.pretty(found.result), LONGEST_VALUE),
        can_reveal=call.allows(Scope.ARGS_REVEAL),
        can_change=call.allows(Scope.JOBS_CANCEL),
    )


def _history(call: PageCall, job_id: str) -> list[Event]:
    """All events. Of a history of more than three pages, the first page and the last two."""
    pages_read = [call.console.events(job_id, limit=LARGEST_PAGE)]
    while len(pages_read[-1]) == LARGEST_PAGE:
        after = pages_read[-1][-1].position
        pages_read = [pages_read[0], *pages_read[1:][-1:], call.console.events(job_id, after=after, limit=LARGEST_PAGE)]
    return [event for page in pages_read for event in page]


def _workers(call: PageCall) -> Sequence[WorkerRecord]:
    found: list[WorkerRecord] = call.console.workers() if call.caller.is_admin else []
    return found


def _strokes(job: Job[Any], story: Story) -> Strokes:
    shown = [item.stroke for item in story.attempts if item.stroke is not None]
    return strokes.in_order([*shown, strokes.NEXT] if job.state in (State.WAITING, State.QUEUED) else shown)


def _charts(
    call: PageCall, job: Job[Any], events: Sequence[Event], hold: Hold | None, *, is_held: bool
) -> list[tuple[str, LifeChart]]:
    """For wide pages and for the phone."""
    spans = spans_of(job, events, hold if is_held else None, call.now)
    until = hold.until if hold is not None and hold.until is not None and hold.until > call.now else None
    text = f"held by {_holder(hold)}, {words.short_duration(call.now - spans[-1].start)}" if is_held and spans else ""
    now = None if job.state.is_final else call.now
    drawn = [
        (name, draw_life(spans, width=width, now=now, until=until, held=text))
        for name, width in (("wide", WIDE), ("narrow", NARROW))
    ]
    return [(name, chart) for name, chart in drawn if chart is not None]


def _holder(hold: Hold | None) -> str:
    if hold is None or hold.by is None:
        return "what it waits for"
    block = to_block(hold.by)
    return {"pause": f"a pause of {block.part} {block.name}", "batch": "its batch"}.get(
        block.what, " ".join(filter(None, [block.what if not block.part else block.part, block.name]))
    )


def _counters(job: Job[Any]) -> list[tuple[str, str]]:
    found = [
        ("Failures", f"{job.failures:,} of {job.max_attempts:,}"),
        ("Worker lost", f"{job.losses:,} of {MAX_LOSSES:,}"),
        ("Crashes", "none allowed" if job.at_most_once else f"{job.crashes:,} of {job.max_crashes:,}"),
        ("Snoozes", f"{job.snoozes:,} of {job.max_snoozes:,}"),
    ]
    if job.manual_retries:
        found.append(("Manual retries", f"{job.manual_retries:,}"))
    codes = sorted(job.code_failures.items(), key=lambda each: -each[1])
    return [*found, *((f"With {code}", f"{number:,}") for code, number in codes[:5])]


def _clip(text: str, longest: int) -> tuple[str, bool]:
    return text[:longest], len(text) > longest


# Moves


def offers_for(call: PageCall, explanation: Explanation) -> list[Offer]:
    """The legal moves, as far as the caller's key allows them."""
    state = explanation.job.state
    legal = {action.code for action in explanation.actions if action.what == "job" and action.name}
    offers = [offer for offer in _OFFERS[state] if offer.verb in legal]
    return [offer for offer in offers if call.allows(_SCOPES[offer.verb])]


_SCOPES = {
    "retry": Scope.JOBS_RETRY,
    "run-now": Scope.JOBS_RETRY,
    "snooze": Scope.JOBS_CANCEL,
    "cancel": Scope.JOBS_CANCEL,
}
_RETRY_OVER = Offer(
    "retry",
    "Retry…",
    "Retry this job?",
    "Its counters are reset, and it is due at once.",
    "Retry",
    key="r",
    is_first=True,
)
_RUN_OVER = Offer(
    "run-now",
    "Run once more…",
    "Run this job once more?",
    "It has one more attempt. Its counters are kept.",
    "Run once",
)
_SNOOZE = Offer("snooze", "Snooze…", "Snooze this job?", "It is due after this time. No attempt is used up.", "Snooze")
_CANCEL = Offer("cancel", "Cancel…", "Cancel this job?", "It is over at once.", "Cancel the job", is_grave=True)
_OFFERS: dict[State, tuple[Offer, ...]] = {
    State.WAITING: (
        Offer(
            "run-now",
            "Run now…",
            "Run this job now?",
            "It is due at once, with unchanged counters. It replaces the planned attempt.",
            "Run now",
        ),
        Offer(
            "retry",
            "Retry from zero…",
            "Retry this job from zero?",
            "Its counters are reset, and it is due at once. It replaces the planned attempt.",
            "Retry",
            key="r",
        ),
        _SNOOZE,
        _CANCEL,
    ),
    State.QUEUED: (_SNOOZE, _CANCEL),
    State.RUNNING: (
        Offer(
            "retry",
            "Take it back and retry…",
            "Take this job from its worker?",
            "Its attempt is settled as timed out, then the job starts again with its counters reset. "
            "A worker that is still at it is refused.",
            "Take it back and retry",
            key="r",
            is_first=True,
        ),
        Offer(
            "cancel",
            "Cancel…",
            "Cancel this job?",
            "Its worker is asked to stop it, within seconds. If it succeeds before that, it has succeeded.",
            "Cancel the job",
            is_grave=True,
        ),
    ),
    State.SUCCEEDED: (),
    State.FAILED: (_RETRY_OVER, _RUN_OVER),
    State.CANCELLED: (_RETRY_OVER, _RUN_OVER),
}


class Snoozed(WithReason, kw_only=True):
    delay: Annotated[str, Meta(max_length=100)] = DELAY


@pages.action("/jobs/{job_id}/retry", scope=Scope.JOBS_RETRY)
def retry_job(call: PageCall, job_id: str, form: WithReason) -> Done:
    moved = call.console.retry(job_id, reason=form.reason, request_id=call.request_id)
    return _moved(call, moved, "The job starts again, with its counters reset.")


@pages.action("/jobs/{job_id}/run-now", scope=Scope.JOBS_RETRY)
def run_job(call: PageCall, job_id: str, form: WithReason) -> Done:
    moved = call.console.run_now(job_id, reason=form.reason, request_id=call.request_id)
    return _moved(call, moved, "The job is due now, with unchanged counters.")


@pages.action("/jobs/{job_id}/snooze", scope=Scope.JOBS_CANCEL)
def snooze_job(call: PageCall, job_id: str, form: Snoozed) -> Done:
    moved = call.console.snooze(job_id, form.delay, reason=form.reason, request_id=call.request_id)
    return Done(f"/jobs/{job_id}", f"The job is snoozed until {words.exact(moved.due_at)}.")


@pages.action("/jobs/{job_id}/cancel", scope=Scope.JOBS_CANCEL)
def cancel_job(call: PageCall, job_id: str, form: WithReason) -> Done:
    moved = call.console.cancel(job_id, reason=form.reason, request_id=call.request_id)
    is_over = moved.state is State.CANCELLED
    return Done(f"/jobs/{job_id}", "The job is cancelled." if is_over else "Its worker was asked to stop the job.")


def _moved(call: PageCall, moved: Job[Any], message: str) -> Done:
    """What still blocks it is said at once."""
    blocked = call.console.blocked_by([moved]).get(moved.id)
    return Done(f"/jobs/{moved.id}", message, f"It does not run yet: {to_block(blocked).words}." if blocked else "")


@pages.action("/jobs/{job_id}/expire-result", scope=Scope.JOBS_CANCEL)
def expire_result(call: PageCall, job_id: str, form: WithReason) -> Done:
    call.console.expire_result(job_id, reason=form.reason, request_id=call.request_id)
    return Done(f"/jobs/{job_id}", "The result is deleted. The job stays.")


@pages.action("/jobs/{job_id}/release-key", scope=Scope.JOBS_CANCEL)
def release_key(call: PageCall, job_id: str, form: WithReason) -> Done:
    call.console.release_key(job_id, reason=form.reason, request_id=call.request_id)
    return Done(f"/jobs/{job_id}", "The dedupe key is released: another job can have it.")


# Arguments and result


class Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    part: Literal["arguments", "result"]


@pages.action("/jobs/{job_id}/reveal", scope=Scope.ARGS_REVEAL)
def reveal(call: PageCall, job_id: str) -> View:
    """Arguments and result as they are stored. An action, so that it is in the audit."""
    found: Job[Any] = call.reveal.job(job_id)
    root = call.request.scope.get("root_path", "")
    return View(
        "job_revealed.html",
        # A form on this page leads back to the page of the job, because this one cannot be loaded.
        address=f"{root}/jobs/{job_id}",
        job=found,
        parts_shown=[
            (name, *_clip(words.pretty(value), LONGEST_REVEALED))
            for name, value in (("arguments", found.arguments), ("result", found.result))
        ],
    )


@pages.action("/jobs/{job_id}/download", scope=Scope.ARGS_REVEAL)
def download(call: PageCall, job_id: str, form: Part) -> Response:
    """As a file, never as a page."""
    found: Job[Any] = call.reveal.job(job_id)
    text = words.pretty(getattr(found, form.part))
    return _attachment(iter([text.encode("utf-8", "replace")]), f"{job_id}-{form.part}.json.txt")


def _attachment(chunks: Iterator[bytes], name: str) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return StreamingResponse(chunks, media_type="text/plain; charset=utf-8", headers=headers)


# Raw events


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    after: Annotated[int, Meta(ge=0, le=LAST_POSITION)] = 0


@pages.page("/jobs/{job_id}/events", scope=Scope.JOBS_READ)
def job_events(call: PageCall, job_id: str, query: EventsQuery) -> View:
    found: Job[Any] = call.console.job(job_id)
    events: list[Event] = call.console.events(found.id, after=query.after, limit=EVENTS_SHOWN)
    return View(
        "job_events.html",
        job=found,
        events=[(event, *_clip(words.pretty(document_of(event)), LONGEST_EVENT)) for event in events],
        after=query.after,
        cursor=events[-1].position if len(events) == EVENTS_SHOWN else None,
    )


@pages.page("/jobs/{job_id}/events/download", scope=Scope.JOBS_READ)
def download_events(call: PageCall, job_id: str) -> Response:
    found: Job[Any] = call.console.job(job_id)
    return _attachment(_event_lines(call, found.id), f"{found.id}-events.jsonl.txt")


def _event_lines(call: PageCall, job_id: str) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode_lines
    after = 0
    while events := call.console.events(job_id, after=after, limit=LARGEST_PAGE):
        yield encode([document_of(event) for event in events])
        after = events[-1].position
