"""Retry budgets of owners.

A due retry waits under its owner's gate until it is admitted here, by priority and age; its cost is written in the same
transaction. Admission is exclusive (`limits.py`), so no two transactions spend the same budget.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any

from mulligan.failure.verdict import budget_exhausted
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.limit import EVERY_OWNER, RetryBudget, SpendingRecord, part_of
from mulligan.store.events import failure_data
from mulligan.store.rows import Record, error_values, from_time, to_duration, to_json, to_time
from mulligan.store.session import Session

GATE = "owner-budget/"
END = "owner-budget0"
DAY = to_duration(timedelta(days=1))
# Per claim: gates checked, and jobs per gate.
GATES = 50
EACH = 100


@dataclass(frozen=True, slots=True)
class Periods:
    """Day and month of a time in UTC, the previous month, and when the next day and month begin."""

    day: str
    month: str
    last_month: str
    next_day: int
    next_month: int

    @classmethod
    def at(cls, now: int) -> "Periods":
        return cls._of(now // DAY)

    @classmethod
    @lru_cache(maxsize=2)
    def _of(cls, day: int) -> "Periods":
        midnight = from_time(day * DAY)
        first = midnight.replace(day=1)
        later = (first + timedelta(days=32)).replace(day=1)
        return cls(
            day=f"{midnight:%Y-%m-%d}",
            month=f"{midnight:%Y-%m}",
            last_month=f"{first - timedelta(days=1):%Y-%m}",
            next_day=to_time(midnight + timedelta(days=1)),
            next_month=to_time(later),
        )


@dataclass(frozen=True, slots=True)
class Spent:
    """What the retries of an owner have used so far."""

    today: int = 0
    this_month: int = 0
    cost: int = 0

    def after(self, cost: int) -> "Spent":
        return Spent(self.today + 1, self.this_month + 1, self.cost + cost)

    def find_shortage(self, budget: RetryBudget, job: "DueRetry", periods: Periods) -> "Shortage | None":
        """Return which part of the budget is too small for this retry, or None if it may run."""
        parts = (
            ("retries", periods.month, periods.next_month, self.this_month, 1, budget.per_month),
            ("cost", periods.month, periods.next_month, self.cost, job.cost, budget.cost_per_month),
            ("retries", periods.day, periods.next_day, self.today, 1, budget.per_day),
        )
        for what, period, until, used, more, most in parts:
            if most is not None and used + more > (part := part_of(most, job.priority)):
                return Shortage(what=what, period=period, until=until, used=used, more=more, part=part, most=most)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why a retry may not run: of `most` in this period, `part` is for jobs of its priority; `used` is used, and the
    retry needs `more`. There may be budget again at `until`."""

    what: str
    period: str
    until: int
    used: int
    more: int
    part: int
    most: int

    def reasons(self, owner: str) -> dict[str, Any]:
        """The event data of a job that failed because of it."""
        return {
            "because": "budget exhausted",
            "owner": owner,
            "what": self.what,
            "period": self.period,
            "used": self.used,
            "takes": self.more,
            "of": self.most,
            "part": self.part,
        }


@dataclass(frozen=True, slots=True)
class DueRetry:
    """A retry that waits for its owner's budget."""

    id: str
    owner: str
    priority: int
    rank: int
    cost: int

    @property
    def place(self) -> tuple[int, int, str]:
        """The order in which retries get the budget of their owner."""
        return self.priority, self.rank, self.id


# Before every job.
START = (-(2**31), -(2**63), "")


@dataclass(slots=True)
class Spending:
    """Which retries may run, wait until when, or fail; and the spending after that."""

    spent: Spent
    admitted: list[str] = field(default_factory=list)
    waiting: dict[str, int] = field(default_factory=dict)
    failed: dict[Shortage, list[str]] = field(default_factory=dict)


def spend(jobs: Iterable[DueRetry], budget: RetryBudget | None, spent: Spent, periods: Periods) -> Spending:
    """Decide by priority and age. Without a budget all retries may run."""
    found = Spending(spent)
    for job in sorted(jobs, key=lambda one: one.place):
        shortage = None if budget is None else found.spent.find_shortage(budget, job, periods)
        if shortage is None:
            found.admitted.append(job.id)
            found.spent = found.spent.after(job.cost)
        elif budget is not None and budget.over == "fail":
            found.failed.setdefault(shortage, []).append(job.id)
        else:
            found.waiting[job.id] = shortage.until
    return found


class BudgetOperations:
    def __init__(self) -> None:
        self._after = GATE
        self._walked: dict[str, tuple[int, int, str]] = {}
        """By owner, the place of the retry considered last, if more retries wait than are considered at once."""
        self.has_more = False
        """After `admit`: an owner had as many admitted retries as are considered at once, so there may be more."""

    def admit(self, session: Session) -> list[Record]:
        """Admit the retries that their owners' budgets allow. Return the rows of those that failed because of their
        budget."""
        rows = session.rows("gates", after=self._after, until=END, limit=GATES)
        self._after = rows[-1]["gate"] if len(rows) == GATES else GATE
        self.has_more = False
        owners = [row["gate"].removeprefix(GATE) for row in rows]
        if not owners:
            return []
        periods = Periods.at(session.moment())
        budgets = self._load_budgets(session, owners)
        spent = self._load_spent(session, owners, periods)
        found = session.rows("budgets_first", gates=to_json([GATE + owner for owner in owners]), each=EACH)
        due = [DueRetry(**row) for row in found]
        failed: list[Record] = []
        for owner in owners:
            retries = [job for job in due if job.owner == owner]
            decided = spend(retries, budgets.get(owner), spent[owner], periods)
            if len(decided.waiting) == EACH:
                retries = list({*retries, *self._walk_on(session, owner)})
                decided = spend(retries, budgets.get(owner), spent[owner], periods)
            else:
                # There is budget again: the first of those that wait come first.
                self._walked.pop(owner, None)
            self.has_more = self.has_more or len(retries) - len(decided.waiting) >= EACH
            failed += self._write(session, owner, decided, periods)
        return failed

    def _walk_on(self, session: Session, owner: str) -> list[DueRetry]:
        """Return the next retries of an owner with more than are considered at once. In time all are considered: one
        that costs less may run though the first must wait, and each shows until when it waits."""
        priority, rank, id_ = self._walked.pop(owner, START)
        where = {"gate": GATE + owner, "priority": priority, "rank": rank, "id": id_}
        found = [DueRetry(**row) for row in session.rows("budgets_next", **where, each=EACH)]
        if len(found) == EACH:
            self._walked[owner] = found[-1].place
        return found

    def _load_budgets(self, session: Session, owners: Sequence[str]) -> dict[str, RetryBudget]:
        names = to_json([f"owner/{name}" for name in (*owners, EVERY_OWNER)])
        rows = session.rows("budgets_named", gates=names)
        found = {row["gate"].removeprefix("owner/"): _budget(row) for row in rows}
        default = found.get(EVERY_OWNER)
        budgets = {owner: found.get(owner, default) for owner in owners}
        return {owner: budget for owner, budget in budgets.items() if budget is not None}

    def _load_spent(self, session: Session, owners: Sequence[str], periods: Periods) -> dict[str, Spent]:
        names = to_json(list(owners))
        rows = session.rows("spending_of", owners=names, periods=to_json([periods.day, periods.month]))
        found = dict.fromkeys(owners, Spent())
        for row in rows:
            spent = found[row["owner"]]
            found[row["owner"]] = (
                replace(spent, this_month=row["retries"], cost=row["cost"])
                if row["period"] == periods.month
                else replace(spent, today=row["retries"])
            )
        return found

    def _write(self, session: Session, owner: str, decided: Spending, periods: Periods) -> list[Record]:
        if decided.admitted:
            spent = decided.spent
            sums = [
                {"owner": owner, "period": periods.day, "retries": spent.today, "cost": 0},
                {"owner": owner, "period": periods.month, "retries": spent.this_month, "cost": spent.cost},
            ]
            session.rows("spending_write", sums=to_json(sums))
            self._promote(session, decided.admitted)
        if decided.waiting:
            waiting = [{"id": id_, "due_at": due_at} for id_, due_at in decided.waiting.items()]
            session.rows("budgets_wait", jobs=to_json(waiting), now=session.moment())
        failed: list[Record] = []
        for shortage, ids in decided.failed.items():
            failed += self._fail(session, ids, shortage.reasons(owner))
        return failed

    def _promote(self, session: Session, ids: Sequence[str]) -> None:
        """Move them to the next gate, or into the queue."""
        step = TABLE[Move.PROMOTE, State.WAITING]
        rows = session.rows("budgets_admit", ids=to_json(list(ids)), queued=step.target.value, now=session.moment())
        if queued := [row for row in rows if row["state"] == step.target]:
            session.rows(
                "events_of_many", jobs=to_json(queued), event=step.event, code=None, data="{}", now=session.moment()
            )

    def _fail(self, session: Session, ids: Sequence[str], reasons: dict[str, Any]) -> list[Record]:
        step, verdict = TABLE[Move.EXPIRE, State.WAITING], budget_exhausted()
        values = {
            "ids": to_json(list(ids)),
            "failed": step.target.value,
            "now": session.moment(),
            **error_values(verdict),
        }
        rows = session.rows("budgets_fail", **values)
        data = to_json(failure_data(verdict, reasons))
        session.rows(
            "events_of_many", jobs=to_json(rows), event=step.event, code=verdict.code, data=data, now=session.moment()
        )
        return rows

    def forget(self, session: Session) -> None:
        """Delete spending older than the previous month."""
        session.rows("spending_forget", before=Periods.at(session.moment()).last_month)

    def find_spending(self, session: Session, owner: str, known: RetryBudget | None) -> SpendingRecord | None:
        """`known` is the budget that applies once a worker has announced it."""
        budget = self._load_budgets(session, [owner]).get(owner, known)
        if budget is None:
            return None
        spent = self._load_spent(session, [owner], Periods.at(session.moment()))[owner]
        return _spending(owner, spent, budget)

    def list_spending(self, session: Session) -> list[SpendingRecord]:
        """Of the owners that have a budget of their own."""
        rows = session.rows("budgets_listed")
        budgets = {row["gate"].removeprefix("owner/"): _budget(row) for row in rows}
        spent = self._load_spent(session, list(budgets), Periods.at(session.moment()))
        return [_spending(owner, spent[owner], budget) for owner, budget in budgets.items()]


def _spending(owner: str, spent: Spent, budget: RetryBudget) -> SpendingRecord:
    return SpendingRecord(
        owner=owner,
        today=spent.today,
        this_month=spent.this_month,
        cost_this_month=spent.cost,
        budget=budget,
    )


def _budget(row: Record) -> RetryBudget:
    return RetryBudget(row["per_day"], row["per_month"], row["cost"], row["over"])
