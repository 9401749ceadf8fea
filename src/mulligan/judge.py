"""The one place where failures are judged: classify, then decide, with the rules and policies of an app.

Workers, the reclaimer, the sandbox and `explain` all ask here.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from mulligan.errors import StoreDamaged
from mulligan.failure.catalogue import Catalogue
from mulligan.failure.classify import AnyRule, classify
from mulligan.failure.decide import decide
from mulligan.failure.decision import Cancel, Decision, Fail, Park, Release, Succeed
from mulligan.failure.packs import installed
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.verdict import Failure, Verdict
from mulligan.policies import NO_FILE, InForce, Policies, PolicyFile
from mulligan.records.job import Job, Lease
from mulligan.service import ServiceBook, service_open_verdict
from mulligan.store.settle import damaged
from mulligan.task.registry import Registry
from mulligan.task.task import DEFAULT_TIMEOUT
from mulligan.values.duration import parse

R = TypeVar("R")

# Owners may be many: beyond this it is forgotten what is in force for whom, and found again.
REMEMBERED = 10_000


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
        self._rules: tuple[AnyRule, ...] = tuple(rules)
        self.catalogue = catalogue
        self._default = default
        self._draw = draw
        self._file = policies
        self._services = services or ServiceBook()
        self._services_found: tuple[Policies | None, ServiceBook] = (None, self._services)
        self._found: tuple[Policies | None, dict[tuple[str, str], InForce]] = (None, {})

    def verdict(self, failure: Failure, kind: str, owner: str = "") -> Verdict:
        """What the failure is: the rules of the policies file, then the task's, the app's, installed packs', ours."""
        own: tuple[AnyRule, ...] = self._tasks[kind].rules if kind in self._tasks else ()
        rules: tuple[AnyRule, ...] = (*self.in_force(kind, owner).rules, *own, *self._rules, *installed.rules())
        return classify(failure, kind=kind, rules=rules, catalogue=self.catalogue)

    def decision(self, verdict: Verdict, lease: Lease, *, now: datetime) -> Decision:
        """What is done about it. A job whose record cannot be read fails, and keeps no other from its turn."""
        try:
            job = lease.job
        except StoreDamaged as error:
            return Fail(damaged(), {"rule": "engine", "because": str(error)})
        return self.decided(verdict, job, now=now)

    def decided(self, verdict: Verdict, job: Job[R], *, now: datetime) -> Decision:
        """What is done about this failure of the job. The version of the policies file is one of the reasons."""
        standing = self.in_force(job.kind, job.owner)
        decision = decide(verdict, standing.over(job), standing.policy, now=now, draw=self._draw())
        if standing.version is not None and not isinstance(decision, Succeed):
            decision.reasons["policies"] = standing.version
            if not isinstance(decision, Park | Release | Cancel) and decision.spared is not None:
                decision.spared.reasons["policies"] = standing.version
        return decision

    def in_force(self, kind: str, owner: str = "") -> InForce:
        """The policy, timeout and rules for jobs of this kind and owner, as things stand."""
        current = self._file.current
        policies, found = self._found
        if policies is not current or len(found) > REMEMBERED:
            _, found = self._found = (current, {})
        standing = found.get((kind, owner))
        if standing is None:
            standing = found[kind, owner] = self._in_force(current, kind, owner)
        return standing

    def _in_force(self, policies: Policies, kind: str, owner: str) -> InForce:
        if kind not in self._tasks:
            return policies.over(InForce(self._default, parse(DEFAULT_TIMEOUT)), kind=kind, owner=owner)
        task = self._tasks[kind]
        code = InForce(task.retry, task.timeout, at_most_once=task.at_most_once)
        return policies.over(code, kind=task.name, owner=owner)

    def services(self) -> ServiceBook:
        """The services in force: those of the code with what the policies file says of them."""
        current = self._file.current
        policies, book = self._services_found
        if policies is not current:
            _, book = self._services_found = (current, current.services_over(self._services))
        return book

    def refused(self, lease: Lease) -> Verdict:
        """What is said of a job that is not tried, for its service is open and fails fast."""
        service = self.services().of(lease.service)
        return service_open_verdict(service, lease.service, kind=lease.kind, catalogue=self.catalogue)

    def is_over_time(self, lease: Lease, now: datetime) -> bool:
        """Whether an attempt took more time than it has; the policies file may give more than the row says."""
        return now - lease.claimed_at > self.in_force(lease.kind, lease.owner).timeout

    def seen(self, job: Job[R]) -> Job[R]:
        """The job as people see it: while it is not over, with the limits in force."""
        return job if job.state.is_final else self.in_force(job.kind, job.owner).over(job)
