"""Limits: how many jobs may run at once, how many do, and what retries have cost."""

from collections.abc import Callable

from mulligan.console.arguments import NAME, check
from mulligan.records.limit import EVERY_OWNER, LimitRecord, SpendingRecord
from mulligan.store.store import Store


class LimitUsage:
    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    @check(owner=NAME)
    def list_limits(self, *, owner: str | None = None) -> list[LimitRecord]:
        listed = self._store().limits()
        if owner is None or any((limit.what, limit.name) == ("owner", owner) for limit in listed):
            return listed
        return listed + self._store().limits([f"owner/{owner}"])

    def default_for_owners(self) -> int | None:
        found = self._store().limits([f"owner/{EVERY_OWNER}"])
        return found[0].most if found else None

    @check(owner=NAME)
    def spending(self, owner: str) -> SpendingRecord | None:
        return self._store().spending(owner)
