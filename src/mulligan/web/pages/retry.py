"""Retry many jobs: a preview that counts them, and the form that begins it. Nothing happens before that."""

from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta

from mulligan.errors import BadFilter
from mulligan.lifecycle import State
from mulligan.records.counts import Counts
from mulligan.records.failure_group import FailureGroup
from mulligan.records.job import JobFilter, describe_filter
from mulligan.records.key import Scope
from mulligan.records.redrive import MOST_CANARIES, Redrive
from mulligan.web.api.terms import ReasonGiven, String
from mulligan.web.filters import filter_type, to_filter
from mulligan.web.pages.failure_group import services_of
from mulligan.web.pages.page import Done, PageCall, Pages, View
from mulligan.web.pages.versions import running_versions
from mulligan.web.pages.words import number

pages = Pages("Retry")

# If more have joined since the preview, a person looks again.
GROWTH, FEW = 1.1, 5


class Terms(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The form. `seen` is how many jobs the preview showed."""

    canary: Annotated[int, Meta(ge=0, le=MOST_CANARIES)] = 5
    rate: Annotated[str, Meta(max_length=20)] = "50/s"
    stop_above: Annotated[float, Meta(ge=0, le=100)] = 50
    reason: ReasonGiven | None = None
    seen: Annotated[int, Meta(ge=0)] | None = None


_TERMS = {field.name: (field.type, field.default) for field in msgspec.structs.fields(Terms)}
FilteredTerms = filter_type("FilteredTerms", **_TERMS)
# `count=all` counts every job, however many there are.
ALL = "all"
RetryQuery = filter_type("RetryQuery", count=(String | None, None))


class CountQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    count: String | None = None


@pages.page("/failures/{group}/retry", scope=Scope.JOBS_RETRY, query=CountQuery)
def preview_group(call: PageCall, group: str, query: CountQuery) -> View:
    found: FailureGroup = call.console.failure(group)
    page = f"/failures/{group}/retry"
    wanted = JobFilter(group=group, state=State.FAILED)
    about: dict[str, Any] = {"group": found, "action": page, "back": f"/failures/{group}", "fields": []}
    preview = _preview(call, wanted, query.count, f"{page}?count={ALL}", {seen.name for seen in found.services})
    return View("retry.html", **about, **preview)


@pages.action("/failures/{group}/retry", scope=Scope.JOBS_RETRY)
def retry_group(call: PageCall, group: str, form: Terms) -> Done:
    page = f"/failures/{group}/retry"
    if form.seen is not None:
        planned: Redrive = call.console.retry_failure(group, dry_run=True)
        if has_grown(planned.matched, form.seen):
            return _look_again(page, planned.matched, form.seen)
    begun = call.console.retry_failure(group, **_terms(form), request_id=call.request_id)
    return _begun(begun, page)


@pages.page("/retry", scope=Scope.JOBS_RETRY, query=RetryQuery)
def preview_filter(call: PageCall, query: Any) -> View:
    wanted = to_retried(query)
    fields = fields_of(query)
    listed = [(name, value) for name, value in fields if name != "ids"]
    about: dict[str, Any] = {
        "group": None,
        "action": "/retry/begin",
        "back": f"/jobs?{urlencode(listed)}",
        "fields": fields,
    }
    everything = f"/retry?{urlencode([*fields, ('count', ALL)])}"
    preview = _preview(call, wanted, query.count, everything, {wanted.service} - {None})  # type: ignore[arg-type]
    return View("retry.html", **about, **preview)


@pages.action("/retry/begin", scope=Scope.JOBS_RETRY, form=FilteredTerms)
def retry_filter(call: PageCall, form: Any) -> Done:
    wanted = to_retried(form)
    page = f"/retry?{urlencode(fields_of(form))}"
    if form.seen is not None:
        planned: Redrive = call.console.redrive(wanted, dry_run=True)
        if has_grown(planned.matched, form.seen):
            return _look_again(page, planned.matched, form.seen)
    return _begun(call.console.redrive(wanted, **_terms(form), request_id=call.request_id), page)


def to_retried(given: Any) -> JobFilter:
    """The filter. Without a state, failed jobs. Raises BadFilter for jobs that cannot be retried."""
    wanted = to_filter(given)
    if not set(wanted.states) <= {State.FAILED, State.CANCELLED} and wanted.state is not None:
        raise BadFilter("state", wanted.state, "failed or cancelled: only jobs that are over are retried")
    return wanted if wanted.state is not None else replace(wanted, state=State.FAILED)


def fields_of(given: Any) -> list[tuple[str, str]]:
    """A filter as fields of a form, or of an address."""
    fields: list[tuple[str, str]] = []
    for name in RetryQuery.__struct_fields__:
        value = getattr(given, name, UNSET)
        if name == "count" or value is UNSET or value is None:
            continue
        several = value if isinstance(value, list | tuple) else [value]
        fields += [(name, each.isoformat() if hasattr(each, "isoformat") else str(each)) for each in several]
    return fields


def has_grown(matched: int, seen: int | None) -> bool:
    """Whether many more jobs match than the person saw."""
    return seen is not None and matched > seen * GROWTH + FEW


def _look_again(page: str, matched: int, seen: int | None) -> Done:
    said = f"Nothing has begun: {number(matched)} jobs match now, and {number(seen)} did when you looked."
    return Done(page, said, "Look again, then begin.", tone="failed")


def _terms(form: Any) -> dict[str, Any]:
    return {"rate": form.rate, "canary": form.canary, "abort_above": form.stop_above / 100, "reason": form.reason}


def _begun(begun: Redrive, page: str) -> Done:
    if not begun.id:
        return Done(page, "Nothing has begun: no job matches any more.", tone="failed")
    return Done(f"/redrives/{begun.id}", "It has begun.", "Workers carry it out. This page follows it.")


def _preview(
    call: PageCall, wanted: JobFilter, count: str | None, everything: str, services: set[str]
) -> dict[str, Any]:
    """What would be retried, and what a person should know before: services that are down, and workers for these
    kinds. If counting all jobs takes too long for a page, the newest are counted, by kind."""
    rough = count_roughly(call, wanted, count)
    planned: Redrive | None = None if rough else call.console.redrive(wanted, dry_run=True)
    kinds = {match.kind for match in planned.matches} if planned else set(rough.groups) if rough else set()
    is_admin = call.caller.is_admin
    workers = [each for each in call.console.workers() if kinds & set(each.kinds)] if is_admin else None
    return {
        "planned": planned,
        "rough": rough,
        "everything": everything,
        "chosen": len(wanted.ids or ()),
        "states": " or ".join(wanted.states),
        "described": describe_filter(wanted, call.caller.owner),
        "services": services_of(call, services),
        "workers": workers,
        "running": running_versions(call),
        "terms": Terms(),
    }


def count_roughly(call: PageCall, wanted: JobFilter, count: str | None) -> Counts | None:
    """The newest jobs by kind, if there are more than a page can count. None: a dry run counts them all, also if none
    of the newest matches."""
    if count == ALL:
        return None
    found: Counts = call.console.counts(wanted, by="kind")
    return found if found.at_least and found.total else None
