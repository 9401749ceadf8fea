"""Moves for many jobs: a preview that counts them, then a durable operation that workers carry out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from mulligan.lifecycle import State
from mulligan.records.job import MOST_IDS, JobFilter
from mulligan.records.key import Scope
from mulligan.records.rate import parse_rate
from mulligan.records.redrive import CANCEL, MOST_CANARIES, MOVES, RETRY, RUN_NOW, SNOOZE, Redrive
from mulligan.web.pages import words
from mulligan.web.pages.job_filter import Params, address, filtered, params_of, to_filter, tokens_of
from mulligan.web.pages.page import Done, PageCall, Pages, View

pages = Pages("Bulk operations")

# Retrying a waiting job is for one at a time: many are run now instead.
_RETRIED = (State.FAILED, State.CANCELLED)
DELAY = "1h"
RATES = {RETRY: "50/s"}
RATE = "500/s"
CANARIES, STOP_ABOVE = 5, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """What is done to many jobs. `path` is its part of the address; `label` is on its button, `done` in a sentence."""

    name: str
    path: str
    label: str
    scope: Scope
    states: tuple[State, ...]
    done: str
    effect: str
    is_grave: bool = False


VERBS = (
    Verb(
        name=RETRY,
        path="retry",
        label="Retry",
        scope=Scope.JOBS_RETRY,
        states=_RETRIED,
        done="retried",
        effect="Each job starts with its counters reset, and keeps its place before jobs that were submitted later.",
    ),
    Verb(
        name=RUN_NOW,
        path="run-now",
        label="Run now",
        scope=Scope.JOBS_RETRY,
        states=MOVES[RUN_NOW].sources,
        done="run now",
        effect="Each job is due at once and keeps its counters. A job that is over has one more attempt.",
    ),
    Verb(
        name=SNOOZE,
        path="snooze",
        label="Snooze",
        scope=Scope.JOBS_CANCEL,
        states=MOVES[SNOOZE].sources,
        done="snoozed",
        effect="Each job is due after the delay, counted from when it is moved. No attempt is used up.",
    ),
    Verb(
        name=CANCEL,
        path="cancel",
        label="Cancel",
        scope=Scope.JOBS_CANCEL,
        states=MOVES[CANCEL].sources,
        done="cancelled",
        effect="Waiting and queued jobs are over at once. Running ones are asked to stop.",
        is_grave=True,
    ),
)


class Offer(NamedTuple):
    """A verb that may be used on the jobs of a list. `is_for_all`: also on all that match."""

    verb: Verb
    is_for_all: bool


def offers_for(call: PageCall, wanted: JobFilter, view: str | None) -> list[Offer]:
    """What the caller may do, and what the states of the list allow. A view is no filter: its jobs are selected."""
    states = {"held": (State.WAITING, State.QUEUED), "stuck": (State.RUNNING,)}.get(view or "", wanted.states)
    return [
        Offer(verb, view is None and (wanted.state is None or set(wanted.states) <= set(verb.states)))
        for verb in VERBS
        if call.allows(verb.scope) and set(states) & set(verb.states)
    ]


Ids = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=MOST_IDS)]
_SELECTED: dict[str, tuple[Any, Any]] = {"job": (Ids, []), "of": (Literal["selection", "filter"], "filter")}
PreviewQuery = filtered("BulkPreviewQuery", **_SELECTED)
BulkForm = filtered(
    "BulkForm",
    **_SELECTED,
    matched=(int, 0),
    rate=(str | None, None),
    canary=(Annotated[int, Meta(ge=0, le=MOST_CANARIES)], CANARIES),
    stop_above=(Annotated[int, Meta(ge=0, le=100)], STOP_ABOVE),
    delay=(str | None, None),
    reason=(str | None, None),
)


def _select(call: PageCall, given: Any, verb: Verb) -> JobFilter | None:
    """The jobs that are asked for; None if a selection has none."""
    if given.of == "selection":
        return JobFilter(ids=given.job, state=verb.states) if given.job else None
    return to_filter(params_of(given), call.now)


def _plan(call: PageCall, verb: Verb, wanted: JobFilter, **terms: Any) -> Redrive:
    """Begin it, or only count with `dry_run`."""
    planned: Redrive
    if verb.name == RETRY:
        planned = call.console.redrive(wanted, **terms)
    else:
        planned = call.console.bulk(verb.name, wanted, **terms)
    return planned


def _preview(call: PageCall, query: Any, verb: Verb) -> View:
    wanted, params = _select(call, query, verb), params_of(query)
    terms = {"delay": DELAY} if verb.name == SNOOZE else {}
    planned = None if wanted is None else _plan(call, verb, wanted, dry_run=True, **terms)
    return View(
        "bulk.html",
        verb=verb,
        planned=planned,
        title=title_of(verb, planned),
        selected=query.job,
        left_out=len(query.job) - planned.matched if planned and query.of == "selection" else 0,
        tokens=tokens_of(params),
        params=params,
        of=query.of,
        rate=RATES.get(verb.name, RATE),
        canary=min(CANARIES, planned.matched) if planned else 0,
        stop_above=STOP_ABOVE,
        delay=DELAY,
        states=_phrase(planned.filter.states if planned else verb.states),
        takes=_takes(planned),
        back=address("/jobs", params),
    )


def title_of(verb: Verb, planned: Redrive | None) -> str:
    """The sentence that opens the preview."""
    if planned is None:
        return "No job is selected."
    if not planned.matched:
        return f"No job can be {verb.done}."
    return f"{words.plural(planned.matched, 'job')} can be {verb.done}."


def _takes(planned: Redrive | None) -> float:
    """How many seconds the rate alone takes."""
    return max(planned.matched / planned.rate.per_second, 1.0) if planned else 0.0


def _phrase(states: Sequence[State]) -> str:
    """`have failed or are cancelled`"""
    return " or ".join(("have " if state is State.FAILED else "are ") + state for state in states)


def _begin(call: PageCall, form: Any, verb: Verb) -> Done:
    path = f"/jobs/bulk/{verb.path}"
    wanted = _select(call, form, verb)
    if wanted is None:
        return Done("/jobs", "No job was selected.", tone="failed")
    if not form.reason:
        return Done(_again(path, form), "Give a reason: it is kept in the history of every job.", tone="failed")
    terms = {"delay": form.delay or DELAY} if verb.name == SNOOZE else {}
    now = _plan(call, verb, wanted, dry_run=True, **terms).matched
    if now > form.matched:
        more = f"There are {words.plural(now, 'job')} now, and there were {words.number(form.matched)}."
        return Done(_again(path, form), f"{more} Nothing has begun: look at the numbers again.", tone="failed")
    begun = _plan(call, verb, wanted, **terms, **_terms(verb, form), reason=form.reason, request_id=call.request_id)
    if not begun.id:
        return Done(address("/jobs", params_of(form)), "Nothing has begun: no job matches any more.")
    number = words.plural(begun.matched, "job")
    return Done(f"/redrives/{begun.id}", f"It has begun: {number} will be {verb.done}.")


def _terms(verb: Verb, form: Any) -> dict[str, Any]:
    rate = parse_rate(form.rate or RATES.get(verb.name, RATE))
    if verb.name != RETRY:
        return {"rate": rate}
    return {"rate": rate, "canary": form.canary, "abort_above": form.stop_above / 100}


def _again(path: str, form: Any) -> str:
    params: Params = params_of(form)
    return address(path, {**params, "job": form.job, "of": [form.of]})


def _declare(verb: Verb) -> None:
    """The preview of a verb, and the form that begins it."""

    def preview(call: PageCall, query: Any) -> View:
        return _preview(call, query, verb)

    def begin(call: PageCall, form: Any) -> Done:
        return _begin(call, form, verb)

    preview.__name__, begin.__name__ = f"preview_{verb.name}", f"begin_{verb.name}"
    pages.page(f"/jobs/bulk/{verb.path}", scope=verb.scope, query=PreviewQuery)(preview)
    pages.action(f"/jobs/bulk/{verb.path}/begin", scope=verb.scope, form=BulkForm)(begin)


for _verb in VERBS:
    _declare(_verb)
