"""Limits: how many jobs of a kind, a queue or an owner run at once, and how many retries an owner may use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mulligan.records.job import PRIORITIES, NewJob
from mulligan.records.subscription import DELIVER_KIND, sender_of

EVERY_OWNER = "*"
# Percent of a retry budget that jobs of low and normal priority may use. The rest is reserved for higher priorities.
LOW_PART, NORMAL_PART = 80, 95


def part_of(budget: int, priority: int) -> int:
    """How much of a retry budget jobs of this priority may use. Rounded up, so a small budget reserves nothing."""
    if priority < PRIORITIES["normal"]:
        return budget
    percent = NORMAL_PART if priority < PRIORITIES["low"] else LOW_PART
    return -(-budget * percent // 100)


class Limited(Protocol):
    """What limits look at of a job."""

    @property
    def kind(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def service(self) -> str: ...


def subjects_of(job: Limited) -> list[str]:
    """The subjects of limits that can apply to a job, in the order they are checked.

    The owner and the sender come first: their jobs without a free slot then wait under their own gate, and do not delay
    others under a shared one.
    """
    own = [f"owner/{job.owner}"] if job.owner else []
    sent = [f"sender/{sender_of(job.service)}"] if job.kind == DELIVER_KIND else []
    return [*own, *sent, f"queue/{job.queue}", f"kind/{job.kind}"]


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """The automatic retries of one owner, by the store's clock in UTC. Retries beyond the budget `"wait"` for the next
    period or `"fail"`, as `over` says."""

    per_day: int | None = None
    per_month: int | None = None
    cost_per_month: int | None = None
    over: str = "wait"


@dataclass(frozen=True, slots=True)
class Limit:
    """`subject` is `kind/NAME`, `queue/NAME` or `owner/NAME`. Senders (`sender/NAME`) have a fixed limit."""

    subject: str
    most: int | None = None
    budget: RetryBudget | None = None


@dataclass(frozen=True, slots=True)
class LimitBook:
    """The limits that a process knows. An owner that is not named has the limits of `"*"`."""

    kinds: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, int] = field(default_factory=dict)
    budgets: Mapping[str, RetryBudget] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Limit]:
        yield from (Limit(f"kind/{name}", most) for name, most in self.kinds.items())
        yield from (Limit(f"queue/{name}", most) for name, most in self.queues.items())
        for name in {**self.owners, **self.budgets}:
            yield Limit(f"owner/{name}", self.owners.get(name), self.budgets.get(name))

    def budget_of(self, owner: str) -> RetryBudget | None:
        return self.budgets.get(owner, self.budgets.get(EVERY_OWNER))

    def concerns(self, job: NewJob) -> bool:
        """Whether the job has to wait for a slot."""
        return (
            job.kind in self.kinds
            or job.queue in self.queues
            or (job.owner != "" and (job.owner in self.owners or EVERY_OWNER in self.owners))
        )


NO_LIMITS = LimitBook()


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRecord:
    """A limit as people see it: `taken` slots of `most` are held by jobs that run or are ready to run."""

    what: str
    name: str
    most: int
    taken: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingRecord:
    """How much of an owner's retry budget is used, today and this month."""

    owner: str
    today: int
    this_month: int
    cost_this_month: int
    budget: RetryBudget
