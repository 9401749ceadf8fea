"""Limits: how many jobs may run at once, how many do, and what retries have cost."""

from collections.abc import Callable
from dataclasses import dataclass

from mulligan.console.arguments import NAME, check
from mulligan.records.limit import EVERY_OWNER, LimitRecord, SpendingRecord
from mulligan.store.store import Store


@dataclass(frozen=True, slots=True)
class LimitUsage:
    store: Callable[[], Store]

    @check(owner=NAME)
    def list_limits(self, *, owner: str | None = None) -> list[LimitRecord]:
        listed = self.store().limits()
        if owner is None or any((limit.what, limit.name) == ("owner", owner) for limit in listed):
            return listed
        return listed + self.store().limits([f"owner/{owner}"])

    def default_for_owners(self) -> int | None:
        found = self.store().limits([f"owner/{EVERY_OWNER}"])
        return found[0].most if found else None

    def list_budgets(self) -> list[SpendingRecord]:
        return self.store().budgets()

    @check(owner=NAME)
    def spending(self, owner: str) -> SpendingRecord | None:
        return self.store().spending(owner)
