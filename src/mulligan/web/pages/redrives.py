"""Redrives and bulk operations: the list, and the progress of one."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mulligan.records.job import JobFilter
from mulligan.records.key import Scope
from mulligan.records.redrive import BAD, GOOD, LOOK_BACK, RETRY, Redrive
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.redrive_words import SHOWN, VERBS, name_redrive, say_redrive, say_rule, say_verdict, time_left

pages = Pages("Redrives")

FEW, MANY = 50, 500
STROKES = {GOOD: ("succeeded", "dot"), BAD: ("failed", "x")}
SILENT_STROKE = ("cancelled", "lost")


class RedrivesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=MANY)] = FEW


@pages.page("/redrives", scope=Scope.JOBS_READ)
def show_redrives(call: PageCall, query: RedrivesQuery) -> View:
    found: list[Redrive] = call.console.redrives(limit=query.limit)
    active = sum(not redrive.state.is_over for redrive in found)
    rows = [(redrive, *SHOWN[redrive.state], name_redrive(redrive)) for redrive in found]
    return View(
        "redrives.html", rows=rows, active=active, has_more=len(found) == query.limit < MANY, most=MANY, verbs=VERBS
    )


@pages.page("/redrives/{redrive_id}", scope=Scope.JOBS_READ)
def show_redrive(call: PageCall, redrive_id: str) -> View:
    found: Redrive = call.console.redrive_status(redrive_id)
    word, tone = SHOWN[found.state]
    return View(
        "redrive.html",
        redrive=found,
        word=word,
        tone=tone,
        verb=VERBS[found.verb],
        name=name_redrive(found),
        says=say_redrive(found, call.now),
        rule=say_rule(found),
        verdict=say_verdict(found),
        left=time_left(found),
        to_come=0 if found.state.is_over else max(0, found.matched - found.looked_at),
        strokes=[STROKES.get(mark, SILENT_STROKE) for mark in found.course.recent[-LOOK_BACK:]],
        still_failed=_count_failed(call, found.filter) if found.verb == RETRY else None,
        can_stop=call.allows(Scope.JOBS_CANCEL) and not found.state.is_over,
        **_group(call, found),
    )


def _count_failed(call: PageCall, wanted: JobFilter) -> Any:
    return call.console.counts(wanted)


def _group(call: PageCall, redrive: Redrive) -> dict[str, Any]:
    """The group that it is about, to resolve when it is done."""
    group = redrive.filter.group
    return {"group": group, "can_resolve": bool(group) and call.caller.is_admin and call.allows(Scope.OPERATE)}


@pages.action("/redrives/{redrive_id}/stop", scope=Scope.JOBS_CANCEL)
def stop_redrive(call: PageCall, redrive_id: str, form: WithReason) -> Done:
    call.console.cancel_redrive(redrive_id, reason=form.reason, request_id=call.request_id)
    return Done(f"/redrives/{redrive_id}", "It is stopped.", "Jobs that were moved already stay as they are now.")
