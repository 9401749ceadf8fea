"""Policies: what is retried, how often and when, where each value comes from, and what a change of rules would do."""

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from mulligan.console.policies import PoliciesInForce, PolicyFileStatus, PolicyStatus
from mulligan.console.reclassify import Reclassification
from mulligan.records.job import JobFilter
from mulligan.records.key import Scope
from mulligan.web.api.terms import String
from mulligan.web.pages.page import Done, PageCall, Pages, View
from mulligan.web.pages.policy_views import describe_schedule, draw_schedule, list_values
from mulligan.web.pages.sentence import Sentence, failed, held
from mulligan.web.pages.words import joined, listing, number, plural, verb

pages = Pages("Policies")

# How many failed jobs a page judges in a moment, and how many it judges if asked to.
FIRST_JUDGED, MOST_JUDGED = 200, 1_000
SHOWN_JUDGED, SHOWN_CHANGES = 50, 50
JUDGED_BY = ("kind", "code", "group", "owner")


class OwnerQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    owner: String = ""
    """The policies for the jobs of this owner."""


class JudgedQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which failed jobs are judged again: the newest that match."""

    kind: String = ""
    code: String = ""
    group: String = ""
    owner: String = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_JUDGED)] = FIRST_JUDGED

    def to_filter(self) -> JobFilter:
        given = {name: getattr(self, name) or None for name in JUDGED_BY}
        return JobFilter(state="failed", **given)

    def given(self) -> dict[str, str]:
        return {name: value for name in JUDGED_BY if (value := getattr(self, name))}


class JudgedForm(JudgedQuery, kw_only=True):
    reason: str | None = None


def describe_policies(found: PoliciesInForce) -> Sentence:
    if not found.policies:
        return Sentence(("This app has no tasks.",), ("Each task has a policy, which says when it is retried.",))
    changed = sum(bool(policy.sources) for policy in found.policies)
    file = found.file
    are = f"{plural(len(found.policies), 'policy', 'policies')} {verb(len(found.policies), 'is', 'are')} in force"
    if file is None:
        return Sentence((f"{are}, all as in the code.",), ("A policies file can change them without a deploy.",))
    if file.mistakes:
        mistakes = failed(f"The policies file has {plural(len(file.mistakes), 'mistake')}")
        return Sentence((mistakes, "."), ("The previous version stays in force in workers that run; none can start.",))
    return Sentence((f"{are}, {number(changed)} changed by the policies file.",), (_unknown(file),))


def _unknown(file: PolicyFileStatus) -> str:
    """Names in the file that the app does not have are a mistake in waiting."""
    names = [*file.unknown_kinds, *file.unknown_queues, *file.unknown_services]
    strange = f"It names what this app does not have: {listing(names, 5)}." if names else ""
    return joined(f"Version {file.version} of {file.path}.", strange)


def describe_policy(policy: PolicyStatus) -> Sentence:
    kind, owner = policy.kind, f" of owner {policy.owner}" if policy.owner else ""
    if policy.max_attempts == 1:
        return Sentence((f"{kind}{owner} is tried once, and never retried.",))
    tried = f"{kind}{owner} is tried at most {number(policy.max_attempts)} times."
    return Sentence((tried,), (describe_schedule(policy.schedule),))


def describe_judged(found: Reclassification) -> Sentence:
    judged = len(found.jobs) + len(found.unjudged)
    again = len(found.would_retry)
    more = "" if found.is_complete else f"The newest {plural(judged, 'job')} were judged; there are more."
    lead = (joined(more, "Nothing is changed by this preview."),)
    if not judged:
        return Sentence(("No failed job matches.",), ("Only failed jobs are judged again.",))
    if not again:
        return Sentence((f"None of {plural(judged, 'failed job')} would be retried.",), lead)
    would = f"{number(again)} of {plural(judged, 'failed job')}"
    return Sentence((held(would), " would be retried by the rules that are in force now."), lead)


@pages.page("/policies", scope=Scope.JOBS_READ, is_admin=True)
def show_policies(call: PageCall, query: OwnerQuery) -> View:
    found = call.console.policies_in_force(of_owner=query.owner)
    return View(
        "policies.html",
        says=describe_policies(found),
        policies=[(policy, describe_schedule(policy.schedule)) for policy in found.policies],
        file=found.file,
        packs=call.console.packs(),
        owner=query.owner,
        may_operate=call.allows(Scope.OPERATE),
    )


@pages.page("/policies/kinds/{kind:path}", scope=Scope.JOBS_READ, is_admin=True)
def show_policy(call: PageCall, kind: str, query: OwnerQuery) -> View:
    (policy,) = call.console.policies_in_force(kind, of_owner=query.owner).policies
    return View(
        "policy.html",
        says=describe_policy(policy),
        policy=policy,
        drawn=draw_schedule(policy.schedule),
        values=list_values(policy),
        owner=query.owner,
        may_operate=call.allows(Scope.OPERATE),
    )


@pages.page("/policies/reclassify", scope=Scope.OPERATE, is_admin=True)
def preview_reclassify(call: PageCall, query: JudgedQuery) -> View:
    found = call.console.reclassify(query.to_filter(), dry_run=True, limit=query.limit)
    given = query.given()
    more = urlencode({**given, "limit": MOST_JUDGED})
    return View(
        "reclassify.html",
        says=describe_judged(found),
        found=found,
        counts=found.counts[:SHOWN_CHANGES],
        retried=_shown(found.jobs),
        given={**given, "limit": str(query.limit)},
        query=query,
        names=JUDGED_BY,
        more="" if found.is_complete or query.limit == MOST_JUDGED else f"/policies/reclassify?{more}",
        most=MOST_JUDGED,
    )


def _shown(jobs: Sequence[Any]) -> list[Any]:
    return [job for job in jobs if job.is_retried][:SHOWN_JUDGED]


@pages.action("/policies/reclassify/retry", scope=Scope.OPERATE, is_admin=True)
def reclassify(call: PageCall, form: JudgedForm) -> Done:
    found = call.console.reclassify(
        form.to_filter(), dry_run=False, limit=form.limit, reason=form.reason, request_id=call.request_id
    )
    if not found.retried and not found.skipped:
        return Done("/policies/reclassify", "No failed job would be retried any more.", tone="held")
    are = f"{plural(len(found.retried), 'job')} {verb(len(found.retried), 'is', 'are')} retried."
    first = next(iter(found.skipped.values()), "")
    return Done("/policies", are, f"{number(len(found.skipped))} could not be: {first}." if first else "")
