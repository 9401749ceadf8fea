"""The menu, with the numbers that call for attention."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mulligan.app import App
from mulligan.errors import MulliganError
from mulligan.records.job import JobFilter
from mulligan.records.key import Scope
from mulligan.service.state import BreakerState
from mulligan.web.access.caller import Caller
from mulligan.web.access.console import Console

# Seconds. Every page has these numbers.
REMEMBERED = 2.0
MOST_REMEMBERED = 1_000


class Item(NamedTuple):
    """`counted` names the number beside it, which has the colour of `tone` and a sign."""

    path: str
    label: str
    is_admin: bool = False
    counted: str = ""
    sign: str = ""
    tone: str = ""
    scope: Scope = Scope.JOBS_READ


GROUPS: tuple[tuple[Item, ...], ...] = (
    (
        Item("/", "Failures", counted="failed", tone="failed"),
        Item("/jobs", "Jobs", sign="queued"),
        Item("/batches", "Batches", counted="partial", sign="partial", tone="held"),
    ),
    (
        Item("/services", "Services", is_admin=True, counted="open", sign="open", tone="held"),
        Item("/retries", "Retries"),
        Item("/workers", "Workers", is_admin=True, counted="stuck", sign="stuck", tone="held"),
        Item("/queues", "Queues", is_admin=True),
        Item("/duties", "Duties", is_admin=True),
        Item("/schedules", "Schedules", is_admin=True),
    ),
    (
        Item("/redrives", "Redrives"),
        Item("/policies", "Policies", is_admin=True),
        Item("/alerts", "Alerts", is_admin=True),
        Item("/notifications", "Notifications", scope=Scope.WEBHOOKS_MANAGE),
        Item("/keys", "Keys", scope=Scope.KEYS_MANAGE),
        Item("/audit", "Audit", scope=Scope.KEYS_MANAGE),
        Item("/doctor", "Doctor", is_admin=True),
    ),
)


class Entry(NamedTuple):
    """An item as it is shown. `number` is None without anything to say."""

    item: Item
    number: int | None
    is_current: bool


@dataclass(slots=True)
class Menu:
    """`more` are items beside those that every dashboard has."""

    app: App
    monotonic: Callable[[], float]
    more: Sequence[Item] = ()
    _numbers: dict[str | None, tuple[float, dict[str, int]]] = field(default_factory=dict)

    def of(self, caller: Caller, path: str) -> list[list[Entry]]:
        """The entries that the caller may use."""
        numbers = self._find(caller)
        current = _current(path)
        return [
            [
                Entry(item, numbers.get(item.counted) or None, item.path == current)
                for item in group
                if (caller.is_admin or not item.is_admin) and item.scope in caller.scopes
            ]
            for group in ((*GROUPS[0], *self.more), *GROUPS[1:])
        ]

    def _find(self, caller: Caller) -> dict[str, int]:
        until, numbers = self._numbers.get(caller.owner, (0.0, {}))
        now = self.monotonic()
        if now >= until:
            numbers = _count(Console(self.app, caller), caller)
            if len(self._numbers) >= MOST_REMEMBERED:
                self._numbers.clear()
            self._numbers[caller.owner] = now + REMEMBERED, numbers
        return numbers


def _count(console: Console, caller: Caller) -> dict[str, int]:
    """Without them, the page itself still works."""
    try:
        found = {
            "failed": console.counts(JobFilter(state="failed")).total,
            "partial": len(console.batches(state="partial", limit=100)),
        }
        if caller.is_admin:
            found["open"] = sum(each.state != BreakerState.CLOSED for each in console.services())
            found["stuck"] = len(console.stuck(limit=100))
    except MulliganError:
        return {}
    return found


def _current(path: str) -> str:
    """The path of the item to which a page belongs."""
    if path.startswith("/failures"):
        return "/"
    return "/" + path.lstrip("/").partition("/")[0]
