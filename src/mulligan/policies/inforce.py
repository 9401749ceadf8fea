"""What is in force for the jobs of one kind and owner: the code's policy, and what the file says over it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TypeVar

from mulligan.failure.policy import RetryPolicy
from mulligan.failure.rule import Rule
from mulligan.job import Job
from mulligan.policies.section import Section

R = TypeVar("R")

# Stored with each job when it is enqueued. Where the file speaks, its word counts all the same.
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

    def under(self, section: Section) -> "InForce":
        """The same with what the section says on top."""
        said = section.said()
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
        return InForce(policy, timeout, (*rules, *self.rules), MappingProxyType(sources), self.version)

    def over(self, job: Job[R]) -> Job[R]:
        """The job with the limits in force instead of those it was enqueued with."""
        said: dict[str, Any] = {name: getattr(self.policy, name) for name in CAPS if name in self.sources}
        if "timeout" in self.sources:
            said["timeout"] = self.timeout
        return replace(job, **said) if said else job
