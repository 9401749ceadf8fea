"""The audit: who changed what, when, from where, and whether it was done."""

from collections.abc import Sequence

import msgspec

from mulligan.records.audit import AuditEntry
from mulligan.records.key import Scope
from mulligan.web.api.terms import String
from mulligan.web.pages.page import PageCall, Pages, View
from mulligan.web.pages.sentence import Sentence, ago, clock

pages = Pages("Audit")

PAGE = 50


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    owner: String = ""
    """Changes by keys of this owner. Only an administrator gives it."""
    cursor: String | None = None


def describe_audit(entries: Sequence[AuditEntry], *, is_first: bool) -> Sentence:
    if not entries:
        nothing = "Nothing was changed yet." if is_first else "There are no older changes."
        return Sentence((nothing,), ("Each change through the API and these pages is recorded before it is made.",))
    if not is_first:
        return Sentence(("Changes up to ", clock(entries[0].at), "."))
    last = entries[0]
    return Sentence((f"{last.actor} made the last change, ", ago(last.at), "."), (_refused(entries),))


def _refused(entries: Sequence[AuditEntry]) -> str:
    refused = sum(outcome_of(entry) == "refused" for entry in entries)
    return f"{refused} of the last {len(entries)} were refused." if refused else ""


def outcome_of(entry: AuditEntry) -> str:
    """`done`, `refused`, `failed` or `open`. Only requests have a status; a command is recorded when it is done."""
    if entry.status is None:
        return "open" if " /" in entry.action else "done"
    if entry.status < 400:
        return "done"
    return "failed" if entry.status >= 500 else "refused"


@pages.page("/audit", scope=Scope.KEYS_MANAGE)
def show_audit(call: PageCall, query: AuditQuery) -> View:
    chosen = {"owner": query.owner} if query.owner and call.caller.is_admin else {}
    entries = call.console.audit(limit=PAGE, cursor=query.cursor, **chosen)
    return View(
        "audit.html",
        says=describe_audit(entries, is_first=query.cursor is None),
        entries=[(entry, outcome_of(entry)) for entry in entries],
        cursor=entries[-1].id if len(entries) == PAGE else None,
        owner=query.owner,
    )
