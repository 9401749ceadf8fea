"""Retry budgets of owners, as the model knows them: every admitted retry is kept, and counted when asked."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from conformance.model_jobs import ModelJob
from mulligan.records.limit import EVERY_OWNER, LimitBook, RetryBudget

BUDGET = "budget"


@dataclass
class Spent:
    owner: str
    at: datetime
    cost: int


@dataclass
class Budgets:
    spent: list[Spent] = field(default_factory=list)

    def needed(self, job: ModelJob, book: LimitBook) -> bool:
        """Automatic retries need a budget where there are some; whatever a person asks for does not."""
        is_retry = job.trigger == "automatic" and job.waiting_for == "retry"
        return is_retry and _budget(job.asked.owner, book) is not None

    def obstacle(self, job: ModelJob, book: LimitBook, now: datetime) -> datetime | None:
        """When there may be room for this retry; None: it may pass."""
        budget = _budget(job.asked.owner, book)
        if budget is None:
            return None
        today, month, cost = self.of(job.asked.owner, now)
        if _is_over(month + 1, budget.per_month, job) or _is_over(cost + job.asked.cost, budget.cost_per_month, job):
            return next_month(now)
        return next_day(now) if _is_over(today + 1, budget.per_day, job) else None

    def fails_beyond(self, job: ModelJob, book: LimitBook) -> bool:
        budget = _budget(job.asked.owner, book)
        return budget is not None and budget.over == "fail"

    def charge(self, job: ModelJob, now: datetime) -> None:
        self.spent.append(Spent(job.asked.owner, now, job.asked.cost))

    def of(self, owner: str, now: datetime) -> tuple[int, int, int]:
        """Retries of this day and of this month, and what these cost."""
        month = [one for one in self.spent if one.owner == owner and f"{one.at:%Y-%m}" == f"{now:%Y-%m}"]
        return sum(one.at.date() == now.date() for one in month), len(month), sum(one.cost for one in month)


def next_day(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def next_month(now: datetime) -> datetime:
    day = next_day(now)
    while day.day != 1:
        day += timedelta(days=1)
    return day


def _budget(owner: str, book: LimitBook) -> RetryBudget | None:
    return (book.budgets.get(owner) or book.budgets.get(EVERY_OWNER)) if owner else None


def _is_over(used: int, budget: int | None, job: ModelJob) -> bool:
    """Low priority stops at 80 %, normal at 95 %: once that much is used, not before."""
    if budget is None:
        return False
    percent = 100 if job.asked.priority < 0 else 95 if job.asked.priority < 10 else 80
    return 100 * (used - 1) >= budget * percent
