"""The oracle checks gates: which gate blocks each waiting job, and how retries are charged to owners."""

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mulligan.policies.owner import Owner
from mulligan.records.limit import part_of
from mulligan.store.budgets import Periods
from simulator.broken import require
from simulator.lives import Life, Lives
from simulator.server import Call, Entry

if TYPE_CHECKING:
    from simulator.world import World

BUDGET = "owner-budget/"
POINTS = {
    "limit/kind/": "a job waits for a slot",
    "limit/queue/": "a job waits for a slot",
    "limit/owner/": "a job waits for a slot",
    "budget/": "a retry waits for the budget of its service",
    "probe/": "a failed probe waits for the others to be tried",
}


class GateWatch:
    def __init__(self, world: "World", lives: Lives) -> None:
        self._world = world
        self._reached = world.reached.note
        self._lives = lives
        self._budgets = {owner.name: owner for owner in world.parameters.allotment.owners if _has_budget(owner)}
        self._spent: Counter[tuple[str, str]] = Counter()
        parameters = world.parameters
        self._is_wanted = parameters.has_gateway or bool(parameters.allotment.owners or parameters.allotment.queues)
        self._is_wanted |= bool(parameters.allotment.kinds)

    def owes(self, life: Life) -> bool:
        """A retry that its owner's budget has to pay for."""
        return life.is_unpaid and life.owner in self._budgets

    def look(self, call: Call, entries: list[Entry]) -> None:
        """After an operation that wrote: which gate blocks which job now, and which job exceeded its budget."""
        if not self._is_wanted:
            return
        gates = {id_: (gate, due, reason) for id_, gate, due, reason in self._world.server.store.parked()}
        for life in self._lives.waiting.values():
            gate, due, reason = gates.get(life.id, ("", life.due, ""))
            if gate != life.gate:
                life.gate = gate
                self._notice(life)
            if reason == "budget" and due != life.due:
                self._waits(call, life, due)
        passed = [life for life in self._unpaid(entries) if self._has_passed(life)]
        if passed:
            self._pay(call, passed)

    def _notice(self, life: Life) -> None:
        for prefix, point in POINTS.items():
            if life.gate.startswith(prefix):
                self._reached(point)

    def _waits(self, call: Call, life: Life, due: int) -> None:
        periods = Periods.at(call.now)
        require(due in (periods.next_day, periods.next_month), f"{life.name} waits for no period that begins")
        life.due = due
        self._reached("a budget is out")

    def _unpaid(self, entries: list[Entry]) -> list[Life]:
        moved = [self._lives.by_id[entry.job] for entry in entries if entry.job]
        return [life for life in dict.fromkeys([*moved, *self._lives.waiting.values()]) if self.owes(life)]

    def _has_passed(self, life: Life) -> bool:
        return life.state in ("queued", "running") or life.gate.startswith(("limit/", "budget/"))

    def _pay(self, call: Call, passed: list[Life]) -> None:
        day, month = _day(call.now), _day(call.now)[:7]
        for life in passed:
            life.is_unpaid = False
            self._spent[life.owner, day] += 1
            self._spent[life.owner, month] += 1
        stored = self._world.server.store.spending_by_owner()
        for name in dict.fromkeys(life.owner for life in passed):
            owner = self._budgets[name]
            last = max(life.priority for life in passed if life.owner == name)
            for period, most in ((day, owner.retries_per_day), (month, owner.retries_per_month)):
                spent = self._spent[name, period]
                require(stored.get((name, period)) == spent, f"{name} spent {spent}, not {stored.get((name, period))}")
                require(
                    most is None or spent <= part_of(most, last), f"{name} spent {spent} retries, {most} were allowed"
                )

    def failed(self, life: Life, entry: Entry) -> None:
        """Instead of being admitted."""
        require(entry.code == "BUDGET_EXHAUSTED" and self.owes(life), f"{life.name} failed while it waited")
        require(self._budgets[life.owner].over_budget == "fail", f"{life.name} was to wait for its budget")
        life.is_unpaid = False
        self._reached("a budget is out")


def _has_budget(owner: Owner) -> bool:
    return owner.retries_per_day is not None or owner.retries_per_month is not None


def _day(now: int) -> str:
    return f"{datetime.fromtimestamp(now / 1_000_000, UTC):%Y-%m-%d}"
