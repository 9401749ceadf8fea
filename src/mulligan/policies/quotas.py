"""The quotas of queues and owners: those of the code with the policies file's changes, reloaded at run time."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from msgspec import structs

from mulligan.errors import BadPolicy
from mulligan.policies.file import NO_FILE, PolicyFile
from mulligan.policies.owner import Owner, OwnerChanges
from mulligan.policies.queue import Queue, QueueChanges
from mulligan.policies.reading import Policies
from mulligan.records.job import FollowUp, NewJob
from mulligan.records.limit import EVERY_OWNER, LimitBook, RetryBudget

T = TypeVar("T", Queue, Owner)
Followed = TypeVar("Followed", NewJob, FollowUp)


@dataclass(frozen=True, slots=True)
class QuotasInForce:
    """The quotas in force. Jobs without an owner have a weight of 1 and no limit."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    owners: Mapping[str, Owner] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    """The concurrency limits of kinds, from the policies file."""

    @property
    def fair_queues(self) -> tuple[str, ...]:
        return tuple(sorted(queue.name for queue in self.queues.values() if queue.fair))

    def owner(self, name: str) -> Owner:
        if not name:
            return NO_OWNER
        return self.owners.get(name) or self.owners.get(EVERY_OWNER) or NO_OWNER

    def weight(self, queue: str, owner: str) -> float | None:
        """None in a plain queue."""
        if queue not in self.queues or not self.queues[queue].fair:
            return None
        return self.owner(owner).weight or 1.0


NO_OWNER = Owner("none")


class Quotas:
    def __init__(
        self, queues: Iterable[Queue] = (), owners: Iterable[Owner] = (), *, file: PolicyFile = NO_FILE
    ) -> None:
        self._queues = _by_name("queues", Queue, queues)
        self._owners = _by_name("owners", Owner, owners)
        self._file = file
        self._found: tuple[Policies | None, QuotasInForce] = (None, QuotasInForce())
        self._book: tuple[QuotasInForce | None, dict[str, int], LimitBook] = (None, {}, LimitBook())

    @property
    def in_force(self) -> QuotasInForce:
        current = self._file.current
        policies, in_force = self._found
        if policies is not current:
            in_force = self._compute(current)
            self._found = (current, in_force)
        return in_force

    def _compute(self, policies: Policies) -> QuotasInForce:
        """An owner's own values first, then those of `"*"`."""
        owners = _override(self._owners, policies.quotas, Owner)
        defaults = owners.get(EVERY_OWNER, NO_OWNER)
        return QuotasInForce(
            queues=_override(self._queues, policies.queues, Queue),
            owners={name: owner.with_defaults(defaults) for name, owner in owners.items()},
            kinds={name: kind.concurrency for name, kind in policies.kinds.items() if kind.concurrency is not None},
        )

    def fair_queues(self) -> tuple[str, ...]:
        return self.in_force.fair_queues

    @property
    def named_queues(self) -> list[str]:
        """The queues of the code."""
        return list(self._queues)

    def limits(self, kinds: dict[str, int]) -> LimitBook:
        """The limits in force; `kinds` are those of the code."""
        in_force = self.in_force
        of, before, book = self._book
        if of is not in_force or before != kinds:
            book = _limits(in_force, kinds)
            self._book = (in_force, kinds, book)
        return book

    def apply_to(self, job: NewJob) -> NewJob:
        """The job with its owner's weight in a fair queue and limits on submissions."""
        in_force = self.in_force
        if not in_force.queues and not in_force.owners:
            return job
        weight, owner = in_force.weight(job.queue, job.owner), in_force.owner(job.owner)
        followed = _add_weights(job, job.owner, in_force)
        if weight is None and owner.rate is None and owner.max_live is None and followed is job:
            return job
        return structs.replace(
            followed,
            weight=weight,
            submit_rate=owner.rate,
            max_live=owner.max_live,
            is_counted=owner.max_live is not None,
        )

    def add_weight(self, follow_up: FollowUp, owner: str) -> FollowUp:
        """The follow-up with its owner's weight."""
        return _add_weight(follow_up, owner, self.in_force)


def _limits(in_force: QuotasInForce, kinds: Mapping[str, int]) -> LimitBook:
    budgets = {name: _budget(owner) for name, owner in in_force.owners.items()}
    return LimitBook(
        kinds={**kinds, **in_force.kinds},
        queues={name: one.concurrency for name, one in in_force.queues.items() if one.concurrency is not None},
        owners={name: one.concurrency for name, one in in_force.owners.items() if one.concurrency is not None},
        budgets={name: budget for name, budget in budgets.items() if budget is not None},
    )


def _budget(owner: Owner) -> RetryBudget | None:
    found = (owner.retries_per_day, owner.retries_per_month, owner.cost_per_month)
    if all(part is None for part in found):
        return None
    return RetryBudget(*found, over=owner.over_budget or "wait")


def _add_weight(follow_up: FollowUp, owner: str, in_force: QuotasInForce) -> FollowUp:
    followed, weight = _add_weights(follow_up, owner, in_force), in_force.weight(follow_up.queue, owner)
    is_counted = in_force.owner(owner).max_live is not None
    if weight is None and not is_counted:
        return followed
    return structs.replace(followed, weight=weight, is_counted=is_counted)


def _add_weights(job: Followed, owner: str, in_force: QuotasInForce) -> Followed:
    """The same job, with the owner's weight in those that follow it."""
    failed = job.on_failed and _add_weight(job.on_failed, owner, in_force)
    cancelled = job.on_cancelled and _add_weight(job.on_cancelled, owner, in_force)
    if failed is job.on_failed and cancelled is job.on_cancelled:
        return job
    return structs.replace(job, on_failed=failed, on_cancelled=cancelled)


def _by_name(what: str, kind: type[T], given: Iterable[T]) -> dict[str, T]:
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if not all(isinstance(one, kind) for one in listed):
        raise BadPolicy(f"{what} must be a list of {kind.__name__}(…), not {given!r:.200}")
    found = {one.name: one for one in listed}
    if len(found) < len(listed):
        twice = next(name for name in found if sum(one.name == name for one in listed) > 1)
        raise BadPolicy(f"{what} names {twice!r} twice; give it once")
    return found


def _override(code: Mapping[str, T], changes: QueueChanges | OwnerChanges, kind: Callable[[str], T]) -> dict[str, T]:
    changed: dict[str, Any] = {name: replace(code.get(name) or kind(name), **one) for name, one in changes.items()}
    return {**code, **changed}
