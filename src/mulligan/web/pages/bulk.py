"""Moves for many jobs: a preview that counts them, then a durable operation that workers carry out. A retry has a page
of its own (`retry.py`), which the lists of jobs reach from here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from msgspec import Meta
from starlette.responses import RedirectResponse, Response

from mulligan.lifecycle import State
from mulligan.records.counts import Counts
from mulligan.records.job import MOST_IDS, JobFilter
from mulligan.records.key import Scope
from mulligan.records.rate import parse_rate
from mulligan.records.redrive import CANCEL, MOVES, RETRY, RUN_NOW, SNOOZE, Redrive
from mulligan.web.pages import words
from mulligan.web.pages.job_filter import Params, address, filtered, params_of, to_filter, tokens_of
from mulligan.web.pages.page import SEE_OTHER, Done, PageCall, Pages, View
from mulligan.web.pages.retry import ALL, count_roughly, fields_of, has_grown

pages = Pages("Bulk operations")

DELAY = "1h"
RATE = "500/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """What is done to many jobs. `path` is its part of the address; `label` is on its button, `done` in a sentence.
    `default` are the states of a filter without any."""

    name: str
    path: str
    label: str
    scope: Scope
    states: tuple[State, ...]
    default: tuple[State, ...]
    done: str
    effect: str = ""
    is_grave: bool = False


# Retrying a waiting job is for one at a time: many are run now instead.
_RETRY = Verb(
    name=RETRY,
    path="retry",
    label="Retry",
    scope=Scope.JOBS_RETRY,
    states=(State.FAILED, State.CANCELLED),
    default=(State.FAILED,),
    done="retried",
)
_BULK = (
    Verb(
        name=RUN_NOW,
        path="run-now",
        label="Run now",
        scope=Scope.JOBS_RETRY,
        states=MOVES[RUN_NOW].sources,
        default=(State.WAITING,),
        done="run now",
        effect="Each job is due at once and keeps its counters. A job that is over has one more attempt.",
    ),
    Verb(
        name=SNOOZE,
        path="snooze",
        label="Snooze",
        scope=Scope.JOBS_CANCEL,
        states=MOVES[SNOOZE].sources,
        default=MOVES[SNOOZE].sources,
        done="snoozed",
        effect="Each job is due after the delay, counted from when it is moved. No attempt is used up.",
    ),
    Verb(
        name=CANCEL,
        path="cancel",
        label="Cancel",
        scope=Scope.JOBS_CANCEL,
        states=MOVES[CANCEL].sources,
        default=MOVES[CANCEL].sources,
        done="cancelled",
        effect="Waiting and queued jobs are over at once. Running ones are asked to stop.",
        is_grave=True,
    ),
)
VERBS = (_RETRY, *_BULK)


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
PreviewQuery = filtered("BulkPreviewQuery", **_SELECTED, count=(str | None, None))
# `matched` is how many jobs the preview showed, if it counted them all.
BulkForm = filtered(
    "BulkForm",
    **_SELECTED,
    matched=(int | None, None),
    rate=(str | None, None),
    delay=(str | None, None),
    reason=(str | None, None),
)


def _select(call: PageCall, given: Any, verb: Verb) -> JobFilter | None:
    """The jobs that are asked for; None if a selection has none."""
    if given.of == "selection":
        return JobFilter(ids=given.job, state=verb.states) if given.job else None
    wanted = to_filter(params_of(given), call.now)
    return wanted if wanted.state is not None else replace(wanted, state=verb.default)


def preview_retry(call: PageCall, query: Any) -> View | Response:
    """Lead to the page of retries. Its address has moments: `since=2h` would match other jobs a minute later."""
    wanted = _select(call, query, _RETRY)
    if wanted is None:
        return _show(_RETRY, query, None, None)
    root = call.request.scope.get("root_path", "")
    return RedirectResponse(f"{root}/retry?{urlencode(fields_of(wanted))}", status_code=SEE_OTHER)


def _preview(call: PageCall, query: Any, verb: Verb) -> View:
    wanted = _select(call, query, verb)
    rough = None if wanted is None else count_roughly(call, wanted, query.count)
    terms = {"delay": DELAY} if verb.name == SNOOZE else {}
    planned = call.console.bulk(verb.name, wanted, dry_run=True, **terms) if wanted and not rough else None
    return _show(verb, query, planned, rough)


def _show(verb: Verb, query: Any, planned: Redrive | None, rough: Counts | None) -> View:
    params = params_of(query)
    number = planned.matched if planned else rough.total if rough else None
    return View(
        "bulk.html",
        verb=verb,
        planned=planned,
        rough=rough,
        number=number,
        title=title_of(verb, number, is_rough=rough is not None),
        selected=query.job,
        left_out=len(query.job) - planned.matched if planned and query.of == "selection" else 0,
        tokens=tokens_of(params),
        params=params,
        of=query.of,
        everything=address(f"/jobs/bulk/{verb.path}", params, count=ALL),
        rate=RATE,
        delay=DELAY,
        states=_phrase(planned.filter.states if planned else verb.states),
        takes=max((number or 0) / parse_rate(RATE).per_second, 1.0),
        back=address("/jobs", params),
    )


def title_of(verb: Verb, number: int | None, *, is_rough: bool = False) -> str:
    """The sentence that opens the preview."""
    if number is None:
        return "No job is selected."
    if is_rough:
        return f"{words.number(number)} or more jobs can be {verb.done}."
    if not number:
        return f"No job can be {verb.done}."
    return f"{words.plural(number, 'job')} can be {verb.done}."


def _phrase(states: Sequence[State]) -> str:
    """`have failed or are waiting or cancelled`"""
    are = " or ".join(state for state in states if state is not State.FAILED)
    return " or ".join(["have failed"] * (State.FAILED in states) + [f"are {are}"] * bool(are))


def _begin(call: PageCall, form: Any, verb: Verb) -> Done:
    path = f"/jobs/bulk/{verb.path}"
    wanted = _select(call, form, verb)
    if wanted is None:
        return Done("/jobs", "No job was selected.", tone="failed")
    if not form.reason:
        return Done(_again(path, form), "Give a reason: it is kept in the history of every job.", tone="failed")
    terms = {"delay": form.delay or DELAY} if verb.name == SNOOZE else {}
    if form.matched is not None:
        now = call.console.bulk(verb.name, wanted, dry_run=True, **terms).matched
        if has_grown(now, form.matched):
            more = f"There are {words.plural(now, 'job')} now, and there were {words.number(form.matched)}."
            return Done(_again(path, form), f"{more} Nothing has begun: look at the numbers again.", tone="failed")
    rate = parse_rate(form.rate or RATE)
    begun = call.console.bulk(verb.name, wanted, **terms, rate=rate, reason=form.reason, request_id=call.request_id)
    if not begun.id:
        return Done(address("/jobs", params_of(form)), "Nothing has begun: no job matches any more.")
    number = words.plural(begun.matched, "job")
    return Done(f"/redrives/{begun.id}", f"It has begun: {number} will be {verb.done}.")


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


pages.page(f"/jobs/bulk/{_RETRY.path}", scope=_RETRY.scope, query=PreviewQuery)(preview_retry)
for _verb in _BULK:
    _declare(_verb)
