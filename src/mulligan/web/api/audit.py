"""The audit: who changed what."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mulligan.console.arguments import LARGEST_PAGE
from mulligan.records.audit import AuditEntry
from mulligan.records.key import Scope
from mulligan.values.check import LONGEST_STRING
from mulligan.web.route import Call, Many, Routes

routes = Routes("Audit")


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE)] = 50
    cursor: Annotated[str, Meta(max_length=LONGEST_STRING)] | None = None


@routes.get("/audit", scope=Scope.KEYS_MANAGE, answer=Many("audit", AuditEntry, pages=True))
def audit(call: Call, query: AuditQuery) -> Any:
    """Changes made through this API, newest first. The key of an owner sees changes by keys of that owner."""
    found = call.console.audit(limit=query.limit, cursor=query.cursor)
    return found, found[-1].id if len(found) == query.limit else None
