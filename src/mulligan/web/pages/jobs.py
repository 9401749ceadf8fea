"""Jobs: which jobs exactly? By state, with a filter that is kept in the address, and moves for many at once."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from starlette.responses import RedirectResponse, Response

from mulligan.errors import BadFilter, JobNotFound
from mulligan.lifecycle import State
from mulligan.records.counts import MOST_READ, Counts
from mulligan.records.job import Job, JobFilter
from mulligan.records.job import Page as JobPage
from mulligan.records.key import Scope
from mulligan.web.api.dead_letters import stream_jobs
from mulligan.web.pages import words
from mulligan.web.pages.blocks import Block, to_block
from mulligan.web.pages.bulk import offers_for
from mulligan.web.pages.job_filter import (
    FIELDS,
    LABELS,
    Params,
    Token,
    address,
    filtered,
    params_of,
    read_text,
    to_filter,
    tokens_of,
)
from mulligan.web.pages.job_rows import HEADINGS, HELD, STUCK, rows_of
from mulligan.web.pages.page import PageCall, Pages, View

pages = Pages("Jobs")

SIZE = 50
# How many unfinished jobs a page of held ones reads.
READ_FOR_HELD = 200
MOST_STUCK = 100
LIVE = (State.WAITING, State.QUEUED)
TABS = (State.FAILED, State.WAITING, State.QUEUED, State.RUNNING, State.SUCCEEDED, State.CANCELLED)
_PART_OF_ID = re.compile(r"[0-9a-f-]{6,36}")

JobsQuery = filtered(
    "JobsPageQuery",
    view=(Literal["held", "stuck"] | None, None),
    cursor=(str | None, None),
    q=(str | None, None),
)
ExportQuery = filtered("JobsExportQuery", format=(Literal["jsonl", "csv"], "jsonl"), events=(bool, False))


class Tab(NamedTuple):
    """`number` is None if it is not counted."""

    label: str
    sign: str
    path: str
    is_current: bool
    number: int | None = None
    is_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The jobs of one page. `examined` is how many were read to find the held ones."""

    jobs: Sequence[Job[Any]]
    blocked: dict[str, str]
    cursor: str | None = None
    damaged: Sequence[str] = ()
    examined: int = 0


@pages.page("/jobs", scope=Scope.JOBS_READ, query=JobsQuery)
def jobs(call: PageCall, query: Any) -> View | Response:
    if query.q:
        return _type(call, query)
    params = params_of(query)
    if "" in call.request.query_params.values():
        # A form sends its empty fields too.
        return redirect(call, address("/jobs", params, view=query.view))
    return _list(call, query, params)


def _type(call: PageCall, query: Any) -> View | Response:
    """What a person typed becomes a part of the address; a part of an id leads to its job."""
    text, params = query.q.strip(), params_of(query)
    try:
        if _PART_OF_ID.fullmatch(text):
            return redirect(call, f"/jobs/{call.bound.find_id('job', text)}")
        typed = read_text(text)
        to_filter(params | typed, call.now)
    except (BadFilter, JobNotFound) as error:
        return _list(call, query, params, problem=str(error))
    return redirect(call, address("/jobs", params | typed, view=query.view))


def redirect(call: PageCall, path: str) -> Response:
    return RedirectResponse(call.request.scope.get("root_path", "") + path, status_code=303)


def _list(call: PageCall, query: Any, params: Params, problem: str = "") -> View:
    wanted = to_filter(params, call.now)
    counts: Counts = call.console.counts(replace(wanted, state=None))
    stuck: list[Job[Any]] = call.console.stuck(limit=MOST_STUCK)
    found = _find(call, query, wanted, counts, stuck)
    state = State.RUNNING if query.view == STUCK else wanted.state if isinstance(wanted.state, State) else None
    state = None if query.view == HELD else state
    rows = rows_of(
        found.jobs, blocked=found.blocked, stuck=frozenset(job.id for job in stuck), state=state, now=call.now
    )
    number, is_more = _number(query.view, wanted, counts, found)
    return View(
        "jobs.html",
        status=400 if problem else 200,
        title=title_of(query.view or state, number, is_more=is_more, is_filtered=bool(_fields(params))),
        number=number,
        is_more=is_more,
        counts=counts,
        view=query.view,
        state=state,
        tabs=_tabs(query.view, params, counts, len(stuck)),
        tokens=_tokens(params, query.view),
        params=params,
        fields=[(name, LABELS[name]) for name in FIELDS if call.caller.is_admin or name != "worker"],
        rows=rows,
        found=found,
        blocks=_blocks(found),
        headings=HEADINGS[state],
        offers=offers_for(call, wanted, query.view),
        older=None if found.cursor is None else address("/jobs", params, view=query.view, cursor=found.cursor),
        newest=None if query.cursor is None else address("/jobs", params, view=query.view),
        address_of=lambda path, **more: address(path, params, **more),
        typed=query.q or "",
        problem=problem,
    )


def _find(call: PageCall, query: Any, wanted: JobFilter, counts: Counts, stuck: list[Job[Any]]) -> Found:
    if query.view == STUCK:
        return Found(jobs=stuck, blocked={})
    if query.view == HELD:
        return _find_held(call, replace(wanted, state=LIVE), query.cursor)
    if not counts.at_least and not any(counts.groups.get(state) for state in wanted.states):
        # An empty list takes longest: all jobs would be read.
        return Found(jobs=(), blocked={})
    page: JobPage[Any] = call.console.jobs(wanted, limit=SIZE, cursor=query.cursor)
    return Found(jobs=page.jobs, blocked=_blocked(call, page.jobs), cursor=page.cursor, damaged=page.damaged)


def _blocked(call: PageCall, jobs: Sequence[Job[Any]]) -> dict[str, str]:
    found: dict[str, str] = call.console.blocked_by(jobs)
    return found


def _find_held(call: PageCall, wanted: JobFilter, cursor: str | None) -> Found:
    """The held ones among the next unfinished jobs. No index knows what a pause or a service holds."""
    page: JobPage[Any] = call.console.jobs(wanted, limit=READ_FOR_HELD, cursor=cursor)
    blocked = _blocked(call, page.jobs)
    held = [job for job in page.jobs if job.id in blocked]
    shown = held[:SIZE]
    rest = shown[-1].id if len(held) > SIZE else page.cursor
    return Found(jobs=shown, blocked=blocked, cursor=rest, damaged=page.damaged, examined=len(page.jobs))


def _number(view: str | None, wanted: JobFilter, counts: Counts, found: Found) -> tuple[int, bool]:
    """How many match, and whether there may be more."""
    if view == STUCK:
        return len(found.jobs), len(found.jobs) >= MOST_STUCK
    if view == HELD:
        return len(found.blocked), found.cursor is not None
    return sum(counts.groups.get(state, 0) for state in wanted.states), counts.at_least


_STATE_WORDS = {
    State.WAITING: ("is waiting", "are waiting"),
    State.QUEUED: ("is queued", "are queued"),
    State.RUNNING: ("is running", "are running"),
    State.SUCCEEDED: ("has succeeded", "have succeeded"),
    State.FAILED: ("has failed", "have failed"),
    State.CANCELLED: ("was cancelled", "were cancelled"),
    HELD: ("is held", "are held"),
    STUCK: ("is stuck", "are stuck"),
    None: ("is stored", "are stored"),
}


def title_of(view: State | str | None, number: int, *, is_more: bool, is_filtered: bool) -> str:
    """The sentence that opens the page."""
    is_one = number == 1 and not is_more
    what = f"{view} {'job' if is_one else 'jobs'}".removeprefix("None ") if is_filtered else "job" if is_one else "jobs"
    verb = ("matches" if is_one else "match") if is_filtered else _STATE_WORDS[view][not is_one]
    if not number:
        found = f"{view} job matches".removeprefix("None ") if is_filtered else f"job {_STATE_WORDS[view][0]}"
        return f"No {found}{' among the newest' if is_more else ''}."
    least = "" if not is_more else "More than " if number >= MOST_READ else "At least "
    return f"{least}{words.number(number)} {what} {verb}."


def _fields(params: Params) -> Params:
    return {name: values for name, values in params.items() if name != "state"}


def _tabs(view: str | None, params: Params, counts: Counts, stuck: int) -> list[Tab]:
    fields, given = _fields(params), params.get("state")
    current = None if view else given[0] if given and len(given) == 1 else "" if not given else None
    tabs = [Tab("All", "", address("/jobs", fields), current == "", counts.total, counts.at_least)]
    for state in TABS:
        number = counts.groups.get(state, 0)
        path = address("/jobs", {"state": [state], **fields})
        tabs.append(Tab(state.capitalize(), state, path, state == current, number, number >= MOST_READ))
    tabs.append(Tab("Held", HELD, address("/jobs", fields, view=HELD), view == HELD))
    tabs.append(Tab("Stuck", STUCK, "/jobs?view=stuck", view == STUCK, stuck, stuck >= MOST_STUCK))
    return tabs


def _tokens(params: Params, view: str | None) -> list[Token]:
    tokens = tokens_of(params, view)
    if len(states := params.get("state", [])) > 1:
        tokens.insert(0, Token("state", " or ".join(states), address("/jobs", _fields(params), view=view)))
    return tokens


def _blocks(found: Found) -> list[tuple[Block, int, str]]:
    """What holds them, how many of those that were read, and the address of all that it may concern."""
    numbers = Counter(found.blocked.values()).most_common() if found.examined else []
    return [(block, number, address("/jobs", block.params)) for key, number in numbers if (block := to_block(key))]


@pages.page("/jobs/export", scope=Scope.JOBS_READ, query=ExportQuery)
def export_jobs(call: PageCall, query: Any) -> Response:
    """All that match, as the API gives them, with masked arguments and results."""
    wanted = to_filter(params_of(query), call.now)
    with_events = query.events and query.format == "jsonl"
    found = call.bound.export(wanted, events=with_events)
    return stream_jobs(found, call.caller.masked, query.format, with_events=with_events)
