"""Batches: did it work for its owner? A list, and one batch with its members, what failed in it, and its moves."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from mulligan.console.batches import Batch, Retried
from mulligan.errors import GroupNotFound
from mulligan.lifecycle import State
from mulligan.records.batch import BatchState
from mulligan.records.batch_outcome import has_expired
from mulligan.records.counts import Counts
from mulligan.records.failure_group import FailureGroup
from mulligan.records.job import Job, JobFilter
from mulligan.records.key import Scope
from mulligan.values.check import LONGEST_STRING
from mulligan.web.pages import batch_words
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.words import number, plural

pages = Pages("Batches")

SIZE = 50
MOST_GROUPS = 8
MOST_MEMBERS = 20
MOST_CHAPTERS = 12
MOST_SKIPPED = 3
OPEN = (State.FAILED, State.CANCELLED)

_String = Annotated[str, Meta(max_length=LONGEST_STRING)]


class BatchesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    state: BatchState | None = None
    owner: _String | None = None
    cursor: _String | None = None


class Piece(NamedTuple):
    """A part of a bar. `tone` is its colour, `label` its name."""

    tone: str
    number: int
    label: str


class Row(NamedTuple):
    batch: Batch
    sign: str
    bar: list[Piece]
    label: str


@pages.page("/batches", scope=Scope.JOBS_READ)
def batches(call: PageCall, query: BatchesQuery) -> View:
    owner = query.owner or None if call.caller.is_admin else None
    given = {"owner": owner} if owner else {}
    found: list[Batch] = call.console.batches(state=query.state, limit=SIZE + 1, cursor=query.cursor, **given)
    shown, is_more = found[:SIZE], len(found) > SIZE
    return View(
        "batches.html",
        says=batch_words.open_batches(
            shown, query.state, owner=owner or "", is_part=is_more or query.cursor is not None
        ),
        rows=[_row(batch) for batch in shown],
        state=query.state,
        states=tuple(BatchState),
        signs=batch_words.SIGNS,
        owner=owner or "",
        link=lambda **changes: _address({"state": query.state, "owner": owner} | changes),
        cursor=shown[-1].id if is_more else None,
        is_first=query.cursor is None,
    )


def _address(values: Mapping[str, Any]) -> str:
    given = {name: str(value) for name, value in values.items() if value}
    return f"/batches?{urlencode(given)}" if given else "/batches"


def _row(batch: Batch) -> Row:
    return Row(batch, batch_words.SIGNS[batch.state], _bar(batch), _label(batch))


def _bar(batch: Batch, running: int = 0) -> list[Piece]:
    return [
        Piece("succeeded", batch.succeeded, "succeeded"),
        Piece("failed", batch.failed, "failed"),
        Piece("cancelled", batch.cancelled, "cancelled"),
        Piece("running", min(running, batch.left), "running"),
    ]


def _label(batch: Batch) -> str:
    parts = [f"{number(piece.number)} {piece.label}" for piece in _bar(batch) if piece.number]
    return f"{', '.join(parts) or 'none over'} of {number(batch.total)}"


class Cause(NamedTuple):
    """A failure group with the number of failed members in it. `group` is None before it is derived from the log."""

    id: str
    group: FailureGroup | None
    members: int
    code: str = ""


@pages.page("/batches/{batch_id}", scope=Scope.JOBS_READ)
def batch(call: PageCall, batch_id: str) -> View:
    found: Batch = call.console.find_batch(batch_id)
    running = _count(call, found, State.RUNNING) if found.state is BatchState.PROCESSING else None
    members = _members(call, found)
    causes = _causes(call, found, {job.group: job.error_code or "" for job in members if job.group})
    chapters = batch_words.tell(call.console.history(batch=found.id, limit=5 * MOST_CHAPTERS))
    return View(
        "batch.html",
        batch=found,
        says=batch_words.open_batch(found, call.now),
        sign=batch_words.SIGNS[found.state],
        # A count that was cut off may be too low.
        running=running.total if running and not running.at_least else 0,
        bar=_bar(found, running.total if running and not running.at_least else 0),
        label=_label(found),
        causes=causes[:MOST_GROUPS],
        causes_left=len(causes[MOST_GROUPS:]),
        members=members,
        chapters=chapters[:MOST_CHAPTERS],
        retry_words=batch_words.describe_retry(found),
        can=_legal(call, found),
    )


def _count(call: PageCall, found: Batch, state: State) -> Counts:
    counts: Counts = call.console.counts(JobFilter(batch=found.id, state=state))
    return counts


def _causes(call: PageCall, found: Batch, codes: Mapping[str, str]) -> list[Cause]:
    """Why members failed, the most frequent first. `codes` are those of some groups."""
    if not found.failed:
        return []
    counts: Counts = call.console.counts(JobFilter(batch=found.id, state=State.FAILED), by="group")
    listed = list(counts.groups.items())
    first = listed[:MOST_GROUPS]
    named = [Cause(group, _group(call, group), members, codes.get(group, "")) for group, members in first]
    return [*named, *(Cause(group, None, members) for group, members in listed[MOST_GROUPS:])]


def _group(call: PageCall, group: str) -> FailureGroup | None:
    try:
        found: FailureGroup = call.console.failure(group)
    except GroupNotFound:
        return None
    return found


def _members(call: PageCall, found: Batch) -> list[Job[Any]]:
    """Those that did not succeed, or without any, the newest."""
    states = OPEN if found.failed or found.cancelled else None
    listed: list[Job[Any]] = list(call.console.jobs(JobFilter(batch=found.id, state=states), limit=MOST_MEMBERS).jobs)
    return listed


def _legal(call: PageCall, found: Batch) -> dict[str, bool]:
    """The moves that are possible now, and that the caller may make."""
    is_expired = has_expired(found, call.now)
    return {
        "publish": call.allows(Scope.JOBS_ENQUEUE) and found.state is BatchState.DRAFT,
        "retry": call.allows(Scope.JOBS_RETRY) and bool(found.failed or found.cancelled) and not is_expired,
        "cancel": call.allows(Scope.JOBS_CANCEL) and found.left > 0 and not is_expired,
    }


class RetryForm(WithReason, kw_only=True):
    """`cancelled`: cancelled members too."""

    cancelled: bool = False


@pages.action("/batches/{batch_id}/retry", scope=Scope.JOBS_RETRY)
def retry_batch(call: PageCall, batch_id: str, form: RetryForm) -> Done:
    done: Retried = call.console.retry_batch(
        batch_id, cancelled=form.cancelled, reason=form.reason, request_id=call.request_id
    )
    path, skipped = f"/batches/{done.batch.id}", ", ".join(_skipped(done))
    if not done.jobs:
        return Done(path, "No member was retried.", skipped or "None has failed.", tone="failed")
    start = "starts" if len(done.jobs) == 1 else "start"
    return Done(path, f"{plural(len(done.jobs), 'member')} {start} again.", skipped)


def _skipped(done: Retried) -> Iterator[str]:
    if done.skipped:
        reasons = list(dict.fromkeys(done.skipped.values()))
        yield f"{number(len(done.skipped))} skipped: {'; '.join(reasons[:MOST_SKIPPED])}"


@pages.action("/batches/{batch_id}/cancel", scope=Scope.JOBS_CANCEL)
def cancel_batch(call: PageCall, batch_id: str, form: WithReason) -> Done:
    found: Batch = call.console.cancel_batch(batch_id, reason=form.reason, request_id=call.request_id)
    asked = f"{plural(found.left, 'running member')} stop within seconds." if found.left else ""
    return Done(f"/batches/{found.id}", f"The batch is cancelled: {plural(found.cancelled, 'member')} in all.", asked)


@pages.action("/batches/{batch_id}/publish", scope=Scope.JOBS_ENQUEUE)
def publish_batch(call: PageCall, batch_id: str) -> Done:
    found: Batch = call.console.publish_batch(batch_id, request_id=call.request_id)
    return Done(f"/batches/{found.id}", f"The batch is published: {plural(found.total, 'member')} may run.")
