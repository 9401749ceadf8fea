"""What is in force for the jobs of one kind and owner: the code's policy, and what the file says over it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TypeVar

from mulligan.failure.policy import RetryPolicy
from mulligan.failure.rule import Rule
from mulligan.policies.section import Section
from mulligan.records.job import ONCE, Job

R = TypeVar("R")

# Where the file gives them, they replace those that were stored with a job.
CAPS = ("max_attempts", "max_crashes", "max_snoozes")


@dataclass(frozen=True, slots=True)
class InForce:
    """`rules` are the file's alone, to be asked before the code's. `sources` says which place of the file gave what."""

    policy: RetryPolicy
    timeout: timedelta
    rules: tuple[Rule, ...] = ()
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    version: str | None = None
    """Of the file; None without one."""
    at_most_once: bool = False
    """The code says so, and the file cannot change it."""

    @property
    def caps(self) -> dict[str, int]:
        """Stored with each job when it is enqueued."""
        return ONCE if self.at_most_once else {name: getattr(self.policy, name) for name in CAPS}

    def under(self, section: Section) -> "InForce":
        """The same with what the section says on top."""
        said = {name: value for name, value in section.said().items() if not (self.at_most_once and name in CAPS)}
        rules: tuple[Rule, ...] = said.pop("rules", ())
        sources = {**self.sources, **dict.fromkeys(said, section.path)}
        if rules:
            sources["rules"] = ", ".join(filter(None, (section.path, self.sources.get("rules"))))
        timeout = said.pop("timeout", self.timeout)
        if "backoff" in said:
            said["backoff"] = said["backoff"].over(self.policy.backoff)
        if "limits" in said:
            said["limits"] = {**self.policy.limits, **said["limits"]}
        policy = replace(self.policy, **said) if said else self.policy
        return replace(
            self, policy=policy, timeout=timeout, rules=(*rules, *self.rules), sources=MappingProxyType(sources)
        )

    def over(self, job: Job[R]) -> Job[R]:
        """The job with the limits in force instead of those it was enqueued with."""
        said: dict[str, Any] = {name: getattr(self.policy, name) for name in CAPS if name in self.sources}
        if self.at_most_once or job.at_most_once:
            said = dict(ONCE)
        if "timeout" in self.sources:
            said["timeout"] = self.timeout
        return replace(job, **said) if said else job
