"""The audit: who changed what. It is read here; requests and keys write it, and only retention deletes from it."""

from collections.abc import Callable
from dataclasses import dataclass

from mulligan.console.arguments import CURSOR, NAME, PAGE_SIZE, check
from mulligan.records.audit import AuditEntry
from mulligan.store.store import Store


@dataclass(frozen=True, slots=True)
class Audit:
    store: Callable[[], Store]

    @check(owner=NAME, limit=PAGE_SIZE, cursor=CURSOR)
    def list_entries(self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> list[AuditEntry]:
        return self.store().audit(owner=owner, limit=limit, cursor=cursor)
