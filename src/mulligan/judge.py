"""Judges failures: classify, then decide, with the rules and policies of an app.

Workers, the reclaimer, the sandbox and `explain` all use it.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeVar

from mulligan.errors import StoreDamaged
from mulligan.failure.classify import RuleIndex, classify
from mulligan.failure.decide import decide
from mulligan.failure.decision import Cancel, Decision, Fail, Park, Release, Succeed
from mulligan.failure.error_codes import Catalogue
from mulligan.failure.packs.installed import packs
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.rule import AnyRule
from mulligan.failure.verdict import Failure, Verdict
from mulligan.policies.file import NO_FILE, PolicyFile
from mulligan.policies.in_force import InForce
from mulligan.policies.reading import Policies
from mulligan.records.job import Job, Lease
from mulligan.service.allowance import service_open_verdict
from mulligan.service.config import ServiceBook
from mulligan.store.settle import damaged_verdict
from mulligan.task.registry import Registry
from mulligan.task.task import DEFAULT_TIMEOUT
from mulligan.values.duration import parse

R = TypeVar("R")

# Cache bound: there may be many owners.
MOST_CACHED = 10_000
MOST_INDEXES = 1_000


class Judge:
    def __init__(
        self,
        tasks: Registry,
        *,
        rules: Sequence[AnyRule],
        catalogue: Catalogue,
        default: RetryPolicy,
        draw: Callable[[], float],
        policies: PolicyFile = NO_FILE,
        services: ServiceBook | None = None,
    ) -> None:
        self._tasks = tasks
        self.rules: tuple[AnyRule, ...] = tuple(rules)
        self.catalogue = catalogue
        self._default = default
        self._draw = draw
        self._file = policies
        self._services = services or ServiceBook()
        self._services_cache: tuple[Policies | None, ServiceBook] = (None, self._services)
        self._cache: tuple[Policies | None, dict[tuple[str, str], InForce]] = (None, {})
        self._indexes: dict[tuple[str, str], tuple[InForce, RuleIndex]] = {}

    def prepare(self) -> None:
        """Load the rule packs, which import code of other distributions, before the first failure needs them."""
        assert self._pack_rules

    @cached_property
    def _pack_rules(self) -> tuple[AnyRule, ...]:
        return tuple(rule for pack in packs() for rule in pack.rules)

    def verdict(self, failure: Failure, kind: str, owner: str = "") -> Verdict:
        """Classify the failure by the rules of the policies file, the task, the app, the installed packs, and ours."""
        rules = self._index(kind, owner).candidates(failure)
        return classify(failure, kind=kind, rules=rules, catalogue=self.catalogue)

    def _index(self, kind: str, owner: str) -> RuleIndex:
        in_force = self.in_force(kind, owner)
        known, index = self._indexes.get((kind, owner), (None, None))
        if index is None or known is not in_force:
            own: tuple[AnyRule, ...] = self._tasks[kind].rules if kind in self._tasks else ()
            index = RuleIndex((*in_force.rules, *own, *self.rules, *self._pack_rules), kind)
            if len(self._indexes) >= MOST_INDEXES:
                self._indexes = {}
            # A task of this kind may be registered later.
            if kind in self._tasks:
                self._indexes[kind, owner] = in_force, index
        return index

    def decide_lease(self, verdict: Verdict, lease: Lease, *, now: datetime) -> Decision:
        """Decide about a leased job. A job whose record cannot be read fails, so that it does not block others."""
        try:
            job = lease.job
        except StoreDamaged as error:
            return Fail(damaged_verdict(), {"rule": "engine", "because": str(error)})
        return self.decide_job(verdict, job, now=now)

    def decide_job(self, verdict: Verdict, job: Job[R], *, now: datetime) -> Decision:
        """Decide about a failure of the job. The reasons include the version of the policies file."""
        in_force = self.in_force(job.kind, job.owner)
        decision = decide(verdict, in_force.apply_to(job), in_force.policy, now=now, draw=self._draw())
        if in_force.version is not None and not isinstance(decision, Succeed):
            decision.reasons["policies"] = in_force.version
            if not isinstance(decision, Park | Release | Cancel) and decision.spared is not None:
                decision.spared.reasons["policies"] = in_force.version
        return decision

    def in_force(self, kind: str, owner: str = "") -> InForce:
        """The policy, timeout and rules in force for jobs of this kind and owner."""
        current = self._file.current
        policies, found = self._cache
        if policies is not current or len(found) > MOST_CACHED:
            _, found = self._cache = (current, {})
        in_force = found.get((kind, owner))
        if in_force is None:
            in_force = found[kind, owner] = self._in_force(current, kind, owner)
        return in_force

    def _in_force(self, policies: Policies, kind: str, owner: str) -> InForce:
        if kind not in self._tasks:
            return policies.override(InForce(self._default, parse(DEFAULT_TIMEOUT)), kind=kind, owner=owner)
        task = self._tasks[kind]
        code = InForce(task.retry, task.timeout, at_most_once=task.at_most_once)
        return policies.override(code, kind=task.name, owner=owner)

    def services(self) -> ServiceBook:
        """The services in force: those of the code, changed by the policies file."""
        current = self._file.current
        policies, book = self._services_cache
        if policies is not current:
            _, book = self._services_cache = (current, current.override_services(self._services))
        return book

    def refusal(self, lease: Lease) -> Verdict:
        """The verdict for a job that is not tried because its service is open and fails fast."""
        service = self.services().of(lease.service)
        return service_open_verdict(service, lease.service, kind=lease.kind, catalogue=self.catalogue)

    def timeout_of(self, lease: Lease) -> timedelta:
        """How long the attempt may take: the job's own timeout, else the one in force."""
        return lease.own_timeout or self.in_force(lease.kind, lease.owner).timeout

    def is_stuck(self, lease: Lease, now: datetime, *, after: timedelta) -> bool:
        """Whether an attempt runs longer than `after` and than its timeout, which the policies file may have raised."""
        return now - lease.claimed_at > max(after, self.timeout_of(lease))

    def seen(self, job: Job[R]) -> Job[R]:
        """The job to show: if it is not finished, with the limits in force."""
        return job if job.state.is_final else self.in_force(job.kind, job.owner).apply_to(job)
